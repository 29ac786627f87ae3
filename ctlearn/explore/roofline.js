// The roofline: the numbers of roofline.py, and two pictures of them: the plans under
// the roofs of a machine that can be dragged, and what each of the plans waits for.

const ALL = Object.keys(NAMES);
const LETTERS = [..."abcdefg"];
const HALF = 2; // bytes of a number
const ACROSS = [0.25, 2 ** 16]; // operations a byte
const UPWARD = [-2, 4]; // powers of ten of TFLOP a second
const REACH = 4; // operations a byte at the knob on the slope

// ---------------------------------------------------------------- numbers

function sizesOf({ d, chunk_size, tokens }) {
  const C = Math.min(chunk_size, tokens);
  const states = { before: (d * d) / C, S: 2 * d * d, cache: 2 * tokens * d };
  const rows = Object.fromEntries([..."qkvoWUR"].map((name) => [name, d]));
  return { ...rows, ...states, beta: 1, A: C };
}

function multiplicationsOf({ d, chunk_size, columns, tokens }) {
  const C = Math.min(chunk_size, tokens);
  const programs = Math.ceil(d / Math.min(columns, d));
  const state = d * d;
  return {
    recurrent: 3 * state,
    naive_chunkwise: 3 * state + 5 * C * d,
    chunkwise: 3 * state + C * d * (3 + programs),
    linear_attention: 2 * state + C * d * (1 + programs),
    softmax_attention: (tokens + 1) * d,
    decode_state: 3 * state,
    decode_cache: 2 * tokens * d,
  };
}

export function compute(settings) {
  const { bandwidth, peak } = settings;
  const single = Math.min(settings.single, peak);
  const sizes = sizesOf(settings);
  const multiplied = multiplicationsOf(settings);
  const total = (names) => names.reduce((sum, name) => sum + sizes[name], 0);
  const moved = ALL.map((name) => HALF * total(TENSORS[name]));
  const operations = ALL.map((name) => 2 * multiplied[name]);
  const roofs = ALL.map((name) => (VECTORS.includes(name) ? single : peak));
  const memory = moved.map((bytes) => (1e-3 * bytes) / bandwidth);
  const processor = operations.map((work, i) => (1e-3 * work) / roofs[i]);
  const floors = memory.map((time, i) => Math.max(time, processor[i]));
  return {
    moved,
    operations,
    intensity: operations.map((work, i) => work / moved[i]),
    memory,
    processor,
    floors,
    roofs,
    speeds: operations.map((work, i) => (1e-3 * work) / floors[i]),
    corner: peak / bandwidth,
    low_corner: single / bandwidth,
  };
}

// ---------------------------------------------------------------- pictures

const nanoseconds = (time) => timeText(1e-9 * time);

function axesOf(width) {
  return logAxes({ left: 48, right: width - 16, top: 58, bottom: 288 }, ACROSS, UPWARD);
}

// A line from one place to another, in operations a byte and TFLOP a second.
function stretch(parent, axes, from, to, attributes) {
  const d = joined([from[0], to[0]].map(axes.x), [from[1], to[1]].map(axes.y));
  parent.append(shape("path", { d, ...attributes }));
}

// What can be dragged up and down: the two roofs at their ends, the slope at one place.
function knobs(parent, axes, { bandwidth, peak, single }) {
  const places = [
    ["peak", "query", axes.right - 12, peak, peak, "matrices"],
    ["single", "size", axes.right - 46, single, single, "single numbers"],
    ["bandwidth", "state", axes.x(REACH), REACH * bandwidth, bandwidth, "memory"],
  ];
  for (const [id, role, cx, up, now, what] of places) {
    const { min, max } = SETTINGS.find(({ name }) => name === id);
    const said = `${brief(now)} ${id === "bandwidth" ? "TB" : "TFLOP"} a second`;
    const spoken = { label: `speed of ${what}`, min, max, now, said };
    knob(parent, { id, role, cx, cy: axes.y(up), text: "↕", ...spoken });
  }
}

function roofs(numbers, settings, { width, shown }) {
  const { bandwidth, peak } = settings;
  const single = Math.min(settings.single, peak);
  const { corner, low_corner, intensity, speeds } = numbers;
  const node = picture(width, 332, "speed against operations a byte", "group");
  const axes = axesOf(width);
  write(node, 0, 12, "TFLOP a second", { class: "x-heading" });
  logGrid(node, axes, { across: "operations a byte", upward: brief });
  const [first, last] = ACROSS;
  const slope = (x) => [x, bandwidth * x];
  const low = { class: "x-line x-stroke-size", "stroke-dasharray": "6 3" };
  stretch(node, axes, slope(low_corner), [last, single], low);
  stretch(node, axes, slope(corner), [last, peak], { class: "x-line x-stroke-query" });
  const end = Math.max(corner, REACH);
  stretch(node, axes, slope(first), slope(end), { class: "x-line x-stroke-state" });
  // what stands on its roof at the right, before the knobs
  const before = axes.right - 64;
  tick(node, before, axes.y(peak) - 7, "matrices", "end", "query");
  tick(node, before, axes.y(single) + 15, "single numbers", "end", "size");
  const [x, y] = slope(REACH);
  tick(node, axes.x(x) + 17, axes.y(y) + 9, "memory", "start", "state");
  const order = range(ALL.length).sort((i, j) => intensity[i] - intensity[j]);
  const flags = apart(order.map((i) => axes.x(intensity[i])), 15, axes.right);
  const dots = order.map((i, place) => {
    const [x, y] = [axes.x(intensity[i]), axes.y(speeds[i])];
    const pole = { x1: flags[place], x2: x, y1: 44, y2: y - 5, class: "x-pull" };
    node.append(shape("line", pole));
    tick(node, flags[place], 38, LETTERS[i], "middle", ROLES[i]);
    const dot = { cx: x, cy: y, class: `x-fill-${ROLES[i]} x-halo` };
    return shape("circle", { ...dot, r: i === shown ? 7 : 4.5 });
  });
  // the one that is spoken of in front
  const front = order.indexOf(shown);
  node.append(...dots.filter((_, place) => place !== front), dots[front]);
  knobs(node, axes, { bandwidth, peak, single });
  return node;
}

const ROW = 24;

// The times that a plan's bytes and its operations take at least, on one axis; the
// later of the two, which is filled, is the floor.
function waits({ memory, processor, floors }, { width, shown }) {
  const bottom = 28 + ROW * ALL.length;
  const node = picture(width, bottom + 42, "what each plan waits for", "group");
  write(node, 0, 12, "what each waits for", { class: "x-heading" });
  const times = [...memory, ...processor].map(Math.log10);
  const [low, high] = [Math.min(...times) - 0.1, Math.max(...times) + 0.1];
  const scale = (width - 204) / (high - low);
  const x = (time) => 140 + scale * (Math.log10(time) - low);
  const decades = range(30).map((i) => i - 9);
  for (const power of decades.filter((power) => power > low && power < high)) {
    const at = { x1: x(10 ** power), x2: x(10 ** power), y1: 28, y2: bottom };
    node.append(shape("line", { ...at, class: "x-grid" }));
    if (power % 3 === 0) tick(node, at.x1, bottom + 14, nanoseconds(10 ** power));
  }
  rowFrames(node, { count: ALL.length, asked: shown, x: 3, y: 28, width, height: ROW });
  ALL.forEach((name, i) => {
    const y = 28 + ROW * i + ROW / 2;
    tick(node, 6, y + 4, LETTERS[i], "start", ROLES[i]);
    tick(node, 24, y + 4, NAMES[name], "start");
    const line = { x1: x(memory[i]), x2: x(processor[i]), y1: y, y2: y };
    node.append(shape("line", { ...line, class: "x-pull" }));
    const later = memory[i] >= processor[i];
    const square = { x: x(memory[i]) - 5, y: y - 5, width: 10, height: 10 };
    const full = (own, role) => (own ? `x-fill-${role}` : `x-knob x-stroke-${role}`);
    const dot = { cx: x(processor[i]), cy: y, r: 5.5 };
    const role = VECTORS.includes(name) ? "size" : "query";
    const marks = [
      shape("rect", { ...square, class: full(later, "state") }),
      shape("circle", { ...dot, class: full(!later, role) }),
    ];
    // the later one in front
    node.append(...(later ? marks.reverse() : marks));
    tick(node, width - 4, y + 4, nanoseconds(floors[i]), "end");
  });
  const key = { y: bottom + 27, x: 6, width: 10, height: 10, class: "x-fill-state" };
  const round = { cx: 91, cy: bottom + 32, r: 5.5, class: "x-fill-query" };
  node.append(shape("rect", key), shape("circle", round));
  tick(node, 22, bottom + 36, "its bytes", "start");
  tick(node, 102, bottom + 36, "its operations; filled: the later", "start");
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const chosen = ALL.indexOf(settings.plan);
  const how = { width: view.width, shown: view.pointed ? view.pointed - 1 : chosen };
  return [roofs(numbers, settings, how), waits(numbers, how)];
}

// ---------------------------------------------------------------- words

function readouts({ moved, operations, intensity, floors, corner }, { plan }) {
  const i = ALL.indexOf(plan);
  return [
    ["corner", "query", `${brief(corner)} op/byte`],
    ["this plan", ROLES[i], `${brief(intensity[i])} op/byte`],
    ["bytes a token", "state", brief(moved[i])],
    ["operations a token", "query", brief(operations[i])],
    ["floor", ROLES[i], nanoseconds(floors[i])],
  ];
}

function sentence(numbers, { plan }) {
  const { intensity, memory, processor, corner, low_corner } = numbers;
  const i = ALL.indexOf(plan);
  const vectors = VECTORS.includes(plan);
  const meets = vectors ? low_corner : corner;
  const side = intensity[i] < meets ? "left" : "right";
  const name = NAMES[plan][0].toUpperCase() + NAMES[plan].slice(1);
  const roof = vectors ? "the roof of single numbers" : "the roof of matrices";
  const [bytes, work] = [memory[i], processor[i]].map(nanoseconds);
  const rest =
    memory[i] >= processor[i]
      ? `it waits for the memory, ${bytes} a token; its operations would take ${work}.`
      : `it waits for the processor, ${work} a token; its bytes would take ${bytes}.`;
  const place = `${side} of ${brief(meets)}, where ${roof} begins`;
  return `${name}: ${brief(intensity[i])} op/byte, ${place}; ${rest}`;
}

function rows({ moved, operations, intensity, memory, processor }) {
  return {
    head: ["plan", "bytes", "operations", "op/byte", "bytes take", "operations take"],
    rows: ALL.map((name, i) => [
      NAMES[name],
      ...[moved[i], operations[i], intensity[i]].map(brief),
      ...[memory[i], processor[i]].map(nanoseconds),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function withSpeed(id, speed, { peak }) {
  const next = limited(id, speed);
  return { [id]: id === "single" ? Math.min(next, peak) : next };
}

function drag(id, { y }, settings, { width }) {
  const { top, bottom } = axesOf(width);
  const [low, high] = UPWARD;
  const speed = 10 ** (low + ((high - low) * (bottom - y)) / (bottom - top));
  return withSpeed(id, id === "bandwidth" ? speed / REACH : speed, settings);
}

// A quarter of an octave a step, as the sliders.
function nudge(id, steps, settings) {
  const now = id === "single" ? Math.min(settings.single, settings.peak) : settings[id];
  return withSpeed(id, now * 2 ** (steps / 4), settings);
}

function pick(number) {
  return { plan: ALL[number - 1] };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge, pick }),
};
