// Workbench: the numbers of workbench.py, and their picture: the update that five
// choices mean, and how it does four jobs beside every mechanism of the package.

const SAME = 0.005; // errors that differ by less are one

// ---------------------------------------------------------------- the jobs

const at = (list, places) => places.map((i) => list[i]);
const drawn = (seed, stream, t, n) => Math.floor(n * uniform(seed, stream, t, 0));
const draws = (seed, stream, rows, columns) =>
  directions(normal(seed, stream, rows, columns));

// What is told at each token, what is asked after it, and what is wanted.
const MAKERS = {
  recall(seed) {
    const [k, v] = [draws(seed, 0, T, D_K), normal(seed, 1, T, D_V)];
    const past = range(T).map((t) => drawn(seed, 2, t, t + 1));
    return { q: at(k, past), k, v, wanted: at(v, past) };
  },
  rebinding(seed) {
    const [keys, v] = [draws(seed, 3, BOUND, D_K), normal(seed, 4, T, D_V)];
    const bound = range(T).map((t) => (t < BOUND ? t : drawn(seed, 5, t, BOUND)));
    const asked = range(T).map((t) => drawn(seed, 6, t, Math.min(t + 1, BOUND)));
    const latest = asked.map((key, t) => bound.lastIndexOf(key, t));
    return { q: at(keys, asked), k: at(keys, bound), v, wanted: at(v, latest) };
  },
  drift(seed) {
    const [k, q] = [draws(seed, 7, T, D_K), draws(seed, 8, T, D_K)];
    const maps = [normal(seed, 9, D_K, D_V)];
    const [stays, comes] = [Math.sqrt(1 - DRIFT), Math.sqrt(DRIFT)];
    for (const t of range(T)) {
      const old = maps[t].map((row) => row.map((x) => stays * x));
      maps.push(plus(old, normal(seed, 10 + t, D_K, D_V), comes));
    }
    const told = (x) => x.map((row, t) => ask(maps[t + 1], row));
    return { q, k, v: told(k), wanted: told(q) };
  },
  tracking(seed) {
    const bits = range(T).map((t) => t > 0 && uniform(seed, 50, t, 0) < 0.5);
    const key = (place) => range(D_K).map((c) => Number(c === place));
    const [value] = normal(seed, 51, 1, D_V);
    const ones = bits.map((_, t) => bits.slice(0, t + 1).filter(Boolean).length);
    return {
      q: bits.map(() => key(0)),
      k: bits.map((bit, t) => key(t === 0 || bit ? 0 : 1)),
      v: bits.map((_, t) => value.map((x) => (t ? 0 : x))),
      wanted: ones.map((n) => value.map((x) => (n % 2 ? -x : x))),
    };
  },
};
const STREAMS = JOBS.map((job) => range(SEEDS).map(MAKERS[job]));

// ---------------------------------------------------------------- numbers

const FEATURES = {
  matrix: (x) => x,
  features: (x) => [...x, ...x.map((entry) => -entry)].map((y) => Math.max(y, 0)),
};

function capped(e) {
  const length = Math.sqrt(dot(e, e));
  return e.map((entry) => entry * (length > CAP ? CAP / length : 1));
}

const SLOPES = {
  dot: (z, v) => v.map((entry) => -entry),
  squared: (z, v) => z.map((entry, j) => entry - v[j]),
  capped: (z, v) => capped(SLOPES.squared(z, v)),
};

// What each channel keeps at every token.
function keptBy({ control, keep }, n) {
  if (control === "none") return range(n).map(() => 1);
  return range(n).map((c) => (control === "rate" ? keep : keep ** ((2 * c) / (n - 1))));
}

// The answers of the composed memory to each token of a stream.
function composed({ k, v, q }, settings) {
  const { function_class, objective, optimiser, schedule, beta } = settings;
  const phi = FEATURES[function_class];
  const [keys, asked] = [k, q].map((x) => x.map(phi));
  const a = keptBy(settings, keys[0].length);
  const zeros = table(a.length, v[0].length, () => 0);
  let [S, P, F] = [zeros, zeros, zeros];
  let H = table(a.length, a.length, () => 0);
  return keys.map((x, t) => {
    if (t % LOOK === 0) F = S;
    const kept = S.map((row, c) => row.map((entry) => a[c] * entry));
    const now = schedule === "batch" ? F : kept;
    let D = zeros;
    for (let j = schedule === "window" ? Math.max(t - LOOK + 1, 0) : t; j <= t; j++) {
      D = remember(D, keys[j], SLOPES[objective](ask(now, keys[j]), v[j]));
    }
    if (optimiser === "momentum") D = P = plus(D, P, MOMENTUM);
    if (optimiser === "newton") {
      H = H.map((row, i) => row.map((y, j) => a[i] * a[j] * y + x[i] * x[j]));
      D = solve(H.map((row, i) => row.map((y, j) => y + (i === j ? RIDGE : 0))), D);
    }
    S = plus(kept, D, -beta);
    return ask(S, asked[t]);
  });
}

// What is missed of the right answers at the best scale: 0 nothing, 1 all of it.
function missed(streams, settings) {
  const said = streams.flatMap((stream) => composed(stream, settings)).flat();
  const wanted = streams.flatMap((stream) => stream.wanted).flat();
  // first to a size that can be squared
  const most = Math.max(...said.map(Math.abs));
  const scaled = said.map((x) => x / most);
  const shares = dot(scaled, scaled) * dot(wanted, wanted);
  const error = 1 - dot(scaled, wanted) ** 2 / shares;
  return Number.isFinite(error) ? error : 1;
}

export function compute(settings) {
  const errors = STREAMS.map((streams) => missed(streams, settings));
  const all = Object.values(NAMED).map((one) => one.errors);
  return {
    errors,
    other: NAMED[settings.beside].errors,
    better: errors.map((own, i) => all.filter((one) => one[i] < own - SAME).length),
  };
}

// ---------------------------------------------------------------- pictures

const LETTERS = {
  ...{ S: "state", P: "state", F: "state", H: "key", x: "key", k: "key", v: "value" },
  ...{ q: "query", o: "output", e: "error", α: "decay", β: "rate" },
};

// The update as it is carried out at every token, a line for each act; letters stand
// between dollars.
function updateOf({ function_class, objective, optimiser, schedule, control }) {
  const at = schedule === "batch" ? "$F$" : "$S$";
  const both = (x) => `[relu(${x}), relu(−${x})]`;
  const features = function_class === "matrix" ? (x) => x : both;
  const error = `$e$ = ${at}ᵀ$x$ − $v$`;
  const sum = schedule === "window" ? "Σ " : "";
  const write = `${sum}$x$ $e$ᵀ`;
  const newton = optimiser === "newton" ? `($H$ + ${RIDGE} I)⁻¹ ` : "";
  const faded = { none: "$H$", rate: "$α$² $H$", channels: "Diag($α$) $H$ Diag($α$)" };
  const lines = [
    `$x$ = ${features("$k$")}`,
    schedule === "batch" &&
      objective !== "dot" &&
      `$F$ ← $S$ at the first of every ${LOOK} tokens`,
    { rate: "$S$ ← $α$ $S$", channels: "$S$ ← Diag($α$) $S$" }[control],
    { dot: "$e$ = −$v$", squared: error, capped: `${error}, cut to ${CAP}` }[objective],
    optimiser === "newton" && `$H$ ← ${faded[control]} + $x$ $x$ᵀ`,
    optimiser === "momentum" && `$P$ ← ${MOMENTUM} $P$ + ${write}`,
    `$S$ ← $S$ − $β$ ${optimiser === "momentum" ? "$P$" : newton + write}`,
    schedule === "window" && `with Σ over the last ${LOOK} pairs`,
    `$o$ = $S$ᵀ${features("$q$")}`,
  ];
  return lines.filter(Boolean);
}

function update(settings) {
  const lines = updateOf(settings).map((line) => {
    const parts = line.split(/(\$[^$]+\$)/);
    const shown = parts.flatMap((part) => words(part, LETTERS[part[1]]));
    return element("p", {}, ...shown);
  });
  const title = element("p", { class: "x-heading" }, "at every token");
  return element("div", { class: "x-update" }, title, ...lines);
}

const spoken = (errors) => errors.map((error) => round(error)).join(" · ");

// Four scales from no error to nothing known: a stroke for each mechanism, a ring for
// the one beside, a disc for the memory composed.
function gauges({ errors }, chosen, width, pointed) {
  const node = picture(width, 250, "error at four jobs, of all mechanisms");
  write(node, 0, 12, "error: yours, and every mechanism's", { class: "x-heading" });
  const [left, right] = [74, width - 40];
  const x = (error) => left + (right - left) * error;
  const named = pointed ? `${chosen.title}: ${spoken(chosen.errors)}` : chosen.title;
  tick(node, 0, 32, `ring: ${named}`, "start", "query");
  tick(node, width, 32, "disc: yours", "end", "state");
  const all = Object.values(NAMED);
  JOBS.forEach((job, i) => {
    const y = 60 + 44 * i;
    write(node, 0, y + 4, job);
    node.append(shape("line", { x1: left, x2: right, y1: y, y2: y, class: "x-grid" }));
    all.forEach((one, n) => {
      const middle = x(one.errors[i]);
      const stroke = { x: middle - 1, y: y - 8, width: 2, height: 16 };
      node.append(shape("rect", { ...stroke, class: "x-dot x-pale" }));
      const hit = { x: middle - 3, y: y - 14, width: 6, height: 28, class: "x-touch" };
      node.append(shape("rect", { ...hit, "data-pick": n + 1 }));
    });
    const ring = { cx: x(chosen.errors[i]), cy: y, r: 7.5 };
    node.append(shape("circle", { ...ring, class: "x-hollow x-stroke-query" }));
    const disc = { cx: x(errors[i]), cy: y, r: 5, class: "x-fill-state" };
    node.append(shape("circle", disc));
    tick(node, width, y + 4, round(errors[i]), "end", "state");
  });
  tick(node, left, 234, "0: all right", "start");
  tick(node, right, 234, "1: nothing known", "end");
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const chosen = Object.values(NAMED)[view.pointed - 1] ?? NAMED[settings.beside];
  const width = view.width < 600 ? view.width : view.width - 246;
  return [update(settings), gauges(numbers, chosen, width, view.pointed)];
}

// ---------------------------------------------------------------- words

// The mechanisms that stand where these five choices do.
function residents(settings) {
  const axes = ["function_class", "objective", "optimiser", "schedule", "control"];
  const cell = CELLS[axes.map((axis) => settings[axis]).join(" ")];
  return Object.values(NAMED).filter(({ cells }) => cells.includes(cell));
}

function readouts({ errors, other }, { beside }) {
  const own = JOBS.map((job, i) => [job, "state", round(errors[i])]);
  return [...own, [NAMED[beside].title, "query", spoken(other)]];
}

function sentence({ better }, settings) {
  const here = residents(settings).map(({ title }) => title);
  const who = here.length
    ? `In this cell of the map: ${here.join(", ")}.`
    : "No mechanism of the package is in this cell of the map.";
  const counts = JOBS.map((job, i) => `${better[i]} at ${job}`);
  const last = counts.pop();
  const all = `Of all ${Object.keys(NAMED).length} at their best`;
  return `${who} ${all}, ${counts.join(", ")} and ${last} do better.`;
}

function rows({ errors }) {
  const line = (name, all) => [name, ...all.map((error) => round(error, 3))];
  const others = Object.values(NAMED).map(({ title, errors }) => line(title, errors));
  return { head: ["memory", ...JOBS], rows: [line("yours", errors), ...others] };
}

// ---------------------------------------------------------------- hands

const pick = (number) => ({ beside: Object.keys(NAMED)[number - 1] });

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, pick }),
};
