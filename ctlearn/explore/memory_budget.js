// Memory budget: the numbers of memory_budget.py, and their picture: bytes against the
// context for all patterns, and which ages each kind of layer keeps as they are.

const BYTES = { bfloat16: 2, float32: 4 };
const [SUMS, WIDTH] = [4, 4]; // bytes of a state's number, tokens of its convolution
const ALL = Object.keys(PATTERNS);

// ---------------------------------------------------------------- numbers

// A state for each level of age: as many as T - 1 has binary digits, and one.
const levelsAfter = (T) => 33 - Math.clz32(T - 1);

// Of a layer after T tokens: bytes of its cache, bytes of its states, operations.
function stateLayer({ heads, d_k, d_v, dtype }, states, operations) {
  const convolution = (WIDTH - 1) * heads * (2 * d_k + d_v) * BYTES[dtype];
  return [0, heads * states * d_k * d_v * SUMS + convolution, heads * operations];
}

const MEMORIES = {
  full(T, { heads, d_k, d_v, dtype }) {
    const numbers = heads * T * (d_k + d_v);
    return [numbers * BYTES[dtype], 0, numbers];
  },
  windowed: (T, s) => MEMORIES.full(Math.min(T, s.window), s),
  latent: (T, s) => [T * s.rank * BYTES[s.dtype], 0, s.heads * 2 * T * s.rank],
  fixed: (T, s) => stateLayer(s, 1, 3 * s.d_k * s.d_v),
  log_linear(T, s) {
    const levels = levelsAfter(T);
    return stateLayer(s, levels, s.d_k * s.d_v + levels * (s.d_k + 1) * s.d_v);
  },
};

// How many of the last T tokens each keeps as pairs of their own.
const KEPT = {
  full: (T) => T,
  latent: (T) => T,
  windowed: (T, { window }) => Math.min(T, window),
  log_linear: () => 1,
  fixed: () => 0,
};

// The memories of each layer, from the first to the last.
function layersOf(pattern, layers) {
  const turn = PATTERNS[pattern];
  return range(layers).map((i) => turn[i % turn.length]);
}

function costOf(pattern, T, settings) {
  const all = layersOf(pattern, settings.layers).flat();
  const costs = all.map((memory) => MEMORIES[memory](T, settings));
  return costs.reduce((sum, one) => sum.map((x, i) => x + one[i]));
}

export function compute(settings) {
  const { pattern, context, layers } = settings;
  const contexts = range(25).map((i) => Math.round(2 ** (8 + i / 2)));
  const bytesOf = ([cache, state]) => cache + state;
  const here = ALL.map((name) => costOf(name, context, settings));
  const own = here[ALL.indexOf(pattern)];
  const kept = layersOf(pattern, layers).map((memories) =>
    Math.max(...memories.map((memory) => KEPT[memory](context, settings))),
  );
  const pairs = Math.max(...kept);
  const powers = range(31).map((i) => 2 ** i);
  const runs = [1, ...powers.filter((power) => (context - 1) & power)];
  return {
    contexts,
    totals: ALL.map((name) =>
      contexts.map((T) => bytesOf(costOf(name, T, settings))),
    ),
    bytes: here.map(bytesOf),
    operations: here.map(([, , operations]) => operations),
    cache: own[0],
    state: own[1],
    per_token: bytesOf(own) / context,
    even: bytesOf(own) / bytesOf(costOf("softmax", 1, settings)),
    pairs,
    keepers: kept.filter((count) => count === pairs).length,
    runs: pattern === "log_linear" ? runs : [],
  };
}

// ---------------------------------------------------------------- pictures

function bytesText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const i = clamp(Math.floor(Math.log10(bytes * 1.0005) / 3), 0, 5);
  return `${brief(bytes / 1000 ** i)} ${units[i]}`;
}

// Powers of two as people say them, and all digits of other numbers in threes.
function tokensText(tokens) {
  if (tokens >= 2 ** 20 && tokens % 2 ** 20 === 0) return `${tokens / 2 ** 20}M`;
  if (tokens >= 1024 && tokens % 1024 === 0) return `${tokens / 1024}k`;
  return Math.round(tokens).toLocaleString("en").replaceAll(",", "\u202f");
}

function axesOf({ totals, contexts }, width) {
  const all = totals.flat();
  const low = Math.log10(Math.min(...all)) - 0.35;
  const high = Math.log10(Math.max(...all)) + 0.15;
  const box = { left: 52, right: width - 92, top: 30, bottom: 242 };
  return logAxes(box, [contexts[0], contexts[contexts.length - 1]], [low, high]);
}

function budget(numbers, { pattern, context }, width) {
  const { contexts, totals, bytes } = numbers;
  const node = picture(width, 284, "bytes against context", "group");
  const axes = axesOf(numbers, width);
  write(node, 0, 12, "bytes of memory", { class: "x-heading" });
  const said = { upward: bytesText, sideward: tokensText };
  logGrid(node, axes, { across: "tokens of context", ...said });
  const chosen = ALL.indexOf(pattern);
  const labels = ALL.map((name, i) => {
    const own = i === chosen;
    const kind = own ? "x-thick x-stroke-state" : "x-thin x-pale";
    const d = joined(contexts.map(axes.x), totals[i].map(axes.y));
    node.append(shape("path", { d, class: `x-line ${kind}` }));
    const y = axes.y(totals[i][contexts.length - 1]);
    return { y, text: NAMES[name], role: own ? "state" : "" };
  });
  upright(node, axes, {
    id: "context",
    label: "context in the picture",
    value: context,
    y: axes.y(bytes[chosen]),
    role: "state",
    min: contexts[0],
    max: contexts[contexts.length - 1],
    said: `${context} tokens, ${bytesText(bytes[chosen])}`,
  });
  endLabels(node, axes.right + 8, labels, axes.bottom);
  return node;
}

// In words, what a kind of memory in some layers does with the past.
const DOES = {
  full: () => "every pair is kept",
  latent: ({ rank }) => `${rank} numbers of every token are kept`,
  windowed: ({ window }) => `the last ${tokensText(window)} pairs are kept`,
  fixed: ({ d_k }) => `one state a head, exact for ${d_k} pairs`,
  log_linear: ({ d_k }) => `states by age, each exact for ${d_k} pairs`,
};

// Which ages are kept as they are (solid), and which share a state (pale).
function ages({ runs }, settings, width) {
  const { pattern, context, layers } = settings;
  const all = layersOf(pattern, layers);
  const kinds = [...new Set(all.flat())];
  const node = picture(width, 44 + 42 * kinds.length, "what is kept, by age");
  write(node, 0, 14, "what is kept, by age (logarithmic)", { class: "x-heading" });
  const right = width - 12;
  // a token of age 0 is the one just read; its neighbours on the axis are half as wide
  const x = (age) => (right * Math.log2(age + 1)) / Math.log2(context + 1);
  const segment = (y, [from, to], role, faint) => {
    const width = Math.max(x(to) - x(from) - 1.5, 1);
    const box = { x: x(from), y, width, height: 12 };
    const shade = { class: `x-fill-${role}`, "fill-opacity": faint ? 0.35 : 1, rx: 2 };
    node.append(shape("rect", { ...box, ...shade }));
  };
  kinds.forEach((kind, i) => {
    const y = 42 + 42 * i;
    const count = all.filter((memories) => memories.includes(kind)).length;
    tick(node, 0, y - 6, `${count} layers: ${DOES[kind](settings)}`, "start");
    node.append(shape("rect", { y, width: right, height: 12, class: "x-frame" }));
    const kept = KEPT[kind](context, settings);
    if (kind === "fixed") segment(y, [0, context], "state", true);
    else if (kind !== "log_linear") segment(y, [0, kept], "key", false);
    let age = 0;
    for (const run of kind === "log_linear" ? runs : []) {
      segment(y, [age, age + run], "state", run > settings.d_k);
      age += run;
    }
  });
  const low = 36 + 42 * kinds.length;
  tick(node, 0, low, "now", "start");
  tick(node, right, low, `${tokensText(context)} tokens ago`, "end");
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  return [budget(numbers, settings, width), ages(numbers, settings, width)];
}

// ---------------------------------------------------------------- words

function readouts(numbers, { pattern }) {
  const { cache, state, per_token, operations, even } = numbers;
  return [
    ["all memory", "state", bytesText(cache + state)],
    ["of it pairs", "key", cache ? bytesText(cache) : "none"],
    ["bytes / token", "size", brief(per_token)],
    ["operations a token", "rate", brief(operations[ALL.indexOf(pattern)])],
    ["as all softmax after", "key", `${tokensText(even)} tokens`],
  ];
}

function sentence({ pairs, keepers, runs }, { pattern, context, layers, d_k }) {
  const [newest, older] = [pairs, context - pairs].map(tokensText);
  const share = `a state gives back ${d_k} a head at most, if their keys allow it`;
  if (runs.length) {
    const oldest = tokensText(runs[runs.length - 1]);
    return (
      `${runs.length} states a head hold ${tokensText(context)} tokens: the newest ` +
      `has one to itself, the oldest ${oldest} share one, and ${share}.`
    );
  }
  if (!pairs) {
    return `No pair is kept as it is. Of ${tokensText(context)} told, ${share}.`;
  }
  if (pairs < context) {
    const exact = `The last ${newest} pairs can be recalled exactly`;
    return `${exact}; of ${older} older ones, ${share}.`;
  }
  const latent = pattern.includes("latent");
  const how = latent ? "as a few numbers for all heads" : "as it is";
  return (
    `${keepers} of ${layers} layers keep every pair ${how}: what was told ` +
    `${tokensText(context)} tokens ago can be recalled exactly there.`
  );
}

function rows({ bytes, operations }, { context }) {
  return {
    head: ["layers", "bytes", "bytes / token", "operations a token"],
    rows: ALL.map((name, i) => [
      NAMES[name],
      ...[bytes[i], Math.round(bytes[i] / context), operations[i]].map(String),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function drag(id, { x }, settings, { width }) {
  const { valueAt } = axesOf(compute(settings), width);
  return { context: limited("context", valueAt(x)) };
}

function nudge(id, steps, { context }) {
  return { context: limited("context", onward(context, steps)) };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
