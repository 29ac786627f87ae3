// Two orders: the numbers of two_orders.py, and their picture. The pairs on the left,
// the memory of each order and their difference beside them, and what each order makes
// of every token below.

const D_V = 4;
const ORDERS = ["first", "second"];
const NAMES = { first: "decay first", second: "read first" };

// ---------------------------------------------------------------- numbers

// The memory before the first token and after each. What the error is taken of is what
// has faded, or what has not.
function statesIn(order, k, v, alpha, beta) {
  const states = [table(k.length + 1, D_V, () => 0)];
  k.forEach((key, t) => {
    const fade = order === "first" ? alpha : 1;
    const seen = ask(states[t], key);
    const change = v[t].map((value, j) => beta * (value - fade * seen[j]));
    states.push(remember(states[t], key, change, alpha));
  });
  return states;
}

function lengthOf(x) {
  return Math.sqrt(dot(x, x));
}

export function compute(settings) {
  const { given, alpha, beta, tokens, seed } = settings;
  const [read, pair] = [settings.read, settings.pair].map((x) => Math.min(x, tokens));
  const k = atOneCosine(tokens, settings.cosine);
  const v = normal(seed, 0, tokens, D_V);
  const factor = given === "bridge" ? alpha : 1;
  const rate = beta / factor;
  const scaled = v.map((row) => row.map((x) => factor * x));
  const first = statesIn("first", k, scaled, alpha, rate);
  const second = statesIn("second", k, v, alpha, beta);
  const missesOf = (states) =>
    k.map((key, t) => {
      const miss = ask(states[t + 1], key).map((x, j) => x - v[t][j]);
      return lengthOf(miss) / Math.sqrt(D_V);
    });
  return {
    keys: k,
    values: v,
    first: first[read],
    second: second[read],
    gap: plus(first[read], second[read], -1),
    first_answer: ask(first[read], k[pair - 1]),
    second_answer: ask(second[read], k[pair - 1]),
    gaps: k.map((_, t) => lengthOf(plus(first[t + 1], second[t + 1], -1).flat())),
    first_misses: missesOf(first),
    second_misses: missesOf(second),
    rate,
    factor,
    first_kept: alpha * (1 - rate),
    second_kept: alpha - beta,
  };
}

// ---------------------------------------------------------------- pictures

const TOP = 30;

function cellOf(tokens) {
  return tokens > 6 ? 14 : 17;
}

// The pairs, a row a token; the newest that has been read is the last that is not pale.
function pairsPicture({ keys, values }, { asked, read, room }) {
  const tokens = keys.length;
  const cell = cellOf(tokens);
  const second = 22 + (tokens + 1) * cell + 16;
  const width = second + D_V * cell + 4;
  const label = `${read} of ${tokens} pairs read, keys and values`;
  const node = picture(width, TOP + tokens * cell + room, label);
  const rows = { y: TOP, width: cell, height: cell, faint: (i) => i >= read };
  heat(node, keys, { ...rows, x: 22, role: "key", limit: 1 });
  heat(node, values, { ...rows, x: second, role: "value", limit: 2.5 });
  write(node, 22, TOP - 12, "keys", { class: "x-heading x-fill-key" });
  write(node, second, TOP - 12, "values", { class: "x-heading x-fill-value" });
  const place = { count: tokens, y: TOP, height: cell };
  numbering(node, { ...place, x: 16 });
  rowFrames(node, { ...place, asked, x: 22, width: width - 22 });
  return node;
}

// The two memories and their difference, with the answers to the asked key below.
function statesPicture(numbers, { asked }) {
  const { first, second, gap, values } = numbers;
  const rows = gap.length;
  const cell = cellOf(rows - 1);
  const wide = D_V * 17;
  const step = wide + 24;
  const label = `memories of both orders, and their answers to key ${asked + 1}`;
  const node = picture(44 + 2 * step + wide + 14, TOP + rows * cell + 48, label);
  const limit = Math.max(1.5, ...first.flat().map(Math.abs));
  const below = TOP + rows * cell + 12;
  const wanted = values[asked];
  const apart = Math.max(0.5, ...gap.flat().map(Math.abs));
  const shown = [
    [NAMES.first, first, numbers.first_answer, "state", limit],
    [NAMES.second, second, numbers.second_answer, "state", limit],
    ["difference", gap, ask(gap, numbers.keys[asked]), "error", apart],
  ];
  const size = { width: 17, height: cell };
  shown.forEach(([name, state, answer, role, most], i) => {
    const x = 44 + i * step;
    write(node, x, TOP - 12, name, { class: `x-heading x-fill-${role}` });
    heat(node, state, { x, y: TOP, ...size, role, limit: most });
    const [kind, full] = role === "error" ? ["error", most] : ["output", 2.5];
    heat(node, [answer], { x, y: below, ...size, role: kind, limit: full });
    if (role === "error") return;
    heat(node, [wanted], { x, y: below + 19, ...size, role: "value", limit: 2.5 });
  });
  ["answer", "wanted"].forEach((text, i) => {
    const role = i ? "value" : "output";
    tick(node, 38, below + 11 + 19 * i, text, "end", role);
  });
  return node;
}

function plot(title, lines, width, mark) {
  const node = picture(width, 156, title);
  const across = "token";
  chart(node, { x: 0, y: 28, width, height: 100, title, across, lines, mark });
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const { tokens } = settings;
  const read = Math.min(settings.read, tokens);
  const asked = (view.pointed ?? Math.min(settings.pair, tokens)) - 1;
  const { width } = view;
  const narrow = width < 560;
  const column = narrow ? width : (width - 18) / 2;
  // beside each other, the two first pictures end at one height
  const room = narrow ? 8 : 48 + cellOf(tokens);
  const misses = ORDERS.map((order, i) => {
    const values = numbers[`${order}_misses`];
    return { values, role: "state", dash: i ? "5 3" : "", label: NAMES[order] };
  });
  const gaps = [{ values: numbers.gaps, role: "error", label: "difference" }];
  const mark = (values) => (read ? { at: read - 1, value: values[read - 1] } : null);
  return [
    pairsPicture(numbers, { asked, read, room }),
    statesPicture(numbers, { asked }),
    plot("size of the difference", gaps, column, mark(numbers.gaps)),
    plot("error of the newest answer", misses, column, mark(misses[0].values)),
  ];
}

// ---------------------------------------------------------------- words

function readouts({ gaps, first_kept, second_kept }, { tokens, ...settings }) {
  const read = Math.min(settings.read, tokens);
  return [
    ["difference of the states", "error", read ? brief(gaps[read - 1]) : "–"],
    ["old answer kept, decay first", "state", round(first_kept)],
    ["old answer kept, read first", "state", round(second_kept)],
  ];
}

function sentence(numbers, { given, alpha, beta, cosine, tokens, ...settings }) {
  const read = Math.min(settings.read, tokens);
  if (read === 0) return "Nothing has been read yet.";
  const gap = numbers.gaps[read - 1];
  const grows =
    numbers.second_kept < -1
      ? " What read first keeps is below −1: old answers turn round and grow."
      : "";
  if (given === "bridge") {
    const sums = `β/α = ${brief(numbers.rate)} and ${brief(numbers.factor)} v`;
    const rest = gap ? `what differs is rounding, ${brief(gap)}` : "nothing differs";
    return `Decay first is given ${sums}, and ${rest}: the bridge is exact.${grows}`;
  }
  if (beta === 0) return "With β = 0 nothing is ever written, in either order.";
  if (alpha === 1) return `With α = 1 nothing fades, and the orders are one.${grows}`;
  if (cosine === 0) {
    return "Keys at right angles: no write is seen by another, and the orders agree.";
  }
  if (read === 1) return "The first token finds an empty memory: no difference yet.";
  const [first, second] = ORDERS.map((order) => numbers[`${order}_misses`][read - 1]);
  const newest =
    `Asked for token ${read}, just written, decay first misses by ${round(first)} ` +
    `and read first by ${round(second)}`;
  return `The states differ by ${brief(gap)}. ${newest}.${grows}`;
}

function rows(numbers) {
  return {
    head: [
      "token",
      "key",
      "value",
      "difference of the states",
      "newest error, decay first",
      "newest error, read first",
    ],
    rows: numbers.keys.map((key, t) => [
      String(t + 1),
      listed(key),
      listed(numbers.values[t]),
      brief(numbers.gaps[t]),
      brief(numbers.first_misses[t]),
      brief(numbers.second_misses[t]),
    ]),
  };
}

const pick = (pair) => ({ pair });

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, pick }),
};
