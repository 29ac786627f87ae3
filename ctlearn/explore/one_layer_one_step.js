// One layer, one step: the numbers of one_layer_one_step.py, and their picture: points
// to drag and three lines, and what each token adds to the answer.

const HIGHEST = 2;
const ENDS = [-1, 1];

// ---------------------------------------------------------------- numbers

const placesOf = ({ points, places }) => spread(points, GOLDEN, 1, places);

function valuesOf({ points, levels }) {
  const noise = spread(points, PLASTIC, 0.4, []);
  const line = spread(points, GOLDEN, 1, []).map((x) => 0.8 * x + 0.4);
  const own = (i) => hundredths(line[i] + noise[i], HIGHEST);
  return range(points).map((i) => levels[i] ?? own(i));
}

// Least squares; where the keys are all one, the shortest of the lines that fit.
function fitted(k, v) {
  const sum = (entry) => k.reduce((total, key, i) => total + entry(key, v[i]), 0);
  const [xx, x, n] = [sum(([a]) => a * a), sum(([a]) => a), k.length];
  const [xy, y] = [sum(([a], b) => a * b), sum((_, b) => b)];
  const determinant = xx * n - x * x;
  if (determinant < 1e-9 * (xx + n) ** 2) {
    return k[0].map((entry) => (entry * mean(v)) / dot(k[0], k[0]));
  }
  return [(n * xy - x * y) / determinant, (xx * y - x * xy) / determinant];
}

export function compute(settings) {
  const { points, step, scale, slope, intercept, question } = settings;
  const [places, values] = [placesOf(settings), valuesOf(settings)];
  const keyAt = (place) => [scale * place, 1];
  const k = places.map(keyAt);
  const start = [slope, intercept];
  const errors = values.map((value, i) => value - dot(start, k[i]));
  const descent = [0, 1].map((c) => mean(k.map((key, i) => key[c] * errors[i])));
  const stepped = start.map((entry, c) => entry + step * descent[c]);
  const best = fitted(k, values);
  const size = dot(descent, descent);
  const bend = mean(k.map((key) => dot(key, descent) ** 2));
  // the layer: a query compares its key with each token's, and takes their values
  const shareOf = (asked) => (key, i) => (step / points) * dot(key, asked) * errors[i];
  const layerAt = (asked) =>
    k.map(shareOf(asked)).reduce((sum, share) => sum + share, dot(start, asked));
  const asked = keyAt(question);
  const lossOf = (W) => mean(k.map((key, i) => (values[i] - dot(W, key)) ** 2)) / 2;
  const gapAt = (place) => Math.abs(layerAt(keyAt(place)) - dot(stepped, keyAt(place)));
  return {
    places,
    values,
    stepped,
    best,
    largest: largestOf(table(2, 2, (a, b) => mean(k.map((key) => key[a] * key[b])))),
    best_step: size > 1e-20 ? size / bend : null,
    losses: [start, stepped, best].map(lossOf),
    starting: dot(start, asked),
    answer: dot(stepped, asked),
    layer: layerAt(asked),
    fitted: dot(best, asked),
    gap: Math.max(...[question, ...ENDS].map(gapAt)),
    shares: k.map(shareOf(asked)),
  };
}

// The larger eigenvalue of a symmetric matrix.
function largestOf([[a, b], [, c]]) {
  return (a + c) / 2 + Math.hypot((a - c) / 2, b);
}

// ---------------------------------------------------------------- pictures

const PLANE = { top: 40, height: 236, left: 26 };
const [SHARES, LOW] = [230, PLANE.top + PLANE.height + 24]; // the second picture's size

function planeAxes(width) {
  const { top, height, left } = PLANE;
  const across = (width - left - 52) / 2;
  return {
    right: left + 2 * across,
    x: (place) => left + across * (place + 1),
    y: (value) => top + (height * (HIGHEST - clamp(value, -HIGHEST, HIGHEST))) / 4,
    placeAt: (x) => (x - left) / across - 1,
    valueAt: (y) => HIGHEST - (4 * (y - top)) / height,
  };
}

// The points and three lines. The horizontal axis is in the units of the inputs.
function plane(numbers, settings, width, name) {
  const { scale, question, slope, intercept } = settings;
  const axes = planeAxes(width);
  const { top, height, left } = PLANE;
  const node = picture(width, LOW, "the points and three lines", "group");
  write(node, 0, 14, "context: drag a point", { class: "x-heading x-fill-value" });
  const frame = { x: left, y: top, width: axes.right - left, height };
  const id = `${NAME}-${name}`;
  node.append(shape("clipPath", { id }, shape("rect", frame)));
  node.append(shape("rect", { ...frame, class: "x-frame" }));
  const inside = shape("g", { "clip-path": `url(#${id})` });
  node.append(inside);
  for (const value of [-2, -1, 0, 1, 2]) {
    tick(node, left - 6, axes.y(value) + 4, round(value, 0), "end");
  }
  for (const place of [-1, 0, 1]) {
    tick(node, axes.x(place), top + height + 16, brief(place * scale));
  }
  const lines = [
    ["start", [slope, intercept], "state", "7 4"],
    ["best", numbers.best, "size", "2 4"],
    ["step", numbers.stepped, "output", undefined],
  ];
  const said = (W, place) => W[0] * scale * place + W[1];
  const free = (value) => top + (height * (HIGHEST - value)) / 4;
  const ends = lines.map(([text, W, role, dash]) => {
    const d = joined(ENDS.map(axes.x), ENDS.map((place) => free(said(W, place))));
    const line = { class: `x-line x-stroke-${role}`, "stroke-dasharray": dash };
    inside.append(shape("path", { d, ...line }));
    return { y: axes.y(said(W, 1)), text, role };
  });
  endLabels(node, axes.right + 6, ends, top + height);
  const [x, y] = [axes.x(question), axes.y(numbers.answer)];
  const down = { d: joined([x, x], [top, top + height]), opacity: 0.6 };
  node.append(shape("path", { ...down, class: "x-line x-thin x-stroke-query" }));
  const diamond = { d: `M${x} ${y - 7}l7 7-7 7-7-7z`, class: "x-fill-output x-halo" };
  node.append(shape("path", diamond));
  const limits = { min: -1, max: 1, now: question, said: brief(question * scale) };
  const asks = { id: "question", label: "the question in the picture", ...limits };
  knob(node, { cx: x, cy: top - 11, role: "query", text: "x", ...asks });
  numbers.values.forEach((value, i) => {
    const place = numbers.places[i];
    const spoken = `y ${round(value)}, at ${brief(place * scale)}`;
    const limits = { min: -HIGHEST, max: HIGHEST, now: value, said: spoken };
    const what = { id: `point-${i}`, label: `point ${i + 1}`, ...limits };
    const at = { cx: axes.x(place), cy: axes.y(value) };
    knob(node, { ...at, role: "value", text: String(i + 1), ...what });
  });
  return node;
}

// From what the start says to the answer, a token at a time.
function shares(numbers, width, low) {
  const { starting, answer } = numbers;
  const [top, row] = [PLANE.top, 20];
  const n = numbers.shares.length;
  const node = picture(width, low, "what each token adds to the answer");
  write(node, 0, 14, "what each token adds", { class: "x-heading x-fill-output" });
  let sum = starting;
  const sums = [sum, ...numbers.shares.map((share) => (sum += share))];
  const [least, most] = [Math.min(0, ...sums), Math.max(0.2, ...sums)];
  const [left, right] = [24, width - 72];
  const x = (value) => left + ((right - left) * (value - least)) / (most - least);
  const zero = { x1: x(0), x2: x(0), y1: top, y2: top + row * (n + 1) };
  node.append(shape("line", { ...zero, class: "x-grid" }));
  numbers.shares.forEach((share, i) => {
    const y = top + row * i;
    tick(node, 14, y + 13, String(i + 1), "end", "value");
    const [from, to] = [x(sums[i]), x(sums[i + 1])];
    const bar = { x: Math.min(from, to), width: Math.max(1, Math.abs(to - from)) };
    const kind = share < 0 ? "x-negative" : "x-fill-value";
    const size = { y: y + 4, height: row - 7, class: kind, opacity: 0.75 };
    node.append(shape("rect", { ...bar, ...size }));
    tick(node, Math.max(from, to) + 5, y + 13, round(share), "start");
  });
  const y = top + row * n + 9;
  const d = `M${x(answer)} ${y - 6}l6 6-6 6-6-6z`;
  node.append(shape("path", { d, class: "x-fill-output" }));
  tick(node, x(answer) + 10, y + 4, `answer ${round(answer)}`, "start", "output");
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const { points } = settings;
  const { width } = view;
  const narrow = width < 560;
  // the stage leaves 16 pixels between pictures, and its width was rounded
  view.plane = narrow ? width : width - SHARES - 18;
  return [
    plane(numbers, settings, view.plane, view.id),
    narrow ? shares(numbers, width, 90 + 20 * points) : shares(numbers, SHARES, LOW),
  ];
}

// ---------------------------------------------------------------- words

function readouts({ answer, layer, gap, fitted, losses }) {
  return [
    ["gradient step", "output", round(answer)],
    ["attention layer", "output", round(layer)],
    ["difference", "error", brief(gap)],
    ["best line", "size", round(fitted)],
    ["loss: start, step, best", "error", losses.map((x) => round(x, 3)).join(" · ")],
  ];
}

function sentence({ losses, best_step, largest }, { step, scale }) {
  const [before, after, least] = losses;
  if (best_step === null) return "The start is the best line: no token adds anything.";
  if (step === 0) return "A step of size 0 stays at the start.";
  const share = (before - after) / Math.max(before - least, 1e-12);
  const done =
    after > before
      ? `The step overshoots, and the loss rises ${brief(after / before)}-fold`
      : `One step takes off ${round(100 * share, 0)} % of what the best line would`;
  const here = `the best size from here is ${brief(best_step)}`;
  const limit = `beyond ${brief(2 / largest)} some steps climb`;
  const units = scale === 1 ? "" : ` Inputs are ${brief(scale)} times as large.`;
  return `${done}; ${here}, and ${limit}.${units}`;
}

function rows({ places, values, shares }, { scale }) {
  return {
    head: ["token", "$x$", "$y$", "added to the answer"],
    rows: places.map((place, i) => [
      String(i + 1),
      brief(place * scale),
      round(values[i]),
      round(shares[i], 4),
    ]),
  };
}

// ---------------------------------------------------------------- hands

// The settings once what a handle holds is `across` and `up` of what it was.
function put(id, settings, across, up) {
  if (id === "question") return { question: hundredths(across(settings.question), 1) };
  const [places, levels] = [placesOf(settings), valuesOf(settings)];
  const i = Number(id.slice(6));
  places[i] = hundredths(across(places[i]), 1);
  levels[i] = hundredths(up(levels[i]), HIGHEST);
  return { places, levels };
}

function drag(id, { x, y }, settings, view) {
  const axes = planeAxes(view.plane);
  return put(id, settings, () => axes.placeAt(x), () => axes.valueAt(y));
}

// Up and down, or left and right.
function nudge(id, steps, settings, key) {
  const sideways = id === "question" || key === "ArrowLeft" || key === "ArrowRight";
  const across = (old) => (sideways ? old + 0.02 * steps : old);
  return put(id, settings, across, (old) => (sideways ? old : old + 0.1 * steps));
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
