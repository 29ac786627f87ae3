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

function timeText(seconds) {
  const units = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ];
  const [unit, name] = units.find(([unit]) => seconds >= 0.9995 * unit) ?? units[3];
  return `${brief(seconds / unit)} ${name}`;
}

// Where the axes lie in a picture of this width; the drag reads them too.
function axesOf(numbers, width) {
  const box = { left: 52, right: width - 86, top: 30, bottom: 262 };
  const all = [...numbers.totals, numbers.recurrent, numbers.parallel];
  const low = Math.log10(Math.min(...all)) - 0.5;
  const high = Math.log10(Math.max(...all)) + 0.15;
  const octaves = Math.log2(numbers.sizes[numbers.sizes.length - 1]);
  const across = (box.right - box.left) / octaves;
  const up = (box.bottom - box.top) / (high - low);
  return {
    ...box,
    low,
    high,
    octaves,
    x: (size) => box.left + across * Math.log2(size),
    y: (seconds) => box.bottom - up * (Math.log10(seconds) - low),
    sizeAt: (x) => 2 ** clamp((x - box.left) / across, 0, octaves),
  };
}

function grid(parent, axes) {
  const { left, right, bottom } = axes;
  const decades = range(30).map((i) => i - 15);
  const shown = decades.filter((power) => power > axes.low && power < axes.high);
  for (const power of shown.filter((power) => shown.length < 7 || power % 2 === 0)) {
    const y = axes.y(10 ** power);
    const line = { x1: left, x2: right, y1: y, y2: y, class: "x-grid" };
    parent.append(shape("line", line));
    const end = { class: "x-tick", "text-anchor": "end" };
    write(parent, left - 6, y + 4, timeText(10 ** power), end);
  }
  const room = (right - left) / axes.octaves;
  const every = [1, 2, 4, 5].find((octaves) => octaves * room > 44);
  for (const octave of range(axes.octaves + 1).filter((i) => i % every === 0)) {
    const middle = { class: "x-tick", "text-anchor": "middle" };
    write(parent, axes.x(2 ** octave), bottom + 16, String(2 ** octave), middle);
  }
  const middle = { class: "x-tick", "text-anchor": "middle" };
  write(parent, (left + right) / 2, bottom + 34, "chunk size C", middle);
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
  const { size, time, time_overhead, time_products } = numbers;
  const x = axes.x(size);
  const most = numbers.sizes[numbers.sizes.length - 1];
  const limits = { min: 1, max: most, now: size, said: `${size}, ${timeText(time)}` };
  const { top, bottom } = axes;
  const upright = { x1: x, x2: x, y1: top, y2: bottom };
  const strip = { x: x - 14, y: top, width: 28, height: bottom - top, rx: 4 };
  parent.append(
    handle(
      { id: "chunk", label: "chunk size in the picture", ...limits },
      shape("rect", { ...strip, class: "x-touch" }),
      shape("line", { ...upright, class: "x-line x-stroke-key" }),
      ...[time_overhead, time_products]
        .filter((part) => axes.y(part) <= bottom)
        .map((part) =>
          shape("circle", { cx: x, cy: axes.y(part), r: 3, class: "x-dot" }),
        ),
      shape("circle", { cx: x, cy: axes.y(time), r: 7, class: "x-knob x-stroke-key" }),
    ),
  );
}

function draw(numbers, view) {
  const { width } = view;
  const axes = axesOf(numbers, width);
  const plot = picture(width, 304, "time against chunk size", "group");
  const { sizes, overheads, products, totals, recurrent, parallel } = numbers;
  write(plot, 0, 12, "time", { class: "x-heading" });
  grid(plot, axes);
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
  return { chunk_size: Math.round(axesOf(compute(settings), width).sizeAt(x)) };
}

function nudge(id, steps, { chunk_size, tokens }) {
  const now = Math.min(chunk_size, tokens);
  const next = Math.round(now * 2 ** (steps / 4));
  return { chunk_size: clamp(next === now ? now + steps : next, 1, tokens) };
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
