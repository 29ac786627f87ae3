// Chunk by chunk: the numbers of chunk_by_chunk.py, and their picture: the tokens with
// what is known of them, and the matrices of the chunk at work, each with its check.

const [TOKENS, CHUNK, D_K, D_V, STAGES] = [8, 4, 3, 2, 5];
const [KEYS, VALUES, QUERIES, SHARED] = [0, 1, 2, 3];

// ---------------------------------------------------------------- numbers

function times(x, y) {
  const across = columns(y);
  return x.map((row) => across.map((column) => dot(row, column)));
}

// Rows up to the diagonal, or up to the entry before it.
function lower(x, before = 0) {
  return x.map((row, i) => row.map((entry, j) => (j <= i - before ? entry : 0)));
}

// (I + L)^{-1}, each row from those above.
function inverseOf(L) {
  const rows = [];
  L.forEach((row, i) => {
    const one = row.map((_, j) => (i === j ? 1 : 0));
    rows.push(rows.reduce((sum, x, j) => plus([sum], [x], -row[j])[0], one));
  });
  return rows;
}

// The recurrence: what each token writes and answers, and every state on the way. The
// writes are beta times the values, or whatever `z` says, less what is erased.
function oneByOne(q, k, z, beta) {
  const states = [table(D_K, z[0].length, () => 0)];
  const writes = k.map((key, t) => {
    const seen = ask(states[t], key);
    const change = z[t].map((x, j) => x - beta * seen[j]);
    states.push(remember(states[t], key, change));
    return change;
  });
  return { writes, answers: q.map((one, t) => ask(states[t + 1], one)), states };
}

export function compute({ beta, similarity, seed, step }) {
  const [k, q] = [KEYS, QUERIES].map((own) =>
    similar(seed, [own, SHARED], TOKENS, D_K, similarity),
  );
  const v = normal(seed, VALUES, TOKENS, D_V);
  const scaled = (x) => x.map((row) => row.map((entry) => beta * entry));
  const there = oneByOne(q, k, scaled(v), beta);
  const memories = there.states.filter((_, t) => t % CHUNK === 0);
  const found = { L: [], inverse: [], asked: [], u: [], o: [] };
  const [states, gaps] = [[memories[0]], []];
  range(TOKENS / CHUNK).forEach((chunk) => {
    const now = (x) => x.slice(chunk * CHUNK, (chunk + 1) * CHUNK);
    const [K, S] = [now(k), states[chunk]];
    const unit = table(CHUNK, CHUNK, (i, j) => (i === j ? 1 : 0));
    const L = lower(scaled(times(K, columns(K))), 1);
    const inverse = inverseOf(L);
    const asked = scaled(plus(now(v), times(K, S), -1));
    const u = times(inverse, asked);
    const inside = times(lower(times(now(q), columns(K))), u);
    const o = plus(times(now(q), S), inside);
    states.push(plus(S, times(columns(K), u)));
    const parts = { L, inverse, asked, u, o };
    for (const [name, rows] of Object.entries(parts)) found[name].push(...rows);
    // what a unit write by each token, and nothing erased, would show the later ones
    const added = oneByOne(K, K, unit, 0);
    const seen = lower(scaled(K.map((key) => ask(added.states[CHUNK], key))), 1);
    const pairs = [
      [L, seen],
      [inverse, oneByOne(K, K, unit, beta).writes],
      [u, now(there.writes)],
      [o, now(there.answers)],
      [states[chunk + 1], memories[chunk + 1]],
    ];
    for (const [ours, theirs] of pairs) {
      gaps.push(Math.max(...plus(ours, theirs, -1).flat().map(Math.abs)));
    }
  });
  return {
    chunk: Math.ceil(step / STAGES),
    stage: step ? ((step - 1) % STAGES) + 1 : 0,
    keys: k,
    values: v,
    queries: q,
    ...found,
    states,
    writes: there.writes,
    answers: there.answers,
    memories,
    gaps,
  };
}

// ---------------------------------------------------------------- pictures

const [CELL, WIDE, HIGH] = [17, 33, 178];

// The tokens in two chunks; what a step has found stands beside what was given.
function tokensPicture(numbers, { chunk, stage }) {
  const given = [
    ["key", numbers.keys, "key"],
    ["value", numbers.values, "value"],
    ["query", numbers.queries, "query"],
    ["writes u", numbers.u, "error", 3],
    ["answers o", numbers.o, "output", 4],
  ];
  const label = "the tokens, what they write and what they answer";
  const node = picture(330, HIGH, label);
  const y = (i) => 26 + i * CELL + (i < CHUNK ? 0 : 8);
  range(TOKENS).forEach((i) => tick(node, 14, y(i) + 12, String(i + 1), "end"));
  let x = 22;
  for (const [name, rows, role, known = 0] of given) {
    write(node, x, 14, name, { class: `x-heading x-fill-${role}` });
    rows.forEach((row, i) => {
      const own = i < CHUNK ? 1 : 2;
      const there = !known || own < chunk || (own === chunk && stage >= known);
      const shown = there ? row : row.map(() => 0);
      const limit = known || role === "value" ? 2 : 1;
      heat(node, [shown], { x, y: y(i), width: CELL, height: CELL, role, limit });
    });
    x += Math.max(rows[0].length * CELL + 14, 8.2 * name.length);
  }
  if (chunk) {
    const box = { x: 19, y: y((chunk - 1) * CHUNK) - 2, width: 309, rx: 3 };
    const kind = { height: CHUNK * CELL + 3, class: "x-hollow x-stroke-key" };
    node.append(shape("rect", { ...box, ...kind, opacity: 0.6 }));
  }
  return node;
}

const FORMULAS = [
  "L = tril(β K Kᵀ, −1)",
  "(I + L)⁻¹, row by row",
  "u = (I + L)⁻¹ β (V − K S)",
  "o = Q S + tril(Q Kᵀ) u",
  "S ← S + Kᵀ u",
];

// The five steps, of which the last that is taken stands out.
function stepsPicture({ chunk, stage }) {
  const title = chunk ? `five steps, chunk ${chunk}` : "five steps for each chunk";
  const node = picture(240, HIGH, title);
  write(node, 0, 14, title, { class: "x-heading" });
  FORMULAS.forEach((text, i) => {
    const kind = i + 1 === stage ? "x-heading x-fill-query" : "";
    write(node, 0, 40 + i * 26, `${i + 1}. ${text}`, { class: kind });
  });
  return node;
}

// One matrix of the chunk at work, with its numbers once its step is taken.
function card({ name, role, rows, blank = () => false }, { at, chunk, stage, gap }) {
  const [width, height] = [rows[0].length * WIDE, rows.length * 21];
  const known = stage >= at;
  const node = picture(Math.max(width, 80), CHUNK * 21 + 46, name);
  const heading = { class: `x-heading x-fill-${role}` };
  write(node, 0, 14, name, heading);
  const limit = Math.max(1, ...rows.flat().map(Math.abs));
  const shown = rows.map((row) => row.map((x) => (known ? x : 0)));
  const size = { width: WIDE, height: 21 };
  heat(node, shown, { x: 0, y: 24, ...size, role, limit: 2 * limit, signs: false });
  if (known) {
    rows.forEach((row, i) =>
      row.forEach((x, j) => {
        const text = round(x, Math.abs(x) < 10 ? 2 : 1);
        if (!blank(i, j)) tick(node, (j + 0.5) * WIDE, 24 + i * 21 + 14, text);
      }),
    );
    tick(node, 0, height + 40, `off by ${brief(gap)}`, "start", "error");
  }
  const frame = { x: -2, y: 21.5, width: width + 4, height: height + 4, rx: 3 };
  const kind = known && stage === at ? "x-row x-asked" : "x-row";
  const step = (Math.max(chunk, 1) - 1) * STAGES + at;
  node.append(shape("rect", { ...frame, class: kind, "data-pick": step }));
  return node;
}

function draw(numbers) {
  const { chunk, stage, gaps } = numbers;
  const from = Math.max(chunk, 1) - 1;
  const now = (rows) => rows.slice(from * CHUNK, (from + 1) * CHUNK);
  const above = (i, j) => j > i;
  const cards = [
    { name: "L", role: "key", rows: now(numbers.L), blank: (i, j) => j >= i },
    { name: "(I + L)⁻¹", role: "key", rows: now(numbers.inverse), blank: above },
    { name: "writes u", role: "error", rows: now(numbers.u) },
    { name: "answers o", role: "output", rows: now(numbers.o) },
    { name: "state S", role: "state", rows: numbers.states[from + 1] },
  ];
  return [
    tokensPicture(numbers, { chunk, stage }),
    stepsPicture(numbers),
    ...cards.map((one, i) => {
      const gap = gaps[from * STAGES + i];
      return card(one, { at: i + 1, chunk, stage, gap });
    }),
  ];
}

// ---------------------------------------------------------------- words

function readouts({ chunk, stage, L, inverse, gaps }) {
  const now = (x) => x.slice((chunk - 1) * CHUNK, chunk * CHUNK).flat().map(Math.abs);
  const most = (x, from) => (chunk && stage >= from ? round(Math.max(...now(x))) : "–");
  const done = gaps.slice(0, (chunk - 1) * STAGES + stage);
  return [
    ["chunk", "size", chunk ? `${chunk} of 2` : "–"],
    ["largest of $L$", "key", most(L, 1)],
    ["largest of the inverse", "key", most(inverse, 2)],
    ["off from the recurrence", "error", chunk ? brief(Math.max(...done)) : "–"],
  ];
}

const SAID = [
  "L: what token i sees, through β kᵢ·kⱼ, of what token j before it writes.",
  "The inverse of I + L: how the errors at the chunk's start mix into writes.",
  "The writes u of four tokens at once, which the recurrence makes one by one.",
  "The answers o: from the state before the chunk, and from writes up to each token.",
  "The state S after the chunk, which is all that the next one needs.",
];

function sentence({ chunk, stage, gaps }) {
  if (!chunk) return "Eight tokens in two chunks of four, and an empty state.";
  const gap = gaps[(chunk - 1) * STAGES + stage - 1];
  const same = gap ? `differs by at most ${brief(gap)}` : "has exactly these numbers";
  return `Chunk ${chunk}. ${SAID[stage - 1]} The recurrence ${same}.`;
}

function rows({ L, inverse, u, writes, o, answers }) {
  const each = [L, inverse, u, writes, o, answers];
  return {
    head: ["token", "$L$", "inverse", "u", "u, recurrence", "o", "o, recurrence"],
    rows: L.map((_, t) => [String(t + 1), ...each.map((part) => listed(part[t], 4))]),
  };
}

const pick = (step) => ({ step });

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, pick }),
};
