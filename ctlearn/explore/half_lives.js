// Half-lives: the numbers of half_lives.py, and their picture. What is left at each
// age, with a knob at each half-life; what is left of each token; the decay masks.

const CHANNELS = 4;
const SHADES = 16;
const DASHES = ["", "7 3", "2 2.5", "8 3 2 3"];

// ---------------------------------------------------------------- numbers

// How many times the middle half-life each channel has.
function factorsOf({ rates, spread }) {
  const count = rates === "channel" ? CHANNELS : 1;
  return range(count).map((c) => 2 ** (spread * (c - (count - 1) / 2)));
}

export function compute(settings) {
  const { half_life, gate, kept, tokens } = settings;
  const read = Math.min(settings.read, tokens);
  const half_lives = factorsOf(settings).map((factor) => factor * half_life);
  const alphas = half_lives.map((h) => 2 ** (-1 / h));
  const curves = alphas.map((alpha) => range(tokens).map((age) => alpha ** age));
  const left = (c, i, j) => {
    if (j > i) return 0;
    return curves[c][i - j] * (j + 1 < gate && gate <= i + 1 ? kept : 1);
  };
  const masks = alphas.map((_, c) => table(tokens, tokens, (i, j) => left(c, i, j)));
  const nothing = new Array(tokens).fill(0);
  const survives = masks.map((mask) => (read ? mask[read - 1] : nothing));
  return {
    half_lives,
    alphas,
    lengths: alphas.map((alpha) => 1 / (1 - alpha)),
    curves,
    average: range(tokens).map((age) => mean(curves.map((curve) => curve[age]))),
    masks,
    survives,
    worth: survives.map((row) => row.reduce((sum, x) => sum + x, 0)),
  };
}

// ---------------------------------------------------------------- pictures

function nameOf(c, numbers) {
  return numbers.alphas.length === 1 ? "the state" : `channel ${c + 1}`;
}

// What is left at each age, and a knob where half is left or, if that lies outside,
// near the end of the curve.
function ages(numbers, view, width) {
  const { curves, average, half_lives, alphas } = numbers;
  const node = picture(width, 232, "what is left of a write at each age", "group");
  const lines = curves.map((values, c) => {
    return { values, role: "decay", dash: DASHES[c], label: nameOf(c, numbers) };
  });
  if (lines.length > 1) lines.push({ values: average, dash: "1.5 3", label: "mean" });
  const title = "what is left of a write";
  const box = { x: 0, y: 28, width, height: 176, from: 0 };
  const axes = chart(node, { ...box, title, across: "age in tokens", lines });
  view.axes = axes;
  const y = axes.upAt(0.5);
  const half = { x1: axes.left, x2: axes.right, y1: y, y2: y };
  node.append(shape("line", { ...half, class: "x-line x-thin", opacity: 0.4 }));
  const last = average.length - 1;
  half_lives.forEach((h, c) => {
    const age = Math.min(h, 0.94 * last);
    const [cx, cy] = [axes.acrossAt(age), axes.upAt(alphas[c] ** age)];
    const said = `${brief(h)} tokens`;
    const limits = { min: 0, max: 1024, now: Number(h.toPrecision(3)), said };
    const label = `half-life of ${nameOf(c, numbers)}`;
    const text = lines.length > 1 ? String(c + 1) : "h";
    const what = { id: `channel-${c}`, label, ...limits };
    knob(node, { cx, cy, role: "decay", text, ...what });
  });
  return node;
}

// What each channel still holds of each token, and how many tokens that is worth.
function survivors(numbers, { gate, kept, tokens, ...settings }, width) {
  const { survives, worth } = numbers;
  const read = Math.min(settings.read, tokens);
  const [left, top] = [62, 30];
  const cell = (width - left - 52) / tokens;
  const node = picture(width, top + survives.length * 20 + 22, "what survives now");
  const title = read ? `what is left after token ${read}, and its sum` : "empty";
  write(node, 0, top - 14, title, { class: "x-heading x-fill-state" });
  const size = { x: left, y: top, width: cell, height: 20 };
  heat(node, survives, { ...size, role: "state", limit: 1 });
  survives.forEach((_, c) => {
    const y = top + 20 * c + 14;
    tick(node, 0, y, nameOf(c, numbers), "start");
    const sum = `= ${round(worth[c], 1)}`;
    tick(node, left + tokens * cell + 8, y, sum, "start", "state");
  });
  const low = top + survives.length * 20 + 14;
  for (const i of new Set([0, tokens - 1])) {
    tick(node, left + (i + 0.5) * cell, low, String(i + 1));
  }
  const x = left + (Math.min(gate, tokens) - 1) * cell;
  if (gate > 3 && gate < tokens - 1) {
    tick(node, x, low, "gate", "middle", "decay");
  }
  const closed = { x1: x, x2: x, y1: top - 6, y2: low - 14 };
  const bar = { class: "x-line x-stroke-decay", opacity: kept < 1 ? 1 : 0.3 };
  node.append(shape("line", { ...closed, ...bar }));
  return node;
}

// A mask as an image: one path a shade, of which a picture may hold many.
function mask(numbers, c, { read, room }) {
  const rows = numbers.masks[c];
  const cell = Math.floor(room / rows.length);
  const side = cell * rows.length;
  const node = picture(side, side + 24, `decay mask of ${nameOf(c, numbers)}`);
  const ground = { x: 0, y: 20, width: side, height: side };
  node.append(shape("rect", { ...ground, class: "x-frame" }));
  tick(node, 0, 12, nameOf(c, numbers), "start", "decay");
  const paths = new Array(SHADES + 1).fill("");
  rows.forEach((row, i) =>
    row.forEach((x, j) => {
      const corner = `M${j * cell} ${20 + i * cell}`;
      paths[Math.round(SHADES * x)] += `${corner}h${cell}v${cell}h${-cell}z`;
    }),
  );
  paths.slice(1).forEach((d, level) => {
    const shade = { class: "x-fill-decay", "fill-opacity": (level + 1) / SHADES };
    // neighbours of one shade would else show the ground between them
    const crisp = { "shape-rendering": "crispEdges" };
    if (d) node.append(shape("path", { d, ...shade, ...crisp }));
  });
  if (read) {
    const now = { x: 0, y: 20 + (read - 1) * cell, width: side, height: cell };
    node.append(shape("rect", { ...now, class: "x-hollow x-stroke-state" }));
  }
  return node;
}

function draw(numbers, view) {
  const settings = view.settings();
  const { width } = view;
  const read = Math.min(settings.read, settings.tokens);
  const count = numbers.masks.length;
  const beside = width < 560 ? 2 : 4;
  // the stage leaves 16 pixels between pictures, and its width was rounded
  const room = count > 1 ? (width - 2 - 16 * (beside - 1)) / beside : 240;
  const masks = range(count).map((c) => mask(numbers, c, { read, room }));
  const across = width < 560 ? width : Math.min(width, 620);
  return [
    ages(numbers, view, across),
    survivors(numbers, settings, width),
    ...masks,
  ];
}

// ---------------------------------------------------------------- words

function readouts({ alphas, half_lives, lengths }) {
  const list = (x, digits) => x.map((entry) => round(entry, digits)).join(" · ");
  return [
    ["half-life, tokens", "decay", half_lives.map(brief).join(" · ")],
    ["decay $α$", "decay", list(alphas, 3)],
    ["memory $1/(1−α)$, tokens", "decay", list(lengths, 1)],
  ];
}

function sentence(numbers, { gate, kept, tokens, ...settings }) {
  const read = Math.min(settings.read, tokens);
  if (read === 0) return "Nothing is read yet, and there is nothing to forget.";
  const { worth, survives } = numbers;
  const each = worth.map((x) => round(x, 1));
  const holds =
    each.length === 1
      ? `After token ${read} the state holds what ${each[0]} tokens wrote`
      : `After token ${read} the channels hold what ${each.join(", ")} tokens wrote`;
  const last = survives[survives.length - 1];
  const first = `of token 1, ${round(100 * last[0], 1)} % is left in the slowest`;
  const oldest = each.length === 1 ? `${round(100 * last[0], 1)} % of token 1` : first;
  const closed = kept < 1 && gate > 1 && gate <= read;
  const times = kept
    ? `counts ${round(kept)} times what it would`
    : "is gone: the memory begins anew";
  return closed
    ? `${holds}. All that is older than token ${gate} ${times}.`
    : `${holds}; ${oldest}.`;
}

function rows({ half_lives, alphas, lengths, worth, survives }) {
  return {
    head: ["channel", "half-life", "$α$", "$1/(1−α)$", "holds now", "of each token"],
    rows: half_lives.map((h, c) => [
      String(c + 1),
      brief(h),
      round(alphas[c], 4),
      round(lengths[c], 2),
      round(worth[c], 3),
      listed(survives[c], 3),
    ]),
  };
}

// ---------------------------------------------------------------- hands

// One half-life is moved, and the others keep their ratios to it.
function moved(id, next, settings) {
  const factor = factorsOf(settings)[Number(id.slice(8))];
  const own = next(factor * settings.half_life);
  return { half_life: limited("half_life", own / factor) };
}

function drag(id, { x }, settings, { axes }) {
  return moved(id, () => Math.max(axes.placeAt(x), 0.1), settings);
}

function nudge(id, steps, settings) {
  return moved(id, (h) => h * 2 ** (steps / 4), settings);
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
