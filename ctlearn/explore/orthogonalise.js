// Orthogonalise: the numbers of orthogonalise.py, and their picture: the way of each
// singular value through the steps, with a knob at its start, and the map of them all.

const [STEPS, APART, GRID] = [10, 0.7, 241];
const NAMES = { muon: "Muon", lact: "LaCT", cubic: "cubic" };
const OWN = {
  muon: [[3.4445, -4.775, 2.0315]],
  lact: [
    [4.0848, -6.8946, 2.927],
    [3.9505, -6.3029, 2.6377],
    [3.7418, -5.5913, 2.3037],
    [2.8769, -3.1427, 1.2046],
    [2.8366, -3.0525, 1.2012],
  ],
  cubic: [[1.5, -0.5, 0]],
};

// ---------------------------------------------------------------- numbers

function coefficients(iteration, steps) {
  const own = OWN[iteration];
  return range(steps).map((i) => own[Math.min(i, own.length - 1)]);
}

function stepped(s, [a, b, c]) {
  return s * (a + s ** 2 * (b + c * s ** 2));
}

function decadesOf({ rank, decades }) {
  return range(rank).map((i) => decades[i] ?? -APART * i);
}

export function compute({ iteration, rank, steps, decades }) {
  const singular = decadesOf({ rank, decades }).map((exponent) => 10 ** exponent);
  const length = Math.sqrt(dot(singular, singular)) + 1e-7;
  const path = [singular.map((s) => s / length)];
  for (const row of coefficients(iteration, STEPS)) {
    path.push(path[path.length - 1].map((s) => stepped(s, row)));
  }
  const [before, after] = [path[0], path[steps]];
  const smallest = before.indexOf(Math.min(...before));
  const grid = range(GRID).map((i) => 10 ** (-5 + (5 * i) / (GRID - 1)));
  const imageOf = (name) =>
    grid.map((s) => coefficients(name, steps).reduce(stepped, s));
  const ratio = (x) => Math.max(...x) / Math.min(...x);
  return {
    singular,
    path,
    before,
    after,
    grid,
    ...Object.fromEntries(Object.keys(NAMES).map((name) => [name, imageOf(name)])),
    growth: coefficients(iteration, steps).reduce((all, [a]) => all * a, 1),
    smallest,
    gain: after[smallest] / before[smallest],
    ratios: [ratio(before), ratio(after)],
  };
}

// ---------------------------------------------------------------- pictures

const [TOP, HIGH] = [46, 252];
const DECADES = { from: 1, to: -5 };

// The height of a number on the logarithmic axis, and the decade at a height.
function upAt(value) {
  const decade = clamp(Math.log10(value), DECADES.to, DECADES.from);
  return TOP + (HIGH * (DECADES.from - decade)) / (DECADES.from - DECADES.to);
}

function decadeAt(y) {
  return DECADES.from - ((DECADES.from - DECADES.to) * (y - TOP)) / HIGH;
}

function power(exponent) {
  const raised = `${exponent < 0 ? "⁻" : ""}${"⁰¹²³⁴⁵⁶⁷⁸⁹"[Math.abs(exponent)]}`;
  return exponent ? `10${raised}` : "1";
}

// A column for G, one for its division by its length, and one for each step. Steps that
// are not taken are pale.
function ways(numbers, { rank, steps }, width) {
  const { singular, path, smallest } = numbers;
  const label = "the way of each singular value";
  const node = picture(width, TOP + HIGH + 26, label, "group");
  write(node, 0, 14, "singular values: drag one", { class: "x-heading x-fill-state" });
  const [left, right] = [44, width - 10];
  const at = (step) => left + ((right - left) * (step + 2)) / (STEPS + 2);
  for (const exponent of range(7).map((i) => 1 - i)) {
    const y = upAt(10 ** exponent);
    const line = { x1: left - 12, x2: right, y1: y, y2: y, class: "x-grid" };
    node.append(shape("line", line));
    tick(node, left - 18, y + 4, power(exponent), "end");
  }
  tick(node, at(-2), TOP + HIGH + 18, "G");
  tick(node, at(0), TOP + HIGH + 18, "0");
  tick(node, (at(0) + at(STEPS)) / 2, TOP + HIGH + 18, "steps");
  tick(node, at(STEPS), TOP + HIGH + 18, String(STEPS));
  const now = { x1: at(steps), x2: at(steps), y1: TOP - 8, y2: TOP + HIGH };
  node.append(shape("line", { ...now, class: "x-line x-thin x-stroke-size" }));
  tick(node, at(steps), TOP - 14, steps ? `after ${steps}` : "÷ length", "middle");
  const order = range(rank).filter((i) => i !== smallest);
  for (const i of [...order, smallest]) {
    const role = i === smallest ? "error" : "state";
    const dash = i === smallest ? "5 3" : undefined;
    const line = { class: `x-line x-stroke-${role}`, "stroke-dasharray": dash };
    const part = (from, to, more) => {
      const taken = range(to - from + 1).map((step) => from + step);
      const d = joined(taken.map(at), taken.map((step) => upAt(path[step][i])));
      node.append(shape("path", { d, ...line, ...more }));
    };
    const divided = joined([at(-2), at(0)], [upAt(singular[i]), upAt(path[0][i])]);
    node.append(shape("path", { d: divided, ...line, opacity: 0.5 }));
    part(0, steps);
    if (steps < STEPS) part(steps, STEPS, { opacity: 0.25 });
    const dot = { cx: at(steps), cy: upAt(path[steps][i]), r: 4 };
    node.append(shape("circle", { ...dot, class: `x-fill-${role} x-halo` }));
  }
  for (const i of [...order, smallest]) {
    const exponent = Math.round(100 * Math.log10(singular[i])) / 100;
    const said = brief(singular[i]);
    const limits = { min: -4, max: DECADES.from, now: exponent, said };
    const what = { id: `value-${i}`, label: `singular value ${i + 1}`, ...limits };
    const [role, text] = [i === smallest ? "error" : "state", String(i + 1)];
    knob(node, { cx: at(-2), cy: upAt(singular[i]), role, text, ...what });
  }
  return node;
}

// Where any value from 10⁻⁵ to 1 is sent, with the values of G on the curve.
function map(numbers, { iteration, steps }, width) {
  const { grid, before, after, smallest } = numbers;
  const node = picture(width, TOP + HIGH + 26, `the map after ${steps} steps`);
  const [left, right, most] = [30, width - 52, 1.3];
  const x = (s) => left + (right - left) * (1 + clamp(Math.log10(s), -5, 0) / 5);
  const y = (value) => TOP + (HIGH * (most - clamp(value, 0, most))) / most;
  const some = steps === 1 ? "one step sends" : `${steps} steps send`;
  const title = steps ? `where ${some} a value` : "before any step";
  write(node, 0, 14, title, { class: "x-heading x-fill-state" });
  for (const value of [0, 0.5, 1]) {
    const line = { x1: left, x2: right, y1: y(value), y2: y(value), class: "x-grid" };
    node.append(shape("line", line));
    tick(node, left - 6, y(value) + 4, String(value), "end");
  }
  const one = { x1: left, x2: right, y1: y(1), y2: y(1) };
  node.append(shape("line", { ...one, class: "x-line x-thin", opacity: 0.5 }));
  for (const exponent of [-5, -3, 0]) {
    tick(node, x(10 ** exponent), TOP + HIGH + 18, power(exponent));
  }
  tick(node, x(10 ** -1.5), TOP + HIGH + 18, "share of ‖G‖");
  const dashes = { muon: "7 3", lact: "2 3", cubic: "8 3 2 3" };
  const labels = Object.keys(NAMES).map((name) => {
    const chosen = name === iteration;
    const kind = chosen ? "x-line x-stroke-state" : "x-line x-thin";
    const line = { "stroke-dasharray": chosen ? undefined : dashes[name], class: kind };
    const d = joined(grid.map(x), numbers[name].map(y));
    node.append(shape("path", { d, ...line, opacity: chosen ? 1 : 0.7 }));
    const last = numbers[name][GRID - 1];
    return { y: y(last), text: NAMES[name], role: chosen ? "state" : "size" };
  });
  endLabels(node, right + 6, labels, TOP + HIGH);
  before.forEach((s, i) => {
    const role = i === smallest ? "error" : "state";
    const at = { cx: x(s), cy: y(after[i]), r: 4.5, class: `x-fill-${role} x-halo` };
    node.append(shape("circle", at));
  });
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  // the stage leaves 16 pixels between pictures, and its width was rounded
  const column = width < 560 ? width : (width - 18) / 2;
  return [ways(numbers, settings, column), map(numbers, settings, column)];
}

// ---------------------------------------------------------------- words

function readouts({ before, after, smallest, gain, ratios }) {
  return [
    ["smallest before", "error", brief(before[smallest])],
    ["smallest after", "error", brief(after[smallest])],
    ["multiplied by", "rate", brief(gain)],
    ["largest after", "state", round(Math.max(...after))],
    ["largest to smallest", "state", ratios.map(brief).join(" → ")],
  ];
}

function sentence({ before, after, smallest, growth, ratios }, settings) {
  const { iteration, steps, rank } = settings;
  if (steps === 0) {
    return "No step is taken: G is divided by its length, and the squares sum to one.";
  }
  const [least, most] = [Math.min(...after), Math.max(...after)];
  const count = steps === 1 ? "one step" : `${steps} steps`;
  const done = `After ${count} of ${NAMES[iteration]}`;
  if (rank === 1) return `${done} the one value, the length, is ${round(most)}.`;
  const span = `${done} the values lie between ${brief(least)} and ${round(most)}`;
  if (least > 0.6) {
    return `${span}: their ratio was ${brief(ratios[0])}, and now all count alike.`;
  }
  const start = `The smallest was ${brief(before[smallest])} of the length`;
  const end = `is multiplied by ${brief(growth)} at most: it is left behind`;
  return `${span}. ${start}, and ${end}.`;
}

function rows({ singular, path }, { steps }) {
  const taken = path.slice(0, steps + 1);
  return {
    head: ["value", "of $G$", ...taken.map((_, n) => `step ${n}`)],
    rows: singular.map((s, i) => [
      String(i + 1),
      brief(s),
      ...taken.map((row) => brief(row[i])),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function put(id, next, settings) {
  const decades = decadesOf(settings);
  const i = Number(id.slice(6));
  decades[i] = Math.round(100 * clamp(next(decades[i]), -4, 1)) / 100;
  return { decades };
}

function drag(id, { y }, settings) {
  return put(id, () => decadeAt(y), settings);
}

function nudge(id, steps, settings) {
  return put(id, (old) => old + 0.1 * steps, settings);
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
