// Lookup: the numbers of lookup.py, and their picture. The keys and the question on a
// dial, the values and the answers in a plane, and a bar for the weight of each fact.

// ---------------------------------------------------------------- numbers

function directionsOf({ facts, angles }) {
  return range(facts).map((i) => angles[i] ?? ((200 + 137 * i) % 360) - 180);
}

function valuesOf(facts) {
  return range(facts).map((i) =>
    [0.7548776662, 0.569840291].map(
      (step) => Math.round(100 * (2 * ((0.5 + (i + 1) * step) % 1) - 1)) / 100,
    ),
  );
}

function combine(weights, v) {
  return [0, 1].map((c) => dot(weights, v.map((value) => value[c])));
}

export function compute(settings) {
  const { facts, scale, angle } = settings;
  const directions = directionsOf(settings);
  const k = directions.map(unit);
  const v = valuesOf(facts);
  const q = unit(angle);
  const scoresOf = (question) => k.map((key) => dot(key, question));
  const weightsOf = (question) => softmax(scoresOf(question).map((s) => scale * s));
  // S' q: every value, weighted by the score itself
  const recalled = k.map((key) => combine(scoresOf(key), v));
  const factor = dot(recalled.flat(), v.flat()) / dot(recalled.flat(), recalled.flat());
  const rescaled = (answer) => answer.map((entry) => factor * entry);
  const errors = v.map((value, i) => [
    distance(combine(weightsOf(k[i]), v), value),
    distance(recalled[i], value),
    distance(rescaled(recalled[i]), value),
  ]);
  const weights = weightsOf(q);
  const matrix = combine(scoresOf(q), v);
  return {
    directions,
    keys: k,
    values: v,
    query: q,
    scores: scoresOf(q),
    weights,
    cache: combine(weights, v),
    matrix,
    factor,
    rescaled: rescaled(matrix),
    items: 1 / dot(weights, weights),
    errors,
    recall: [0, 1, 2].map((memory) => mean(errors.map((row) => row[memory]))),
    cache_bytes: 16 * facts,
    matrix_bytes: 16,
  };
}

// ---------------------------------------------------------------- pictures

const DIAL = { cx: 96, cy: 122, radius: 84 };

function dial(parent, numbers, settings) {
  const { cx, cy, radius } = DIAL;
  parent.append(shape("circle", { cx, cy, r: radius, class: "x-ring" }));
  write(parent, 0, 14, "keys and question: turn one", { class: "x-heading" });
  numbers.directions.forEach((angle, i) => {
    const label = `direction of key ${i + 1}`;
    const key = { id: `key-${i}`, role: "key", label, text: String(i + 1) };
    spoke(parent, { ...DIAL, angle, ...key });
  });
  const label = "direction of the question";
  const question = { id: "query", role: "query", label, text: "q", kinds: "x-asked" };
  spoke(parent, { ...DIAL, radius: radius - 26, angle: settings.angle, ...question });
}

// The plane of the values. A line from each to the file's answer is as wide as its
// weight; the matrix's answers may lie outside the frame and are then held at its edge.
function plane(parent, numbers, { x, y, side, asked }) {
  const half = side / 2;
  const at = ([right, up]) => [
    x + half + (half - 14) * clamp(right, -1.12, 1.12),
    y + half - (half - 14) * clamp(up, -1.12, 1.12),
  ];
  const group = shape("g");
  write(group, x, 14, "values and answers", { class: "x-heading" });
  group.append(shape("rect", { x, y, width: side, height: side, class: "x-frame" }));
  const [cx, cy] = at(numbers.cache);
  numbers.values.forEach((value, i) => {
    const [vx, vy] = at(value);
    const width = Math.max(0.3, 7 * numbers.weights[i]).toFixed(2);
    const line = { x1: vx, y1: vy, x2: cx, y2: cy, "stroke-width": width };
    group.append(shape("line", { ...line, class: "x-pull" }));
  });
  numbers.values.forEach((value, i) => {
    const [vx, vy] = at(value);
    const r = i === asked ? 6 : 4;
    group.append(shape("circle", { cx: vx, cy: vy, r, class: "x-fill-value" }));
    write(group, vx + 7, vy - 5, String(i + 1), { class: "x-tick x-fill-value" });
  });
  const square = (answer, size, kind) => {
    const [sx, sy] = at(answer);
    const corner = { x: sx - size / 2, y: sy - size / 2, width: size, height: size };
    group.append(shape("rect", { ...corner, class: kind }));
  };
  square(numbers.matrix, 9, "x-hollow x-stroke-state");
  square(numbers.rescaled, 10, "x-fill-state");
  const diamond = `M${cx} ${cy - 8}l8 8-8 8-8-8z`;
  group.append(shape("path", { d: diamond, class: "x-fill-output x-halo" }));
  parent.append(group);
}

// The signs of the plane, in words, each a step from the one before.
function legend(parent, numbers, { x, y, step }) {
  const place = (i) => [x + i * step[0], y + i * step[1]];
  const square = (i, kind, size) => {
    const [left, top] = place(i);
    const corner = { x: left + 7 - size / 2, y: top - 4 - size / 2 };
    parent.append(shape("rect", { ...corner, width: size, height: size, class: kind }));
  };
  const d = `M${x + 7} ${y - 12}l8 8-8 8-8-8z`;
  parent.append(shape("path", { d, class: "x-fill-output" }));
  square(1, "x-hollow x-stroke-state", 9);
  square(2, "x-fill-state", 10);
  ["file", "matrix", `matrix × ${round(numbers.factor)}`].forEach((text, i) => {
    const [left, top] = place(i);
    write(parent, left + 20, top, text, { class: `x-fill-${i ? "state" : "output"}` });
  });
}

// A row a fact: its cosine with the question, the weight that the file gives it.
function bars(parent, numbers, { y, width, asked }) {
  const height = 22;
  const [left, middle] = [30, 96];
  const room = width - middle - 48;
  write(parent, 0, y - 12, "fact", { class: "x-heading" });
  write(parent, left + 4, y - 12, "cosine", { class: "x-heading x-fill-key" });
  write(parent, middle, y - 12, "weight in the file's answer", {
    class: "x-heading x-fill-query",
  });
  numbers.weights.forEach((weight, i) => {
    const top = y + i * height;
    const end = { class: "x-tick", "text-anchor": "end" };
    write(parent, 14, top + 14, String(i + 1), end);
    write(parent, left + 40, top + 14, round(numbers.scores[i]), end);
    const bar = { x: middle, width: Math.max(1, room * weight), height: 13 };
    parent.append(shape("rect", { ...bar, y: top + 4, class: "x-fill-query" }));
    const beside = { class: "x-tick" };
    write(parent, middle + room * weight + 6, top + 14, round(weight), beside);
    const frame = { x: 1, y: top, width: width - 2, height: height - 1, rx: 3 };
    const kind = i === asked ? "x-row x-asked" : "x-row";
    const pick = { class: kind, "data-pick": numbers.directions[i] };
    parent.append(shape("rect", { ...frame, ...pick }));
  });
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  const asked = numbers.directions.indexOf(view.pointed ?? settings.angle);
  const narrow = width < 520;
  const side = narrow ? Math.min(width, 280) : Math.min(280, width - 230);
  const x = narrow ? 0 : 222;
  const upper = picture(width, narrow ? 226 : side + 32, "keys and question", "group");
  dial(upper, numbers, settings);
  const parts = [upper];
  const values = narrow ? picture(width, side + 32, "values and answers") : upper;
  if (narrow) parts.push(values);
  plane(values, numbers, { x, y: 26, side, asked });
  const beside = x + side + 18;
  if (width - beside > 110) {
    legend(values, numbers, { x: beside, y: 44, step: [0, 22] });
  } else {
    const signs = picture(width, 20, "signs of the answers");
    legend(signs, numbers, { x: 0, y: 14, step: [82, 0] });
    parts.push(signs);
  }
  const rows = picture(width, 30 + 22 * settings.facts, "weights of the facts");
  bars(rows, numbers, { y: 26, width, asked });
  return [...parts, rows];
}

// ---------------------------------------------------------------- words

function readouts(numbers) {
  const [cache, , rescaled] = numbers.recall;
  return [
    ["recall error, file", "output", round(cache, 3)],
    ["recall error, matrix at its best", "state", round(rescaled, 3)],
    ["bytes, file", "output", String(numbers.cache_bytes)],
    ["bytes, matrix", "state", String(numbers.matrix_bytes)],
  ];
}

function sentence(numbers, { facts, scale }) {
  const { weights, items, cache, rescaled, values } = numbers;
  if (facts === 1) return "With one fact the file has one answer, whatever is asked.";
  const most = weights.indexOf(Math.max(...weights));
  const twins = weights.filter((w) => weights[most] - w < 1e-9);
  const who = `fact ${most + 1} has ${round(100 * weights[most], 0)} % of the weight`;
  const read =
    scale === 0
      ? "Nothing is compared: the answer is the plain mean of all values"
      : twins.length > 1
        ? `${twins.length} facts share the largest weight, ${round(weights[most])} each`
        : `The file reads ${round(items, 1)} of ${facts} facts; ${who}`;
  const far = (answer) => round(Math.sqrt(distance(answer, values[most])));
  const where = `Its answer lies ${far(cache)} from value ${most + 1}`;
  return `${read}. ${where}, that of the matrix at its best ${far(rescaled)}.`;
}

function rows(numbers) {
  const body = numbers.directions.map((angle, i) => [
    String(i + 1),
    round(angle, 0),
    listed(numbers.values[i]),
    round(numbers.scores[i], 4),
    round(numbers.weights[i], 4),
    ...numbers.errors[i].map((error) => round(error, 4)),
  ]);
  const errors = ["file", "matrix", "matrix at its best"];
  return {
    head: [
      "fact",
      "key, degrees",
      "value",
      "cosine with $q$",
      "weight",
      ...errors.map((memory) => `own error, ${memory}`),
    ],
    rows: body,
  };
}

// ---------------------------------------------------------------- hands

function turn(id, next, settings) {
  if (id === "query") return { angle: next(settings.angle) };
  return { angles: withTurned(directionsOf(settings), id, next) };
}

const hands = { pick: (angle) => ({ angle }), ...dialHands(DIAL, turn) };

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, ...hands }),
};
