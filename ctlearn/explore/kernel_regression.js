// Kernel regression: the numbers of kernel_regression.py, and their picture: answers to
// all questions, points to move, and the width between nearest neighbour and mean.

const GRID = 121;
const HIGHEST = 2;
const NAMES = ["kernel", "softmax", "linear"];
const ROLES = { kernel: "output", softmax: "query", linear: "state" };

// ---------------------------------------------------------------- numbers

const placesOf = ({ points, places }) => spread(points, GOLDEN, 1, places);
const valuesOf = ({ points, levels }) => spread(points, PLASTIC, 1.5, levels);

function pointAt(space, place) {
  return space === "line" ? [2 * place] : unit(180 * place);
}

export function compute(settings) {
  const { space, width } = settings;
  const [places, values] = [placesOf(settings), valuesOf(settings)];
  const k = places.map((place) => pointAt(space, place));
  const grid = range(GRID).map((i) => -1 + (2 * i) / (GRID - 1));
  const weightsOf = {
    kernel: (q) => softmax(k.map((key) => -distance(q, key) / (2 * width ** 2))),
    softmax: (q) => softmax(k.map((key) => dot(q, key) / width ** 2)),
    linear: (q) => k.map((key) => dot(q, key)),
  };
  const recalled = k.map((key) => dot(weightsOf.linear(key), values));
  const size = dot(recalled, recalled);
  const factors = { linear: size > 1e-20 ? dot(recalled, values) / size : 0 };
  const answerOf = (name) => (place) => {
    const weights = weightsOf[name](pointAt(space, place));
    return (factors[name] ?? 1) * dot(weights, values);
  };
  const curves = NAMES.map((name) => grid.map(answerOf(name)));
  const [lowest, highest] = [Math.min(...values), Math.max(...values)];
  const off = (x) => (x < lowest - 1e-9 || x > highest + 1e-9 ? 1 : 0);
  const weights = weightsOf.kernel(pointAt(space, settings.question));
  return {
    places,
    values,
    grid,
    ...Object.fromEntries(NAMES.map((name, i) => [name, curves[i]])),
    answers: NAMES.map((name) => answerOf(name)(settings.question)),
    weights,
    read: 1 / dot(weights, weights),
    lowest,
    highest,
    outside: curves.map((curve) => mean(curve.map(off))),
    attention: k[0].length ** 0.25,
  };
}

// ---------------------------------------------------------------- pictures

// Where places and answers lie in a picture of this width; the drag reads them too.
function axesOf(width) {
  const box = { left: 34, right: width - 66, top: 46, bottom: 266, low: 322 };
  const [across, up] = [(box.right - box.left) / 2, (box.bottom - box.top) / 5];
  return {
    ...box,
    x: (place) => box.left + across * (place + 1),
    y: (value) => box.top + up * (2.5 - clamp(value, -2.5, 2.5)),
    placeAt: (x) => (x - box.left) / across - 1,
    valueAt: (y) => 2.5 - (y - box.top) / up,
    // a second picture holds the width, from 0.05 to 8
    h: (value) => 14 + ((width - 28) * Math.log(value / 0.05)) / Math.log(160),
    widthAt: (x) => 0.05 * 160 ** ((x - 14) / (width - 28)),
  };
}

function ground(parent, axes, { lowest, highest }, space) {
  const { left, right, bottom } = axes;
  const band = { x: left, width: right - left, y: axes.y(highest), class: "x-band" };
  const height = Math.max(1, axes.y(lowest) - axes.y(highest));
  parent.append(shape("rect", { ...band, height }));
  write(parent, 0, 14, "answers; shaded, the values' range", { class: "x-heading" });
  for (const value of [-2, -1, 0, 1, 2]) {
    const line = { x1: left, x2: right, y1: axes.y(value), y2: axes.y(value) };
    parent.append(shape("line", { ...line, class: "x-grid" }));
    tick(parent, left - 6, axes.y(value) + 4, round(value, 0), "end");
  }
  for (const place of [-1, 0, 1]) {
    const text = space === "line" ? round(2 * place, 0) : `${round(180 * place, 0)}°`;
    tick(parent, axes.x(place), bottom + 16, text);
  }
}

// The weights at the question stand below the points that they belong to.
function bars(parent, axes, { places, weights }) {
  const base = { x1: axes.left, x2: axes.right, y1: axes.low, y2: axes.low };
  parent.append(shape("line", { ...base, class: "x-grid" }));
  tick(parent, axes.right + 8, axes.low, "weights", "start", "query");
  weights.forEach((weight, i) => {
    const height = Math.max(0.5, 32 * weight);
    const bar = { x: axes.x(places[i]) - 4, y: axes.low - height, width: 8, height };
    parent.append(shape("rect", { ...bar, class: "x-fill-query" }));
  });
}

function marker(parent, axes, { answers }, question) {
  const x = axes.x(question);
  const limits = { min: -1, max: 1, now: question, said: `at ${round(question)}` };
  const line = { d: joined([x, x], [axes.top, axes.low]), opacity: 0.6 };
  parent.append(shape("path", { ...line, class: "x-line x-stroke-query" }));
  const what = { id: "question", label: "the question in the picture", ...limits };
  knob(parent, { cx: x, cy: axes.top - 8, role: "query", text: "q", ...what });
  const y = axes.y(answers[0]);
  const diamond = { d: `M${x} ${y - 7}l7 7-7 7-7-7z`, class: "x-fill-output x-halo" };
  parent.append(shape("path", diamond));
}

function point(parent, axes, i, place, value) {
  const [cx, cy] = [axes.x(place), axes.y(value)];
  const said = `value ${round(value)}, at ${round(place)}`;
  const limits = { min: -HIGHEST, max: HIGHEST, now: value, said };
  const what = { id: `point-${i}`, label: `point ${i + 1}`, ...limits };
  knob(parent, { cx, cy, role: "value", text: String(i + 1), ...what });
}

// From the nearest neighbour to the mean of all, and where softmax attention lies.
function widths(numbers, { space, width }, room) {
  const node = picture(room, 62, "the width, from nearest neighbour to mean", "group");
  const [axes, y] = [axesOf(room), 30];
  const line = { d: joined([axes.h(0.05), axes.h(8)], [y, y]), opacity: 0.4 };
  node.append(shape("path", { ...line, class: "x-line x-thin" }));
  tick(node, 0, y + 28, "nearest neighbour", "start");
  tick(node, room, y + 28, "mean of all", "end");
  const x = axes.h(numbers.attention);
  if (space === "circle") {
    const mark = { d: joined([x, x], [y - 8, y + 8]), class: "x-line x-stroke-query" };
    node.append(shape("path", mark));
    tick(node, x, y - 14, "attention, scores / √d_k", "middle", "query");
  }
  const limits = { min: 0.05, max: 8, now: width, said: brief(width) };
  const what = { id: "width", label: "width in the picture", ...limits };
  knob(node, { cx: axes.h(width), cy: y, role: "rate", text: "h", ...what });
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const axes = axesOf(view.width);
  const plot = picture(view.width, axes.low + 6, "answers to all questions", "group");
  ground(plot, axes, numbers, settings.space);
  // softmax attention lies on the kernel's line wherever the two agree
  const dashes = { linear: "7 4", kernel: undefined, softmax: "2 4" };
  for (const [name, dash] of Object.entries(dashes)) {
    const kind = `x-line x-stroke-${ROLES[name]} ${dash ? "" : "x-thick"}`;
    const line = { class: kind, "stroke-dasharray": dash };
    const d = joined(numbers.grid.map(axes.x), numbers[name].map(axes.y));
    plot.append(shape("path", { d, ...line }));
  }
  const ends = NAMES.map((text) => {
    return { y: axes.y(numbers[text][GRID - 1]), text, role: ROLES[text] };
  });
  endLabels(plot, axes.right + 8, ends, axes.bottom);
  bars(plot, axes, numbers);
  marker(plot, axes, numbers, settings.question);
  numbers.values.forEach((value, i) => point(plot, axes, i, numbers.places[i], value));
  return [plot, widths(numbers, settings, view.width)];
}

// ---------------------------------------------------------------- words

function readouts({ answers, outside, read }) {
  const share = (x) => `${round(100 * x, 0)} %`;
  return [
    ...NAMES.map((name, i) => [`answer, ${name}`, ROLES[name], round(answers[i])]),
    ["points read", "query", round(read, 1)],
    ["linear out of range", "error", share(outside[2])],
  ];
}

function sentence({ answers, read, outside, weights }, { space, points }) {
  const most = weights.indexOf(Math.max(...weights));
  const mostly =
    read < 1.05
      ? `The kernel looks up point ${most + 1}`
      : read > points - 0.05
        ? `The kernel takes the plain mean of all ${points} values`
        : `The kernel takes a mean of ${round(read, 1)} of ${points} points`;
  const same =
    space === "circle"
      ? "softmax attention does the same, since all keys have one length"
      : `softmax attention favours long keys and answers ${round(answers[1])} instead`;
  const out = outside[2] ? "leaves" : "stays within";
  const can = space === "circle" ? "one wave" : "one straight line through 0";
  return `${mostly}; ${same}. Linear attention is ${can}, and ${out} the values' range.`;
}

function rows({ places, values, weights }, { space }) {
  const name = space === "circle" ? "degrees" : "place";
  return {
    head: ["point", name, "value", "weight at the question"],
    rows: places.map((place, i) => [
      String(i + 1),
      space === "circle" ? round(180 * place, 1) : round(2 * place),
      round(values[i]),
      round(weights[i], 4),
    ]),
  };
}

// ---------------------------------------------------------------- hands

// The settings once what a handle holds is `next` of what it was.
function put(id, settings, next) {
  const { question, width } = settings;
  if (id === "question") return { question: hundredths(next.question(question), 1) };
  if (id === "width") return { width: limited("width", next.width(width)) };
  const [places, levels] = [placesOf(settings), valuesOf(settings)];
  const i = Number(id.slice(6));
  places[i] = hundredths(next.place(places[i]), 1);
  levels[i] = hundredths(next.value(levels[i]), HIGHEST);
  return { places, levels };
}

function drag(id, { x, y }, settings, { width }) {
  const axes = axesOf(width);
  const place = () => axes.placeAt(x);
  const value = () => axes.valueAt(y);
  const h = () => axes.widthAt(x);
  return put(id, settings, { question: place, width: h, place, value });
}

// Up and down change a value, left and right a place.
function nudge(id, steps, settings, key) {
  const sideways = key === "ArrowLeft" || key === "ArrowRight";
  return put(id, settings, {
    question: (old) => old + 0.02 * steps,
    width: (old) => old * 2 ** (steps / 4),
    place: (old) => (sideways ? old + 0.02 * steps : old),
    value: (old) => (sideways ? old : old + 0.1 * steps),
  });
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
