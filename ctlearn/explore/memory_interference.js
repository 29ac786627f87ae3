// Memory interference: the numbers of memory_interference.py, and their picture. One
// row is one pair: its cosines with the others, what was written, what comes back.

const D_V = 8;
const SEEDS = 32;
const [KEYS, VALUES, SHARED] = [0, 1, 2];

// ---------------------------------------------------------------- numbers

function pairsOf(seed, { d_k, pairs, similarity, angles }) {
  const k = similar(seed, [KEYS, SHARED], pairs, d_k, similarity);
  if (d_k === 2) {
    angles.slice(0, pairs).forEach((angle, i) => (k[i] = unit(angle)));
  }
  return { k, v: normal(seed, VALUES, pairs, D_V) };
}

function errorOf(returned, wanted) {
  let sum = 0;
  for (let j = 0; j < D_V; j++) sum += (returned[j] - wanted[j]) ** 2;
  return sum / D_V;
}

// The mean error of all pairs written so far, after each write.
function curveOf({ k, v }, states) {
  return k.map((_, m) =>
    mean(range(m + 1).map((i) => errorOf(ask(states[m + 1], k[i]), v[i]))),
  );
}

export function compute(settings) {
  const { rule, d_k, pairs, similarity, seed, angles } = settings;
  const written = Math.min(settings.written, pairs);
  const drawn = pairsOf(seed, settings);
  const { k, v } = drawn;
  const states = statesOf(drawn, settings);
  const returned = k.map((key) => ask(states[written], key));
  const curve = curveOf(drawn, states);
  const curves = range(SEEDS).map((i) => {
    const other = pairsOf(seed + 1 + i, settings);
    return curveOf(other, statesOf(other, settings));
  });
  const average = range(pairs).map((m) => mean(curves.map((one) => one[m])));
  const spread = average.map((centre, m) =>
    Math.sqrt(mean(curves.map((one) => (one[m] - centre) ** 2))),
  );
  const gram = table(pairs, pairs, (i, j) => dot(k[i], k[j]));
  const total = gram.flat().reduce((sum, x) => sum + x, 0);
  const turned = d_k === 2 && angles.length > 0;
  const independent = rule === "add" && similarity === 0 && !turned;
  return {
    keys: k,
    values: v,
    gram,
    state: states[written],
    returned,
    errors: range(written).map((i) => errorOf(returned[i], v[i])),
    curve,
    average,
    spread,
    theory: independent ? range(pairs).map((m) => m / d_k) : [],
    error: written ? curve[written - 1] : null,
    cosine: pairs > 1 ? (total - pairs) / (pairs * (pairs - 1)) : null,
  };
}

// ---------------------------------------------------------------- pictures

// The directions of the keys in the plane; each can be turned by hand.
function circle(numbers, { asked, written, x, y, radius }) {
  const group = shape("g", {});
  const [cx, cy] = [x + radius, y + radius];
  group.append(shape("circle", { cx, cy, r: radius, class: "x-ring" }));
  write(group, x - 16, y - 22, "keys: turn one", { class: "x-heading" });
  // the one that asks lies on top
  const others = range(numbers.keys.length).filter((i) => i !== asked);
  for (const i of [...others, asked]) {
    const angle = degrees(numbers.keys[i]);
    const kinds = [i === asked && "x-asked", i >= written && "x-pale"];
    spoke(group, {
      cx,
      cy,
      radius,
      angle,
      role: "key",
      id: `key-${i}`,
      label: `direction of key ${i + 1}`,
      said: `${angle} degrees${i < written ? "" : ", not written yet"}`,
      text: String(i + 1),
      kinds: kinds.filter(Boolean).join(" "),
      pick: i + 1,
    });
  }
  return group;
}

// The memory, with the key that asks at its side and the answer below it.
function memory(numbers, { asked, written, x, y, cell }) {
  const group = shape("g");
  const d_k = numbers.state.length;
  const height = clamp(150 / d_k, 5, 20);
  const left = x + 34;
  const limit = Math.max(2.5, ...numbers.state.flat().map(Math.abs));
  const column = { x, y, width: 20, height, role: "key", limit: 1 };
  heat(group, numbers.keys[asked].map((entry) => [entry]), column);
  const middle = { class: "x-heading x-fill-key", "text-anchor": "middle" };
  write(group, x + 10, y - 12, "k", middle);
  const square = { x: left, y, width: cell, height, role: "state", limit };
  heat(group, numbers.state, square);
  const heading = `memory S after ${written}`;
  write(group, left, y - 12, heading, { class: "x-heading x-fill-state" });
  const below = y + d_k * height + 14;
  const strip = { x: left, width: cell, height: 14, limit: 2.5 };
  heat(group, [numbers.returned[asked]], { ...strip, y: below, role: "output" });
  heat(group, [numbers.values[asked]], { ...strip, y: below + 20, role: "value" });
  const end = left + D_V * cell + 6;
  write(group, end, below + 11, "answer", { class: "x-tick x-fill-output" });
  write(group, end, below + 31, "wanted", { class: "x-tick x-fill-value" });
  return { group, width: end + 44 - x, height: below + 34 - y };
}

function lines(numbers, settings) {
  const { average, spread, curve, theory } = numbers;
  const written = Math.min(settings.written, settings.pairs);
  const all = [
    { values: curve, role: "error", label: "this draw" },
    { values: average, dash: "5 3", label: `mean of ${SEEDS}` },
  ];
  if (theory.length) all.push({ values: theory, dash: "1.5 3", label: "theory" });
  return {
    title: "recall error",
    across: "pairs written",
    lines: all,
    band: {
      low: average.map((x, m) => Math.max(0, x - spread[m])),
      high: average.map((x, m) => x + spread[m]),
    },
    mark: written ? { at: written - 1, value: curve[written - 1] } : null,
  };
}

// The crosstalk of every pair: cosines of its key with all keys.
function crosstalk(parent, numbers, { written, x, y, cell, height }) {
  const faint = (i, j) => Math.max(i, j) >= written;
  const square = { x, y, width: cell, height, role: "key", limit: 1, faint };
  heat(parent, numbers.gram, square);
  const text = "crosstalk k_i·k_j";
  write(parent, x, y - 12, text, { class: "x-heading x-fill-key" });
}

// What was written, what comes back, and how far apart they are.
function recall(parent, numbers, { written, x, y, cell, height, room }) {
  const rows = { y, width: cell, height, limit: 2.5 };
  const faint = (i) => i >= written;
  heat(parent, numbers.values, { ...rows, x, role: "value", faint });
  write(parent, x, y - 12, "wanted v_i", { class: "x-heading x-fill-value" });
  const second = x + D_V * cell + 16;
  const came = numbers.returned.slice(0, written);
  heat(parent, came, { ...rows, x: second, role: "output" });
  write(parent, second, y - 12, "answer", { class: "x-heading x-fill-output" });
  const third = second + D_V * cell + 16;
  const top = above(Math.max(1, ...numbers.errors));
  const length = room - (third - x) - 36;
  write(parent, third, y - 12, "error", { class: "x-heading x-fill-error" });
  numbers.errors.forEach((error, i) => {
    const width = Math.max(1, (length * error) / top);
    const [up, thick] = [y + i * height + height * 0.2, height * 0.55];
    const bar = { x: third, y: up, width, height: thick, class: "x-fill-error" };
    parent.append(shape("rect", bar));
    const end = { class: "x-tick" };
    write(parent, third + width + 5, up + thick / 2 + 4, round(error), end);
  });
}

function draw(numbers, view) {
  const settings = view.settings();
  const { pairs, d_k } = settings;
  const written = Math.min(settings.written, pairs);
  const asked = (view.pointed ?? Math.min(settings.pair, pairs)) - 1;
  const { width } = view;
  const narrow = width < 560;
  const now = { asked, written };

  // what is in the memory, and how the error has grown
  const top = 30;
  const radius = d_k === 2 ? 76 : 0;
  const side = radius ? 2 * radius + 44 : 0;
  const first = picture(width, 0, "keys, memory and error", "group");
  const beside = narrow && radius ? 0 : side;
  const under = narrow && radius ? 2 * radius + 60 : 0;
  if (radius) first.append(circle(numbers, { ...now, x: 16, y: top + 10, radius }));
  const box = { x: beside, y: top + under, cell: 18 };
  const block = memory(numbers, { ...now, ...box });
  const right = beside + block.width + 28;
  const plot =
    width - right < 260
      ? { x: beside, y: box.y + block.height + 44, height: narrow ? 130 : 110 }
      : { x: right, y: top, height: 150 };
  plot.width = width - plot.x;
  first.append(block.group);
  chart(first, { ...plot, ...lines(numbers, settings) });
  const ends = [box.y + block.height, plot.y + plot.height + 24, side && 210];
  const low = Math.max(...ends);
  first.setAttribute("height", low);
  first.setAttribute("viewBox", `0 0 ${width} ${low}`);

  // one row a pair
  const parts = [first];
  const label =
    `${written} of ${pairs} pairs: cosines of their keys, ` +
    "wanted and returned values, errors";
  if (narrow) {
    const cell = Math.min(20, (width - 24) / pairs);
    const square = picture(width, top + pairs * cell + 8, "cosines of the keys");
    numbering(square, { count: pairs, x: 16, y: top, height: cell });
    crosstalk(square, numbers, { ...now, x: 22, y: top, cell, height: cell });
    const across = { width: pairs * cell + 5, x: 22, y: top, height: cell };
    rowFrames(square, { count: pairs, asked, ...across });
    const rows = picture(width, top + pairs * 18 + 8, label);
    numbering(rows, { count: pairs, x: 16, y: top, height: 18 });
    const small = clamp((width - 150) / (2 * D_V), 8, 13);
    const place = { x: 22, y: top, height: 18 };
    recall(rows, numbers, { ...now, ...place, cell: small, room: width - 22 });
    rowFrames(rows, { count: pairs, asked, ...place, width: width - 22 });
    parts.push(square, rows);
  } else {
    const height = Math.min(22, 320 / pairs, (width - 22 - 150) / (pairs + 2 * D_V));
    const cell = Math.min(height, 18);
    const rows = picture(width, top + pairs * height + 8, label);
    numbering(rows, { count: pairs, x: 16, y: top, height });
    crosstalk(rows, numbers, { ...now, x: 22, y: top, cell: height, height });
    const x = 22 + Math.max(pairs * height, 100) + 20;
    recall(rows, numbers, { ...now, x, y: top, cell, height, room: width - x });
    rowFrames(rows, { count: pairs, asked, x: 22, y: top, height, width: width - 22 });
    parts.push(rows);
  }
  return parts;
}

// ---------------------------------------------------------------- words

function readouts(numbers, { pairs, written }) {
  const n = Math.min(written, pairs);
  const { error, average, theory, cosine } = numbers;
  return [
    ["recall error", "error", round(error)],
    [`mean of ${SEEDS} draws`, "size", n ? round(average[n - 1]) : "–"],
    ["theory $(n−1)/d_k$", "size", theory.length && n ? round(theory[n - 1]) : "–"],
    ["mean cosine", "key", round(cosine)],
  ];
}

function sentence(numbers, settings) {
  const { gram, errors, error, theory } = numbers;
  const n = Math.min(settings.written, settings.pairs);
  if (n === 0) return "Nothing is written yet: the memory answers zero to every key.";
  const i = Math.min(settings.pair, settings.pairs) - 1;
  const count = n === 1 ? "One pair is written" : `${n} pairs are written`;
  const expected = theory.length
    ? `, where theory expects ${round(theory[n - 1])}`
    : "";
  const said = `${count}; the mean-square recall error is ${round(error)}${expected}.`;
  if (i >= n) return `${said} Pair ${i + 1} is not among them yet.`;
  const others = range(n).filter((j) => j !== i);
  if (!others.length) return said;
  const cosine = (j) => Math.abs(gram[i][j]);
  const near = others.reduce((a, b) => (cosine(b) > cosine(a) ? b : a));
  const own = `Pair ${i + 1} comes back with error ${round(errors[i])}`;
  const at = `at cosine ${round(gram[i][near])}`;
  const close = `the key most like its own is key ${near + 1}, ${at}`;
  return `${said} ${own}; ${close}.`;
}

function rows(numbers, { pairs, written }) {
  const n = Math.min(written, pairs);
  return {
    head: [
      "pair",
      "error",
      "mean error after it",
      "cosines with keys 1 to $N$",
      "wanted",
      "answer",
    ],
    rows: range(pairs).map((i) => [
      String(i + 1),
      i < n ? round(numbers.errors[i], 4) : "not written",
      round(numbers.curve[i], 4),
      listed(numbers.gram[i]),
      listed(numbers.values[i]),
      listed(numbers.returned[i]),
    ]),
  };
}

// ---------------------------------------------------------------- hands

// Turning one key by hand fixes the directions of all.
function turn(id, next, settings) {
  const angles = pairsOf(settings.seed, settings).k.map(degrees);
  return { angles: withTurned(angles, id, next), pair: Number(id.slice(4)) + 1 };
}

// A key drawn anew is no longer the one that was turned.
function follow(changed) {
  const anew = ["seed", "similarity"].some((name) => name in changed);
  return anew && !("angles" in changed) ? { angles: [] } : {};
}

const pick = (pair) => ({ pair });
const hands = { follow, pick, ...dialHands({ cx: 92, cy: 116 }, turn) };

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, ...hands }),
};
