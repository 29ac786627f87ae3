// Chunk cost: the numbers of chunk_cost.py, and their picture: time against chunk size
// on logarithmic axes, with the two terms, the balance, and the other two plans.

// ---------------------------------------------------------------- numbers

export function compute({ overhead, speed, d, tokens, chunk_size }) {
  const [a, b] = [overhead * 1e-6, 1 / (speed * 1e9)];
  const sizes = range(4 * 20)
    .map((step) => 2 ** (step / 4))
    .filter((size) => size < tokens * (1 - 1e-9));
  sizes.push(tokens);
  const overheadOf = (size) => (a * tokens) / size;
  const productsOf = (size) => b * tokens * (2 * d * d + 2 * size * d);
  const timeOf = (size) => overheadOf(size) + productsOf(size);
  const size = Math.min(chunk_size, tokens);
  const balance = Math.sqrt(a / (2 * b * d));
  const best = clamp(balance, 1, tokens);
  return {
    sizes,
    overheads: sizes.map(overheadOf),
    products: sizes.map(productsOf),
    totals: sizes.map(timeOf),
    size,
    time: timeOf(size),
    time_overhead: overheadOf(size),
    time_products: productsOf(size),
    balance,
    best,
    least: timeOf(best),
    recurrent: tokens * a + b * 2 * tokens * d * d,
    parallel: a + b * tokens * tokens * 2 * d,
  };
}

// ---------------------------------------------------------------- pictures

// Where the axes lie in a picture of this width; the drag reads them too.
function axesOf({ totals, recurrent, parallel, sizes }, width) {
  const all = [...totals, recurrent, parallel];
  const low = Math.log10(Math.min(...all)) - 0.5;
  const high = Math.log10(Math.max(...all)) + 0.15;
  const box = { left: 52, right: width - 86, top: 30, bottom: 262 };
  return logAxes(box, [1, sizes[sizes.length - 1]], [low, high]);
}

function curve(parent, axes, sizes, times, attributes) {
  const d = joined(sizes.map(axes.x), times.map(axes.y));
  parent.append(shape("path", { d, ...attributes }));
}

// One of the two terms, as far as it lies in the picture; its name stands at that end
// of it which the sum has left.
function term(parent, axes, sizes, times, { name, dash, end }) {
  const seen = range(sizes.length).filter((i) => axes.y(times[i]) <= axes.bottom);
  if (seen.length < 2) return;
  const [x, y] = [sizes, times].map((all) => seen.map((i) => all[i]));
  curve(parent, axes, x, y, { class: "x-line x-thin", "stroke-dasharray": dash });
  const i = end === "right" ? seen.length - 1 : 0;
  const at = axes.y(y[i]);
  const up = end === "right" || at + 20 > axes.bottom ? -7 : 15;
  // a term that comes in from below may meet the other's name on its right
  const before = end === "left" && seen[0] > 0;
  const beside = before ? -6 : 6;
  tick(parent, axes.x(x[i]) + beside, at + up, name, before ? "end" : "start");
}

// The chosen chunk size: a line that can be dragged, with its two terms as dots.
function marker(parent, axes, numbers) {
  const { size, time, time_overhead, time_products, sizes } = numbers;
  const cx = axes.x(size);
  const terms = [time_overhead, time_products].filter((t) => axes.y(t) <= axes.bottom);
  upright(parent, axes, {
    id: "chunk",
    label: "chunk size in the picture",
    value: size,
    y: axes.y(time),
    role: "key",
    min: 1,
    max: sizes[sizes.length - 1],
    said: `${size}, ${timeText(time)}`,
    parts: terms.map((part) =>
      shape("circle", { cx, cy: axes.y(part), r: 3, class: "x-dot" }),
    ),
  });
}

function draw(numbers, view) {
  const { width } = view;
  const axes = axesOf(numbers, width);
  const plot = picture(width, 304, "time against chunk size", "group");
  const { sizes, overheads, products, totals, recurrent, parallel } = numbers;
  write(plot, 0, 12, "time", { class: "x-heading" });
  logGrid(plot, axes, { across: "chunk size C", upward: timeText });
  term(plot, axes, sizes, overheads, { name: "overhead", dash: "6 3", end: "right" });
  term(plot, axes, sizes, products, { name: "products", dash: "1.5 3", end: "left" });
  const plans = [
    ["recurrent", recurrent, "state"],
    ["parallel", parallel, "query"],
  ];
  const last = sizes.length - 1;
  for (const [, seconds, role] of plans) {
    const line = { class: `x-line x-stroke-${role}`, "stroke-dasharray": "8 3 2 3" };
    curve(plot, axes, [1, sizes[last]], [seconds, seconds], line);
  }
  curve(plot, axes, sizes, totals, { class: "x-line x-thick x-stroke-key" });
  const [x, y] = [axes.x(numbers.best), axes.y(numbers.least)];
  const star = { d: `M${x} ${y - 8}l8 8-8 8-8-8z`, class: "x-fill-key x-halo" };
  plot.append(shape("path", star));
  if (Math.abs(x - axes.x(numbers.size)) > 26) {
    const above = { class: "x-tick x-fill-key", "text-anchor": "middle" };
    write(plot, x, y - 14, "best", above);
  }
  marker(plot, axes, numbers);
  endLabels(plot, axes.right + 8, [
    { y: axes.y(totals[last]), text: "chunkwise", role: "key" },
    ...plans.map(([text, seconds, role]) => ({ y: axes.y(seconds), text, role })),
  ]);
  return [plot];
}

// ---------------------------------------------------------------- words

function readouts(numbers) {
  const { size, best, time, least, recurrent, parallel } = numbers;
  return [
    ["best chunk size $C*$", "key", brief(best)],
    ["time at best", "key", timeText(least)],
    [`time at ${size}`, "key", timeText(time)],
    ["recurrent", "state", timeText(recurrent)],
    ["parallel", "query", timeText(parallel)],
  ];
}

function sentence(numbers, { tokens }) {
  const { size, best, balance, time, least, time_overhead, time_products } = numbers;
  const parts =
    `In chunks of ${size}, the overhead takes ${timeText(time_overhead)} and the ` +
    `products ${timeText(time_products)}`;
  const slower = time / least;
  const loss =
    slower < 1.005
      ? "no slower than the best"
      : `${brief(slower)} times the time of the best, ${brief(best)}`;
  const end =
    balance > tokens
      ? " The overhead is so large that one chunk of all tokens is best."
      : balance < 1
        ? " The overhead is so small that chunks of one token are best."
        : "";
  return `${parts}: ${loss}.${end}`;
}

function rows(numbers) {
  const { sizes, overheads, products, totals } = numbers;
  const octaves = range(sizes.length).filter((i) => i % 4 === 0);
  return {
    head: ["chunk size", "overhead", "products", "total"],
    rows: octaves.map((i) => [
      String(Math.round(sizes[i])),
      ...[overheads, products, totals].map((times) => timeText(times[i])),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function drag(id, { x }, settings, { width }) {
  return { chunk_size: Math.round(axesOf(compute(settings), width).valueAt(x)) };
}

function nudge(id, steps, { chunk_size, tokens }) {
  const next = onward(Math.min(chunk_size, tokens), steps);
  return { chunk_size: clamp(next, 1, tokens) };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
