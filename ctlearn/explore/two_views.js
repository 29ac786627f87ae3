// Two views: the numbers of two_views.py, and their picture: values and both views'
// answers in their plane, the pairs of linear attention, the two states, and the loss.

const [TOKENS, MOST_STEPS] = [4, 4];
const [HIDDEN, LENGTH, SHARE, DRAW] = [5, 2, 0.1, 71];
const VALUES = [[0.9, 0.4], [-0.4, 0.9], [-0.8, -0.5], [0.5, -0.8]];
const OBJECTIVES = {
  dot: { slope: (z, v) => -v, loss: (z, v) => -dot(z, v) },
  turned: { slope: (z, v) => v, loss: dot },
  square: { slope: (z, v) => z - v, loss: (z, v) => distance(z, v) / 2 },
};

// ---------------------------------------------------------------- numbers

// A learner is its last weights W and, if its features learn too, W_0 and W_2.
function learner(features) {
  if (features === "static") return { W: table(TOKENS + 1, 2, () => 0) };
  const [W_0, W_2] = [0, 1].map((stream) => {
    const rows = directions(normal(DRAW, stream, HIDDEN, TOKENS + 1));
    return columns(rows).map((row) => row.map((x) => LENGTH * x));
  });
  return { W: table(HIDDEN, 2, () => 0), W_0, W_2 };
}

const logistic = (x) => 1 / (1 + Math.exp(-x));

function featuresOf({ W_0, W_2 }, x) {
  if (!W_0) return x;
  const value = ask(W_2, x);
  return ask(W_0, x).map((z, i) => z * logistic(z) * value[i]);
}

const readAt = (f, x) => ask(f.W, featuresOf(f, x));

// The learner after a step in which its answer at x is to move along g.
function stepped(f, x, g) {
  const W = remember(f.W, featuresOf(f, x), g);
  if (!f.W_0) return { W };
  const [gate, value] = [ask(f.W_0, x), ask(f.W_2, x)];
  const hidden = f.W.map((row) => SHARE * dot(row, g));
  const slope = (z) => logistic(z) * (1 + z * (1 - logistic(z)));
  return {
    W,
    W_0: remember(f.W_0, x, hidden.map((h, i) => h * value[i] * slope(gate[i]))),
    W_2: remember(f.W_2, x, hidden.map((h, i) => h * gate[i] * logistic(gate[i]))),
  };
}

// Each unit's weights at the length they started with, or at 1 if they were nothing.
function normalised(f, first) {
  const lengths = (W) => columns(W).map((column) => Math.sqrt(dot(column, column)));
  const kept = ([name, W]) => {
    const then = lengths(first[name]);
    const factors = lengths(W).map((now, j) => (then[j] || 1) / (now + 1e-5));
    return [name, W.map((row) => row.map((x, j) => x * factors[j]))];
  };
  return Object.fromEntries(Object.entries(f).map(kept));
}

// The learner before the first token and after each, and the pairs of all its steps.
function trainedOn(keys, { features, objective, weights, rate }, steps) {
  const first = learner(features);
  const [stages, stored, written] = [[first], [], []];
  const { slope } = OBJECTIVES[objective];
  keys.forEach((key, t) => {
    let f = stages[t];
    range(steps).forEach(() => {
      const g = readAt(f, key).map((z, j) => -rate * slope(z, VALUES[t][j]));
      stored.push(featuresOf(f, key));
      written.push(g);
      f = stepped(f, key, g);
      if (weights === "normalised") f = normalised(f, first);
    });
    stages.push(f);
  });
  return { stages, stored, written };
}

export function compute(settings) {
  const { objective, inner, cosine, read } = settings;
  const keys = atOneCosine(TOKENS, cosine);
  const runs = range(MOST_STEPS + 1).map((n) => trainedOn(keys, settings, n));
  const { stages, stored, written } = runs[inner];
  const trained = stages.map((f) => keys.map((key) => readAt(f, key)));
  // linear attention: the query's features against those of each pair so far
  const linear = stages.map((f, t) =>
    keys.map((key) => {
      const query = featuresOf(f, key);
      const add = (sum, x, j) => plus([sum], [written[j]], dot(query, x))[0];
      return stored.slice(0, t * inner).reduce(add, [0, 0]);
    }),
  );
  const write = (S, x, j) => remember(S, x, written[j]);
  const ends = runs.map((run) => keys.map((key) => readAt(run.stages[TOKENS], key)));
  const overTokens = (measure) =>
    ends.map((end) => mean(end.map((z, t) => measure(z, VALUES[t]))));
  return {
    keys,
    values: VALUES,
    stored,
    written,
    trained_state: stages[read].W,
    state: stored.slice(0, read * inner).reduce(write, stages[0].W),
    trained: trained[read],
    linear: linear[read],
    gaps: range(TOKENS).map((t) =>
      Math.max(...plus(trained[t + 1], linear[t + 1], -1).flat().map(Math.abs)),
    ),
    times: VALUES.slice(0, read).map((v, t) => dot(trained[read][t], v) / dot(v, v)),
    errors: overTokens(distance),
    losses: overTokens(OBJECTIVES[objective].loss),
  };
}

// ---------------------------------------------------------------- pictures

const SIDE = 224;

// Values and answers; the ray through a value is where its multiples lie.
function plane(numbers, { read }) {
  const { values, trained, linear } = numbers;
  const node = picture(SIDE, SIDE + 28, "values, and both views' answers to every key");
  write(node, 0, 14, "values and answers", { class: "x-heading x-fill-output" });
  node.append(shape("rect", { y: 26, width: SIDE, height: SIDE, class: "x-frame" }));
  const all = [...trained, ...linear].flat().map(Math.abs);
  const reach = clamp(1.15 * Math.max(...all), 1.2, 5);
  const [middle, half] = [26 + SIDE / 2, SIDE / 2];
  const held = (x) => (half - 7) * clamp(x / reach, -1, 1);
  const at = ([right, up]) => [half + held(right), middle - held(up)];
  values.forEach((value, i) => {
    const [x, y] = at(value);
    const most = Math.max(...value.map(Math.abs));
    const [fx, fy] = at(value.map((entry) => (entry * reach) / most));
    const ray = { d: joined([half, fx], [middle, fy]), class: "x-line x-thin" };
    node.append(shape("path", { ...ray, opacity: 0.35, "stroke-dasharray": "1.5 3" }));
    const diamond = `M${x} ${y - 7}l7 7-7 7-7-7z`;
    node.append(shape("path", { d: diamond, class: "x-hollow x-stroke-value" }));
    tick(node, x + 9, y + 4, String(i + 1), "start", "value");
  });
  range(read).forEach((i) => {
    const [[cx, cy], [sx, sy]] = [trained[i], linear[i]].map(at);
    node.append(shape("circle", { cx, cy, r: 4, class: "x-fill-output" }));
    const square = { x: sx - 6, y: sy - 6, width: 12, height: 12 };
    node.append(shape("rect", { ...square, class: "x-hollow x-stroke-state" }));
  });
  return node;
}

// What linear attention is handed: a row for each step, new keys and new values.
function pairs({ stored, written }, { inner, read }) {
  const height = Math.min(22, (SIDE - 18) / Math.max(TOKENS * inner, 1));
  const low = 30 + TOKENS * inner * height;
  const node = picture(150, low, "the pairs that linear attention is handed");
  write(node, 22, 14, "new keys", { class: "x-heading x-fill-key" });
  write(node, 102, 14, "values", { class: "x-heading x-fill-value" });
  if (!inner) return node;
  const rows = { y: 26, width: 14, height, faint: (i) => i >= read * inner };
  heat(node, stored, { ...rows, x: 22, role: "key", limit: 1 });
  heat(node, written, { ...rows, x: 102, role: "value", limit: 1 });
  numbering(node, { count: TOKENS, x: 16, y: 26, height: inner * height });
  return node;
}

// The weights that training ends with, the sum of the pairs, and what lies between.
function states({ trained_state, state }) {
  const all = [
    ["trained W", trained_state, "state"],
    ["summed S", state, "state"],
    ["difference", plus(trained_state, state, -1), "error"],
  ];
  const low = 26 + 28 * state.length;
  const node = picture(212, low + 52, "last weights, their sum, and the difference");
  const limit = Math.max(0.5, ...trained_state.flat().map(Math.abs));
  all.forEach(([name, rows, role], i) => {
    write(node, 74 * i, 14, name, { class: `x-heading x-fill-${role}` });
    const most = role === "error" ? 0.5 : limit;
    heat(node, rows, { x: 74 * i, y: 26, width: 28, height: 28, role, limit: most });
  });
  node.append(shape("circle", { cx: 8, cy: low + 20, r: 4, class: "x-fill-output" }));
  tick(node, 20, low + 24, "training's answer", "start", "output");
  const square = { x: 2, y: low + 34, width: 12, height: 12 };
  node.append(shape("rect", { ...square, class: "x-hollow x-stroke-state" }));
  tick(node, 20, low + 44, "linear attention's", "start", "state");
  return node;
}

function draw(numbers, view) {
  const [settings, width] = [view.settings(), Math.min(view.width, 460)];
  const title = "error and loss, all tokens read";
  const values = (name) => numbers[name].map((x) => clamp(x, -10, 10));
  const lines = [
    { values: values("errors"), role: "error", label: "error" },
    { values: values("losses"), role: "rate", dash: "6 3", label: "loss" },
  ];
  const mark = { at: settings.inner, value: numbers.errors[settings.inner] };
  const sweep = picture(width, 156, title);
  const axes = { y: 28, height: 100, from: 0, across: "inner steps n" };
  chart(sweep, { x: 0, width, title, lines, mark, ...axes });
  return [plane(numbers, settings), pairs(numbers, settings), states(numbers), sweep];
}

// ---------------------------------------------------------------- words

function readouts({ gaps, times, errors, losses }, { inner, read }) {
  return [
    ["difference of the views", "error", read ? brief(gaps[read - 1]) : "–"],
    ["answer, in values", "output", times.map((x) => round(x)).join(" · ") || "–"],
    ["error, all read", "error", round(errors[inner])],
    ["loss, all read", "rate", round(losses[inner])],
  ];
}

function sentence({ gaps, times }, settings) {
  const { features, objective, weights, inner, cosine, read } = settings;
  const gap = gaps[read - 1];
  if (!read || !inner) return "No step is taken yet, and both views answer nothing.";
  if (weights === "normalised") {
    const why = "Normalising rescales what earlier steps wrote, which no sum does";
    return `${why}: the views differ by ${brief(gap)}.`;
  }
  const same = `One answer${gap ? `, to rounding (${brief(gap)})` : ""}`;
  if (objective === "square") {
    return `${same}. With the squared error, steps end where the answer is the value.`;
  }
  if (features === "static" && cosine === 0) {
    const how = "its loss falls without end, and every step writes the same pair again";
    return `${same}, ${round(times[0])} times the value: ${how}.`;
  }
  const mixed = features === "static" ? "keys share a direction" : "features move too";
  return `${same}. The ${mixed}, so answers are no exact multiples of their values.`;
}

function rows({ stored, written, gaps }, { inner }) {
  return {
    head: ["token", "step", "new key", "new value", "difference after the token"],
    rows: stored.map((key, j) => [
      String(Math.floor(j / inner) + 1),
      String((j % inner) + 1),
      listed(key, 3),
      listed(written[j], 3),
      brief(gaps[Math.floor(j / inner)]),
    ]),
  };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows }),
};
