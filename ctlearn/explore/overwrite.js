// Overwrite: the numbers of overwrite.py, and their picture. The plane of the keys, in
// which the state is a point on its way, and a row for each key with what it answers.

const ANGLES = [20, 70, 140, -120, -50];
const VALUES = [1, -1, 1.5, 0.5];

// ---------------------------------------------------------------- numbers

function directionsOf({ writes, angles }) {
  return range(writes - 1).map((i) => angles[i] ?? ANGLES[i]);
}

export function compute(settings) {
  const { rule, alpha, beta, writes } = settings;
  const written = Math.min(settings.written, writes);
  const turns = directionsOf(settings);
  const keys = turns.map(unit);
  const order = [...range(writes - 1), 0];
  const values = [settings.old, ...VALUES.slice(0, writes - 2), settings.new];
  const pairs = { k: order.map((i) => keys[i]), v: values.map((value) => [value]) };
  const path = statesOf(pairs, settings).map((S) => S.map(([entry]) => entry));
  const answersAt = (state) => keys.map((key) => dot(key, state));
  const before = answersAt(path[Math.max(written - 1, 0)]);
  const answers = answersAt(path[written]);
  const bound = keys.map(() => null);
  order.slice(0, written).forEach((key, i) => (bound[key] = values[i]));
  return {
    directions: turns,
    keys,
    cosines: answersAt(keys[0]),
    path,
    before,
    answers,
    moves: answers.map((answer, i) => answer - before[i]),
    bound,
    key: written ? order[written - 1] : null,
    misses: bound.map((value, i) => (value === null ? null : answers[i] - value)),
    kept: { add: 1, decay: alpha, delta: 1 - beta }[rule],
  };
}

// ---------------------------------------------------------------- pictures

const DIAL = { cx: 148, cy: 176, radius: 134 };

function nameOf(i) {
  return i ? `bystander ${i}` : "the key";
}

// Where the states lie in the plane: a scale that has room for the longest.
function placer({ path }) {
  const longest = Math.max(...path.map((state) => Math.sqrt(dot(state, state))));
  const scale = (DIAL.radius - 20) / Math.max(2.5, longest);
  return ([right, up]) => [DIAL.cx + scale * right, DIAL.cy - scale * up];
}

// All states that answer `value` to a key lie on a line across the key.
function answerLine(parent, place, key, value, name) {
  const [x, y] = place([value * key[0], value * key[1]]);
  const off = Math.hypot(x - DIAL.cx, y - DIAL.cy);
  if (off >= DIAL.radius) return;
  const half = Math.sqrt(DIAL.radius ** 2 - off ** 2);
  const [right, up] = [-key[1], key[0]];
  const ends = { x1: x - half * right, y1: y + half * up };
  const others = { x2: x + half * right, y2: y - half * up };
  const dash = name === "old" ? "4 4" : undefined;
  const kind = { class: "x-line x-thin x-stroke-value", "stroke-dasharray": dash };
  parent.append(shape("line", { ...ends, ...others, ...kind }));
  const [tx, ty] = [x + 0.8 * half * right + 5, y - 0.8 * half * up];
  tick(parent, tx, ty, name, "start", "value");
}

function plane(parent, numbers, settings) {
  const { keys, path } = numbers;
  const { cx, cy, radius } = DIAL;
  const written = Math.min(settings.written, settings.writes);
  const place = placer(numbers);
  const state = path[written];
  write(parent, 0, 14, "keys: turn one", { class: "x-heading x-fill-key" });
  parent.append(shape("circle", { cx, cy, r: radius, class: "x-ring" }));
  const { old, new: fresh } = settings;
  const lines = old === fresh ? { "old, new": old } : { old, new: fresh };
  for (const [name, value] of Object.entries(lines)) {
    answerLine(parent, place, keys[0], value, name);
  }
  const foot = keys[0].map((x) => numbers.answers[0] * x);
  const [sx, sy] = place(state);
  const [fx, fy] = place(foot);
  const dropped = { d: joined([sx, fx], [sy, fy]), class: "x-line x-thin" };
  parent.append(shape("path", { ...dropped, "stroke-dasharray": "1.5 3" }));
  const way = path.slice(0, written + 1).map(place);
  const [right, down] = [0, 1].map((side) => way.map((point) => point[side]));
  const line = { d: joined(right, down), class: "x-line x-stroke-state" };
  parent.append(shape("path", line));
  way.forEach(([x, y], i) => {
    const at = { cx: x, cy: y, r: i === written ? 6 : 3, class: "x-fill-state x-halo" };
    parent.append(shape("circle", at));
  });
  write(parent, sx + 9, sy + 13, "S", { class: "x-fill-state" });
  parent.append(shape("circle", { cx: fx, cy: fy, r: 4, class: "x-fill-output" }));
  keys.forEach((_, i) => {
    const label = `direction of ${nameOf(i)}`;
    const text = i ? String(i) : "k";
    const key = { id: `key-${i}`, role: "key", label, text };
    spoke(parent, { ...DIAL, angle: numbers.directions[i], ...key });
  });
}

// A row for each key: its answer before the last write and after, and what is bound.
function answersOf(parent, numbers, { old, ...settings }, { x, y, width }) {
  const { before, answers, bound, cosines } = numbers;
  const highest = Math.max(2, ...[...before, ...answers].map(Math.abs));
  const [left, right] = [x + 12, x + width - 64];
  const at = (value) => (left + right) / 2 + ((right - left) / 2) * (value / highest);
  const bottom = y + answers.length * 46;
  for (const value of [-1, 0, 1].map((side) => side * Math.floor(highest))) {
    const line = { x1: at(value), x2: at(value), y1: y, y2: bottom };
    parent.append(shape("line", { ...line, class: "x-grid" }));
    tick(parent, at(value), bottom + 14, round(value, 0));
  }
  answers.forEach((answer, i) => {
    const top = y + i * 46;
    const across = top + 28;
    const cosine = i ? `, cosine ${round(cosines[i])}` : "";
    tick(parent, x, top + 12, nameOf(i) + cosine, "start", "key");
    const line = { x1: at(before[i]), x2: at(answer), y1: across, y2: across };
    parent.append(shape("line", { ...line, class: "x-line x-stroke-output" }));
    const start = { cx: at(before[i]), cy: across, r: 4, class: "x-hollow" };
    parent.append(shape("circle", { ...start, stroke: "currentColor" }));
    const end = { cx: at(answer), cy: across, r: 5, class: "x-fill-output x-halo" };
    parent.append(shape("circle", end));
    const diamond = (value) => `M${at(value)} ${across - 8}l8 8-8 8-8-8z`;
    const kind = "x-hollow x-stroke-value";
    if (i === 0 && bound[0] !== null && bound[0] !== old) {
      const gone = { d: diamond(old), class: kind, "stroke-dasharray": "2 3" };
      parent.append(shape("path", gone));
    }
    if (bound[i] !== null) {
      parent.append(shape("path", { d: diamond(bound[i]), class: kind }));
    }
    write(parent, right + 18, across + 4, round(answer), { class: "x-fill-output" });
  });
}

// What the signs of the rows mean.
function signs(parent, { x, y }) {
  const one = { cy: y - 4, class: "x-fill-output" };
  parent.append(shape("circle", { cx: x + 6, r: 5, ...one }));
  tick(parent, x + 16, y, "answer", "start", "output");
  const start = { cx: x + 70, cy: y - 4, r: 4, class: "x-hollow" };
  parent.append(shape("circle", { ...start, stroke: "currentColor" }));
  tick(parent, x + 80, y, "one write ago", "start");
  const d = `M${x + 168} ${y - 11}l7 7-7 7-7-7z`;
  parent.append(shape("path", { d, class: "x-hollow x-stroke-value" }));
  tick(parent, x + 180, y, "bound value", "start", "value");
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  const narrow = width < 560;
  const tall = DIAL.cy + DIAL.radius + 18;
  const keys = picture(2 * DIAL.cx, tall, "the keys and the state's way", "group");
  plane(keys, numbers, settings);
  const room = narrow ? width : width - 2 * DIAL.cx - 18;
  const label = "answers before and after the last write, with the bound values";
  const low = 84 + 46 * (settings.writes - 1);
  const rows = picture(room, narrow ? low : Math.max(low, tall), label);
  write(rows, 0, 14, "answers", { class: "x-heading x-fill-output" });
  answersOf(rows, numbers, settings, { x: 0, y: 24, width: room });
  signs(rows, { x: 0, y: low - 18 });
  return [keys, rows];
}

// ---------------------------------------------------------------- words

function readouts({ answers, misses, moves, key, kept }) {
  const others = moves.slice(1).filter((_, i) => key === 0 && misses[i + 1] !== null);
  const moved = others.length ? mean(others.map(Math.abs)) : null;
  return [
    ["answer at the key", "output", round(answers[0])],
    ["off by", "error", round(misses[0])],
    ["old answer kept", "rate", round(kept)],
    ["bystanders moved by", "error", round(moved)],
  ];
}

function sentence(numbers, { rule, beta, writes, ...settings }) {
  const { key, before, answers, moves, cosines, misses } = numbers;
  if (key === null) return "Nothing is written yet: the state is the origin.";
  const written = Math.min(settings.written, writes);
  if (written < writes) {
    const what = written === 1 ? "to its old value" : "";
    const done = `Write ${written} binds ${nameOf(key)} ${what}`.trim();
    const off = round(misses[0]);
    return `${done}; the key answers ${round(answers[0])}, off by ${off}.`;
  }
  const from = `from ${round(before[0])} to ${round(answers[0])}`;
  const what =
    rule !== "delta"
      ? "The new value joins what was there"
      : beta === 1
        ? "The new value takes the old one's place"
        : beta === 2
          ? "The state is mirrored in the line of the new value"
          : `Of the error, 1 − β = ${round(1 - beta)} is left`;
  const how = `${what}: the answer goes ${from}`;
  if (writes === 2) return `${how}.`;
  const why = rule === "decay" ? "and by what faded" : "times the key's own move";
  return (
    `${how}. Bystander 1 moves by ${round(moves[1])}, ` +
    `its cosine ${round(cosines[1])} ${why}.`
  );
}

function rows(numbers) {
  const { directions, cosines, bound, before, answers, moves } = numbers;
  const columns = [cosines, bound, before, answers, moves];
  return {
    head: ["key", "degrees", "cosine", "bound value", "before", "answer", "move"],
    rows: directions.map((angle, i) => [
      nameOf(i),
      round(angle, 0),
      ...columns.map((column) => round(column[i], 4)),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function turn(id, next, settings) {
  return { angles: withTurned(directionsOf(settings), id, next) };
}

const hands = dialHands(DIAL, turn);

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, ...hands }),
};
