// Trapdoor: the numbers of trapdoor.py, and their picture. On the left the newest query
// stands above the keys and the answer below the values; on the right the query's
// features stand beside the state, and the answer below it.

const D_V = 3;
const ROWS = 40; // of a larger state the picture shows the first
const [KEYS, VALUES, QUERIES] = [0, 1, 2];

// ---------------------------------------------------------------- numbers

// All monomials of degree n in the channels of x from `first` on; `times` counts how
// often the channel before was taken, and the product of all factorials divides.
function monomials(x, n, first = 0) {
  if (n === 0) return [1];
  return range(x.length - first).flatMap((step) => {
    const i = first + step;
    return range(n).reverse().flatMap((less) => {
      const times = less + 1;
      let own = 1;
      for (let j = 1; j <= times; j++) own *= x[i] / Math.sqrt(j);
      return monomials(x, n - times, i + 1).map((rest) => own * rest);
    });
  });
}

function featuresOf(rule, degree) {
  return {
    plain: (x) => x,
    elu: (x) => x.map((entry) => (entry > 0 ? entry + 1 : Math.exp(entry))),
    square: (x) => x.flatMap((one) => x.map((other) => one * other)),
    softmax: (x) => range(degree + 1).flatMap((n) => monomials(x, n)),
  }[rule];
}

// The weight of a pair before it is normalised, from the vectors as they are.
function weightOf(rule, phi) {
  return {
    plain: dot,
    elu: (q, k) => dot(phi(q), phi(k)),
    square: (q, k) => dot(q, k) ** 2,
    softmax: (q, k) => Math.exp(dot(q, k)),
  }[rule];
}

function sumOf(x) {
  return x.reduce((sum, one) => sum + one, 0);
}

export function compute({ rule, tokens, d_k, scale, degree, seed, ...rest }) {
  const read = Math.min(rest.read, tokens);
  const k = directions(normal(seed, KEYS, tokens, d_k));
  const v = normal(seed, VALUES, tokens, D_V);
  const factor = rule === "softmax" ? scale : 1;
  const drawn = directions(normal(seed, QUERIES, tokens, d_k));
  const q = drawn.map((row) => row.map((entry) => factor * entry));
  const phi = featuresOf(rule, degree);
  const weight = weightOf(rule, phi);
  const columns = rule === "plain" ? D_V : D_V + 1;
  const entry = (j, c) => (c < D_V ? v[j][c] : 1);
  const share = (weights) => {
    const sum = rule === "plain" ? 1 : sumOf(weights);
    return weights.map((one) => one / sum);
  };
  // the left order: compare with every key so far, then combine the values
  const weights = q.map((query, t) =>
    share(range(t + 1).map((j) => weight(query, k[j]))),
  );
  const left = weights.map((row) =>
    range(D_V).map((c) => dot(row, v.map((value) => value[c]))),
  );
  // the right order: fold the pairs into S, then ask it
  const rows = phi(k[0]).length;
  const S = table(rows, columns, () => 0);
  let [state, write] = [0, 0].map(() => table(rows, columns, () => 0));
  const right = q.map((query, t) => {
    const key = phi(k[t]);
    key.forEach((x, i) => {
      for (let c = 0; c < columns; c++) S[i][c] += x * entry(t, c);
    });
    if (t + 1 === read) {
      state = S.map((row) => [...row]);
      write = table(rows, columns, (i, c) => key[i] * entry(t, c));
    }
    const asked = phi(query);
    const sums = range(columns).map((c) => dot(asked, S.map((row) => row[c])));
    return sums.slice(0, D_V).map((sum) => (rule === "plain" ? sum : sum / sums[D_V]));
  });
  const now = read - 1;
  const each = (value) => range(tokens).map((t) => value(t + 1));
  const once = 2 * rows * columns;
  return {
    keys: k,
    values: v,
    queries: q,
    weights: read ? weights[now] : [],
    features: read ? phi(q[now]) : [],
    state,
    write,
    left: read ? left[now] : [],
    right: read ? right[now] : [],
    gaps: each((t) =>
      Math.max(...left[t - 1].map((x, c) => Math.abs(x - right[t - 1][c]))),
    ),
    left_operations: each((t) => t * (d_k + D_V)),
    right_operations: each(() => once),
    left_kept: each((t) => t * (d_k + D_V)),
    right_kept: each(() => rows * columns),
    crossing: Math.floor(once / (d_k + D_V)) + 1,
  };
}

// ---------------------------------------------------------------- pictures

const CELL = 15;
const TOP = 46; // of the first row: a heading and a strip stand above it

// A strip of numbers with its letter before or above it.
function strip(parent, row, { x, y, role, letter }) {
  heat(parent, [row], { x, y, width: CELL, height: CELL, role, limit: 2 });
  const end = { class: `x-tick x-fill-${role}`, "text-anchor": "end" };
  write(parent, x - 5, y + 11, letter, end);
}

// Compare, then combine: the query above the keys, its weights beside them, the values
// beside the weights, and the answer below.
function compared(parent, numbers, { read, x, y, width }) {
  const { keys, values, queries, weights, left } = numbers;
  const d_k = keys[0].length;
  const rows = { y: y + TOP, width: CELL, height: CELL };
  const first = x + 34;
  const middle = first + d_k * CELL + 10;
  const last = x + width - D_V * CELL - 4;
  const room = last - middle - 12;
  const faint = (j) => j >= read;
  write(parent, x, y, "compare, then combine", { class: "x-heading x-fill-key" });
  heat(parent, keys, { ...rows, x: first, role: "key", limit: 1, faint });
  heat(parent, values, { ...rows, x: last, role: "value", limit: 2, faint });
  if (!read) return;
  const query = queries[read - 1];
  const role = "query";
  strip(parent, query, { x: first, y: y + 16, role, letter: `q_t` });
  const top = Math.max(0.5, ...weights.map(Math.abs));
  const negative = weights.some((w) => w < 0);
  const zero = middle + (negative ? room / 2 : 0);
  const length = negative ? room / 2 : room;
  write(parent, middle, y + 28, "weights", { class: "x-tick x-fill-query" });
  weights.forEach((weight, j) => {
    const size = Math.max(1, (length * Math.abs(weight)) / top);
    const bar = { x: weight < 0 ? zero - size : zero, width: size, height: 9 };
    const at = { y: y + TOP + j * CELL + 2.5, class: "x-fill-query" };
    parent.append(shape("rect", { ...bar, ...at }));
  });
  for (const j of new Set([0, read - 1])) {
    const at = { class: "x-tick", "text-anchor": "end" };
    write(parent, first - 6, y + TOP + j * CELL + 11, String(j + 1), at);
  }
  const below = y + TOP + keys.length * CELL + 8;
  strip(parent, left, { x: last, y: below, role: "output", letter: "answer o_t" });
}

// Fold, then ask: the state with the query's features beside it, the answer below.
function folded(parent, numbers, { read, x, y, height }) {
  const { state, write: written, features, right } = numbers;
  const shown = Math.min(state.length, ROWS);
  const tall = Math.min(height / shown, CELL);
  const first = x + 34;
  const columns = state[0].length;
  const limit = Math.max(0.5, ...state.flat().map(Math.abs));
  const rows = { y: y + TOP, width: CELL, height: tall };
  write(parent, x, y, "fold, then ask", { class: "x-heading x-fill-state" });
  const square = { ...rows, x: first + CELL + 10, role: "state", limit };
  heat(parent, state.slice(0, shown), square);
  const above = { class: "x-tick x-fill-state" };
  write(parent, square.x, y + 28, columns > D_V ? "S and n" : "S", above);
  const newest = square.x + columns * CELL + 24;
  heat(parent, written.slice(0, shown), { ...square, x: newest });
  write(parent, newest, y + 28, "last write", above);
  const end = newest + columns * CELL + 10;
  const counts = [`${state.length} × ${columns}`, "numbers"];
  if (shown < state.length) counts.push(`(${shown} rows`, "are drawn)");
  counts.forEach((text, i) =>
    write(parent, end, y + TOP + 11 + 15 * i, text, { class: "x-tick" }),
  );
  if (!read) return;
  const most = Math.max(1, ...features.map(Math.abs));
  const column = features.slice(0, shown).map((entry) => [entry]);
  heat(parent, column, { ...rows, x: first, role: "query", limit: most });
  const name = { class: "x-tick x-fill-query", "text-anchor": "end" };
  write(parent, first + CELL, y + 28, columns > D_V ? "φ(q_t)" : "q_t", name);
  const below = y + TOP + shown * tall + 8;
  const at = { x: square.x, y: below, role: "output", letter: "answer o_t" };
  strip(parent, right, at);
}

function counts(numbers, what, read) {
  const [left, right] = [numbers[`left_${what}`], numbers[`right_${what}`]];
  return {
    title: what === "kept" ? "numbers kept" : "multiplications for one token",
    across: "token",
    lines: [
      { values: left, role: "key", label: "left" },
      { values: right, role: "state", dash: "5 3", label: "right" },
    ],
    mark: read ? { at: read - 1, value: left[read - 1] } : null,
  };
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  const read = Math.min(settings.read, settings.tokens);
  // two columns, or one on a phone; the stage leaves 16 pixels between them, and its
  // width was rounded
  const column = width < 560 ? width : (width - 18) / 2;
  const height = Math.max(settings.tokens, 6) * CELL;
  const low = TOP + height + 44;
  const one = picture(column, low, "comparing and combining");
  compared(one, numbers, { read, x: 0, y: 14, width: column });
  const other = picture(column, low, "folding and asking");
  folded(other, numbers, { read, x: 0, y: 14, height });
  const charts = ["operations", "kept"].map((what) => {
    const chosen = counts(numbers, what, read);
    const plot = picture(column, 150, `${chosen.title}, left and right`);
    chart(plot, { x: 0, y: 26, width: column + 36, height: 96, ...chosen });
    return plot;
  });
  return [one, other, ...charts];
}

// ---------------------------------------------------------------- words

function readouts(numbers, { tokens, ...settings }) {
  const read = Math.min(settings.read, tokens);
  const at = (name) => (read ? String(numbers[name][read - 1]) : "–");
  return [
    ["difference", "error", read ? brief(numbers.gaps[read - 1]) : "–"],
    ["left multiplies", "key", at("left_operations")],
    ["right multiplies", "state", at("right_operations")],
    ["left keeps", "key", at("left_kept")],
    ["right keeps", "state", at("right_kept")],
  ];
}

function sentence(numbers, { rule, tokens, degree, ...settings }) {
  const read = Math.min(settings.read, tokens);
  if (read === 0) return "Nothing has been read yet.";
  const gap = brief(numbers.gaps[read - 1]);
  const more = `From token ${numbers.crossing} on the left order multiplies more.`;
  if (rule !== "softmax") {
    const rounding = numbers.gaps[read - 1] ? `, to rounding (${gap})` : "";
    return `Both orders give the same answer${rounding}. ${more}`;
  }
  const series = `The right order has the exponential's series up to degree ${degree}`;
  const terms = "more terms come nearer and keep more";
  return `${series} and is off by ${gap}; ${terms}. ${more}`;
}

function rows(numbers) {
  return {
    head: [
      "token",
      "key",
      "value",
      "query",
      "weight now",
      "difference",
      "left multiplies",
      "right multiplies",
    ],
    rows: numbers.keys.map((key, i) => [
      String(i + 1),
      listed(key),
      listed(numbers.values[i]),
      listed(numbers.queries[i]),
      i < numbers.weights.length ? round(numbers.weights[i], 4) : "not read",
      brief(numbers.gaps[i]),
      String(numbers.left_operations[i]),
      String(numbers.right_operations[i]),
    ]),
  };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows }),
};
