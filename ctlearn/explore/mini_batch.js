// Mini-batch: the numbers of mini_batch.py, and their picture: the state's way through
// the plane, its error token by token, and the mean error by batch size and by rate.

const [TOKENS, FIRST] = [12, 50];
const [KEYS, NOISE] = [0, 1];
const RATES = range(6).map((i) => 2 ** (i - 4));
const BATCHES = range(TOKENS).map((i) => i + 1);

// ---------------------------------------------------------------- numbers

function streamOf({ noise, drift, seed }) {
  const keys = range(TOKENS).map((t) => unit(360 * uniform(seed, KEYS, t, 0)));
  const turns = range(TOKENS).map((t) => unit(FIRST + drift * t));
  const maps = turns.map((turn) => turn.map((x) => Math.SQRT2 * x));
  const extra = normal(seed, NOISE, TOKENS, 1).map(([x]) => noise * x);
  return { keys, maps, told: keys.map((key, t) => dot(key, maps[t]) + extra[t]) };
}

// The state before the first token and after each: all errors of a batch at its start.
function pathOf({ keys, told }, batch, rate) {
  const path = [[0, 0]];
  keys.forEach((key, t) => {
    const error = told[t] - dot(path[t - (t % batch)], key);
    path.push(path[t].map((x, c) => x + rate * error * key[c]));
  });
  return path;
}

export function compute(settings) {
  const { batch, rate, read } = settings;
  const stream = streamOf(settings);
  const { maps } = stream;
  const errorsOf = (b, eta) =>
    pathOf(stream, b, eta).slice(1).map((S, t) => distance(S, maps[t]) / 2);
  const here = BATCHES.map((b) => errorsOf(b, rate));
  const tried = BATCHES.map((b) => RATES.map((eta) => mean(errorsOf(b, eta))));
  const path = pathOf(stream, batch, rate);
  const by_rate = tried[batch - 1];
  return {
    ...stream,
    path,
    state: path[read],
    start: path[startOf(settings)],
    errors: here[batch - 1],
    delta: here[0],
    linear: here[TOKENS - 1],
    by_batch: here.map(mean),
    least: tried.map((row) => Math.min(...row)),
    rates: RATES,
    by_rate,
    best: RATES[by_rate.indexOf(Math.min(...by_rate))],
  };
}

// How many tokens were read when the batch of the last one started.
function startOf({ batch, read }) {
  return read ? read - 1 - ((read - 1) % batch) : 0;
}

// ---------------------------------------------------------------- pictures

const SIDE = 264;
const held = (x) => x.map((value) => Math.min(value, 2));

// The plane of keys and states. From where a batch starts its tokens take their steps,
// which are drawn one after another, each along its key.
function plane(numbers, settings, name) {
  const { keys, maps, told, path } = numbers;
  const { batch, read } = settings;
  const node = picture(SIDE, SIDE + 28, "the state's way through the plane");
  write(node, 0, 14, "the state's way", { class: "x-heading x-fill-state" });
  node.append(shape("rect", { y: 26, width: SIDE, height: SIDE, class: "x-frame" }));
  const longest = Math.max(...path.flat().map(Math.abs));
  const scale = SIDE / 2 / clamp(1.15 * longest, 1.75, 9);
  const half = SIDE / 2;
  const edge = (x) => clamp(scale * x, 5 - half, half - 5);
  const at = ([right, up]) => [half + edge(right), 26 + half - edge(up)];
  const line = (points, kind) => {
    const [x, y] = columns(points.map(at));
    node.append(shape("path", { d: joined(x, y), class: `x-line ${kind}` }));
  };
  if (read) {
    // all states that answer the newest key rightly lie on a line across it
    const [right, up] = keys[read - 1];
    const foot = keys[read - 1].map((x) => told[read - 1] * x);
    const far = [-9, 9].map((turn) => [foot[0] - turn * up, foot[1] + turn * right]);
    const [from, to] = far.map(([x, y]) => [half + scale * x, 26 + half - scale * y]);
    const clip = `${NAME}-${name}`;
    const frame = shape("rect", { y: 26, width: SIDE, height: SIDE });
    node.append(shape("clipPath", { id: clip }, frame));
    const d = joined([from[0], to[0]], [from[1], to[1]]);
    const across = { class: "x-line x-thin x-stroke-key", "stroke-dasharray": "4 4" };
    node.append(shape("path", { d, ...across, "clip-path": `url(#${clip})` }));
  }
  line(maps.slice(0, Math.max(read, 1)), "x-thin x-stroke-value");
  line(path.slice(0, read + 1), "x-stroke-state");
  path.slice(0, read + 1).forEach((S, t) => {
    const [cx, cy] = at(S);
    const start = t % batch === 0;
    const kind = start || t === read ? "x-fill-state x-halo" : "x-fill-state";
    node.append(shape("circle", { cx, cy, r: start ? 5.5 : 2.6, class: kind }));
  });
  const [x, y] = at(maps[Math.max(read, 1) - 1]);
  const d = `M${x} ${y - 8}l8 8-8 8-8-8z`;
  node.append(shape("path", { d, class: "x-hollow x-stroke-value" }));
  tick(node, x - 11, y + 4, "map", "end", "value");
  const [sx, sy] = at(path[read]);
  // at the top of the frame below the state, where no heading stands
  tick(node, sx + 9, sy + (sy < 44 ? 16 : -7), "S", "start", "state");
  const low = 26 + SIDE - 8;
  if (read) tick(node, 8, low, "dashed: right for the newest key", "start", "key");
  return node;
}

function overTokens({ errors, delta, linear }, { batch, read }, width, height) {
  const title = "error after each token";
  const node = picture(width, height + 56, title);
  const lines = [
    { values: held(delta), dash: "5 3", kind: "x-thin", label: "delta" },
    { values: held(linear), dash: "1.5 3", kind: "x-thin", label: "linear" },
    { values: held(errors), role: "error", label: `b = ${batch}` },
  ];
  const axes = { x: 0, y: 28, width, height, title, across: "token", lines };
  const { acrossAt, upAt } = chart(node, axes);
  if (read) {
    const at = { cx: acrossAt(read - 1), cy: upAt(lines[2].values[read - 1]), r: 4.5 };
    node.append(shape("circle", { ...at, class: "x-fill-error" }));
  }
  return node;
}

// A mean error by one of the two settings, with a knob where it stands.
function bySetting(name, { title, at, now, min, max, text, width, ...shown }) {
  const node = picture(width, 154, title, "group");
  const axes = chart(node, { x: 0, y: 28, width, height: 98, title, ...shown });
  const own = shown.lines[0].values;
  const [low, high] = [Math.floor(at), Math.ceil(at)].map((i) => own[i]);
  const cy = axes.upAt(low + (at - Math.floor(at)) * (high - low));
  const what = { id: name, label: `${name} in the picture`, said: brief(now) };
  const place = { cx: axes.acrossAt(at), cy, role: name === "rate" ? "rate" : "size" };
  knob(node, { ...place, text, min, max, now, ...what });
  return { node, axes };
}

function draw(numbers, view) {
  const settings = view.settings();
  const { batch, rate } = settings;
  const narrow = view.width < 560;
  // the stage leaves 16 pixels between pictures, and its width was rounded
  const width = narrow ? view.width : view.width - SIDE - 18;
  const half = narrow ? view.width : (view.width - 18) / 2;
  const sizes = bySetting("batch", {
    lines: [
      { values: held(numbers.by_batch), role: "error", label: "this η" },
      { values: held(numbers.least), role: "rate", dash: "5 3", label: "best η" },
    ],
    title: "mean error by batch size: drag b",
    across: "batch size b",
    ends: ["1: delta", `${TOKENS}: linear`],
    ...{ at: batch - 1, now: batch, min: 1, max: TOKENS, text: "b" },
    width: half,
  });
  const rates = bySetting("rate", {
    lines: [{ values: held(numbers.by_rate), role: "error", label: `b = ${batch}` }],
    title: "mean error by step size: drag η",
    across: "step size η",
    ends: ["1/16", "2"],
    ...{ at: Math.log2(rate) + 4, now: rate, min: 1 / 16, max: 2, text: "η" },
    width: half,
  });
  view.axes = { batch: sizes.axes, rate: rates.axes };
  return [
    plane(numbers, settings, view.id),
    overTokens(numbers, settings, width, narrow ? 98 : SIDE - 28),
    sizes.node,
    rates.node,
  ];
}

// ---------------------------------------------------------------- words

function readouts({ by_batch, least, best }, { batch }) {
  return [
    ["mean error", "error", round(by_batch[batch - 1])],
    ["at its best $η$", "rate", `${round(least[batch - 1])} (${brief(best)})`],
    ["delta, $b=1$", "size", round(by_batch[0])],
    [`linear attention, $b=${TOKENS}$`, "size", round(by_batch[TOKENS - 1])],
  ];
}

function sentence({ by_batch, least, best }, settings) {
  const { batch, rate, read } = settings;
  if (!read) return "Nothing is read yet, and the state is the origin.";
  const first = startOf(settings) + 1;
  const how =
    batch === 1
      ? "Each token starts where the last one ended: the delta rule"
      : batch === TOKENS
        ? `All start from the origin: linear attention, ${brief(rate)} times its sum`
        : first === read
          ? `Token ${read} starts a batch`
          : `Token ${read} takes its step from where token ${first} did`;
  const all = `over all tokens the error is ${round(by_batch[batch - 1])}`;
  const tuned = `and ${round(least[batch - 1])} at the best step size, ${brief(best)}`;
  return `${how}; ${all}, ${tuned}.`;
}

function rows({ keys, told, path, errors }, { batch }) {
  return {
    head: ["token", "batch", "key", "told", "state after it", "error"],
    rows: keys.map((key, t) => [
      String(t + 1),
      String(Math.floor(t / batch) + 1),
      listed(key),
      round(told[t]),
      listed(path[t + 1]),
      round(errors[t], 3),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function put(id, next, { batch, rate }) {
  if (id === "batch") return { batch: limited("batch", next(batch - 1) + 1) };
  return { rate: limited("rate", 2 ** (next(Math.log2(rate) + 4) - 4)) };
}

function drag(id, { x }, settings, { axes }) {
  return put(id, () => axes[id].placeAt(x), settings);
}

function nudge(id, steps, settings) {
  return put(id, (at) => at + steps * (id === "batch" ? 1 : 0.25), settings);
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
