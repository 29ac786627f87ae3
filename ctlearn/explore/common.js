// What every explorable shares: its controls, its address, its numbers, its look.
//
// explorable.py puts NAME, TITLE, SETTINGS and STYLE before this file and NAME.js after
// it. NAME.js calls explorable(...) with what is its own: `compute` turns settings into
// numbers, `draw` turns numbers into shapes, and the rest is said in words.

// ---------------------------------------------------------------- random numbers
// The twin of draws.py; Math.imul keeps the low 32 bits of a product.

function mix(word, place) {
  word = (word + Math.imul(0x9e3779b9, place + 1)) >>> 0;
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b) >>> 0;
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35) >>> 0;
  return (word ^ (word >>> 16)) >>> 0;
}

function uniform(seed, stream, i, j) {
  return (mix(mix(mix(mix(0, seed), stream), i), j) + 0.5) / 2 ** 32;
}

function normal(seed, stream, rows, columns) {
  return table(rows, columns, (i, j) => {
    const radius = Math.sqrt(-2 * Math.log(uniform(seed, stream, i, 2 * j)));
    return radius * Math.cos(2 * Math.PI * uniform(seed, stream, i, 2 * j + 1));
  });
}

// ---------------------------------------------------------------- numbers

function table(rows, columns, entry) {
  return Array.from({ length: rows }, (_, i) =>
    Array.from({ length: columns }, (_, j) => entry(i, j)),
  );
}

function range(n) {
  return Array.from({ length: n }, (_, i) => i);
}

function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

// The squared distance.
function distance(x, y) {
  return x.reduce((sum, entry, i) => sum + (entry - y[i]) ** 2, 0);
}

function mean(x) {
  return x.reduce((sum, one) => sum + one, 0) / x.length;
}

// The direction of an angle in degrees, and rows brought to length one.
function unit(angle) {
  const radians = (angle * Math.PI) / 180;
  return [Math.cos(radians), Math.sin(radians)];
}

function directions(x) {
  return x.map((row) => {
    const size = Math.sqrt(dot(row, row));
    return row.map((entry) => entry / size);
  });
}

// Vectors of length one: at similarity 0 they point anywhere, and at 1 in the one
// direction that all share.
function similar(seed, [own, shared], rows, columns, similarity) {
  const [all] = directions(normal(seed, shared, 1, columns));
  const [near, far] = [Math.sqrt(similarity), Math.sqrt(1 - similarity)];
  const mixed = directions(normal(seed, own, rows, columns)).map((row) =>
    row.map((x, j) => near * all[j] + far * x),
  );
  return directions(mixed);
}

// Vectors of length one, any two at one cosine: a direction of its own, and the last,
// which all share.
function atOneCosine(n, cosine) {
  const [own, shared] = [Math.sqrt(1 - cosine), Math.sqrt(cosine)];
  return table(n, n + 1, (i, j) => (j === n ? shared : i === j ? own : 0));
}

function columns(x) {
  return x[0].map((_, j) => x.map((row) => row[j]));
}

// x + factor y, matrices of one shape.
function plus(x, y, factor = 1) {
  return x.map((row, i) => row.map((entry, j) => entry + factor * y[i][j]));
}

// X with A X = B, for positive definite A: no pivot has to be looked for.
function solve(A, B) {
  const rows = A.map((row, i) => [...row, ...B[i]]);
  const n = A.length;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      const factor = rows[j][i] / rows[i][i];
      for (let c = i; c < rows[j].length; c++) rows[j][c] -= factor * rows[i][c];
    }
  }
  return rows.map((row, i) => row.slice(n).map((x) => x / row[i]));
}

// x in hundredths, held between -most and most.
function hundredths(x, most) {
  return Math.round(100 * clamp(x, -most, most)) / 100;
}

// Numbers from -most to most whose places rise by `step`, round and round.
const [GOLDEN, PLASTIC] = [0.6180339887, 0.7548776662];

function spread(n, step, most, given) {
  const own = (i) => hundredths(most * (2 * ((0.5 + step * (i + 1)) % 1) - 1), most);
  return range(n).map((i) => given[i] ?? own(i));
}

// What a memory answers, S' q, and the memory with one more write at key k.
function ask(S, q) {
  const answer = new Array(S[0].length).fill(0);
  for (let i = 0; i < q.length; i++) {
    for (let j = 0; j < answer.length; j++) answer[j] += S[i][j] * q[i];
  }
  return answer;
}

function remember(S, key, change, kept = 1) {
  return S.map((row, i) => row.map((x, j) => kept * x + key[i] * change[j]));
}

// The memory before the first pair and after each, by one of three rules.
function statesOf({ k, v }, { rule, alpha, beta }) {
  const states = [table(k[0].length, v[0].length, () => 0)];
  k.forEach((key, m) => {
    const S = states[m];
    const kept = rule === "decay" ? alpha : 1;
    let change = v[m];
    if (rule === "delta") {
      const seen = ask(S, key);
      change = v[m].map((value, j) => beta * (value - seen[j]));
    }
    states.push(remember(S, key, change, kept));
  });
  return states;
}

function softmax(scores) {
  const largest = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - largest));
  const sum = weights.reduce((total, one) => total + one, 0);
  return weights.map((weight) => weight / sum);
}

function clamp(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

function round(x, digits = 2) {
  if (x === null) return "–";
  const text = Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) ? `−${text}` : text;
}

function listed(x, digits) {
  return x.map((entry) => round(entry, digits)).join(" ");
}

const RAISED = { "-": "⁻", ...[..."⁰¹²³⁴⁵⁶⁷⁸⁹"] };

// A number as text of three digits, whatever its size; of a very small one, its first.
function brief(x) {
  if (x === null) return "–";
  const size = Math.abs(x);
  if (x === 0 || (size >= 1e-3 && size < 1e6)) {
    return String(Number(x.toPrecision(3))).replace("-", "−");
  }
  const [digits, power] = x.toExponential(size < 1 ? 0 : 2).split("e");
  const raised = [...power].map((figure) => RAISED[figure] ?? "").join("");
  return `${digits.replace("-", "−")}·10${raised}`;
}

// Seconds in the largest unit of which there is one.
function timeText(seconds) {
  const units = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
    [1e-12, "ps"],
  ];
  const [unit, name] = units.find(([unit]) => seconds >= 0.9995 * unit) ?? units[4];
  return `${brief(seconds / unit)} ${name}`;
}

// The next of 1, 2, 5, 10, 20, ... above x: the top of an axis.
function above(x) {
  const power = 10 ** Math.floor(Math.log10(Math.max(x, 1e-9)));
  return power * [1, 2, 5, 10].find((step) => step * power >= x * 0.999);
}

// What a setting can be that comes nearest x: a whole number, or one of three digits.
function limited(setting, x) {
  const { kind, min, max } = SETTINGS.find(({ name }) => name === setting);
  return clamp(kind === "whole" ? Math.round(x) : Number(x.toPrecision(3)), min, max);
}

// ---------------------------------------------------------------- elements

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function element(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  const svg = "http://www.w3.org/2000/svg";
  return build(document.createElementNS(svg, tag), attributes, children);
}

// Words with letters between dollars: "key size $d_k$" sets d in italics, k below.
function words(text, role = "") {
  return text.split("$").flatMap((part, i) => {
    if (i % 2 === 0) return part ? [part] : [];
    const letter = element("span", { class: role ? `x-${role}` : "" });
    for (const [, main, below] of part.matchAll(/([^_])(?:_(\w))?/gu)) {
      letter.append(/\p{L}/u.test(main) ? element("i", {}, main) : main);
      if (below) letter.append(element("sub", {}, below));
    }
    return [letter];
  });
}

// ---------------------------------------------------------------- pictures

// A picture for the stage: `label` says what it shows; a "group" holds handles.
function picture(width, height, label, role = "img") {
  const box = { viewBox: `0 0 ${width} ${height}`, width, height };
  return shape("svg", { ...box, role, "aria-label": label });
}

// Text in a picture; "k_i" sets the i below.
function write(parent, x, y, text, attributes = {}) {
  const parts = text.split(/_(\w)/).map((part, i) => {
    const below = i % 2 === 1;
    const dy = below ? 3 : i ? -3 : 0;
    return shape("tspan", below ? { dy, "font-size": "75%" } : { dy }, part);
  });
  parent.append(shape("text", { x, y, ...attributes }, ...parts));
}

// A small text, around its place or beside it.
function tick(parent, x, y, text, anchor = "middle", role = "") {
  const kind = role ? `x-tick x-fill-${role}` : "x-tick";
  write(parent, x, y, text, { class: kind, "text-anchor": anchor });
}

// The path through points given by what lies across and what lies up.
function joined(across, up) {
  return `M${across.map((x, i) => `${x} ${up[i]}`).join("L")}`;
}

// Places in rising order, moved apart by a gap: onward, and back again from `most`.
function apart(places, gap, most = Infinity) {
  const moved = [...places];
  for (let i = 1; i < moved.length; i += 1) {
    moved[i] = Math.max(moved[i], moved[i - 1] + gap);
  }
  for (let i = moved.length - 1; i >= 0; i -= 1) {
    moved[i] = Math.min(moved[i], i + 1 < moved.length ? moved[i + 1] - gap : most);
  }
  return moved;
}

// Labels at the right end, moved apart where they would lie on each other: down, and
// up again where the last would lie below `low`.
function endLabels(parent, x, all, low = Infinity) {
  const sorted = [...all].sort((one, other) => one.y - other.y);
  const places = apart(sorted.map(({ y }) => y), 15, low);
  sorted.forEach(({ text, role }, i) => {
    write(parent, x, places[i] + 4, text, { class: role ? `x-fill-${role}` : "" });
  });
}

// A matrix: positive entries in the colour of a role, negative ones in ink with a minus
// sign, both fading to the ground at zero. `limit` is shown at full strength. Without
// `signs` there is room for the numbers themselves.
function heat(parent, matrix, { x, y, width, height, role, limit, ...more }) {
  const { faint, signs = true } = more;
  if (!matrix.length) return;
  const [rows, columns] = [matrix.length, matrix[0].length];
  const gap = Math.min(width, height) < 9 ? 0 : 1;
  const frame = { x, y, width: columns * width - gap, height: rows * height - gap };
  const group = shape("g", {}, shape("rect", { ...frame, class: "x-frame" }));
  const least = Math.min(width, height);
  const dash = signs && least >= 7 && least * 0.16;
  for (const i of range(rows)) {
    for (const j of range(columns)) {
      const strength = clamp(matrix[i][j] / limit, -1, 1);
      const [left, top] = [x + j * width, y + i * height];
      const paint = strength < 0 ? "x-negative" : `x-fill-${role}`;
      const opacity = Math.abs(strength) * (strength < 0 ? 0.6 : 1);
      const pale = faint?.(i, j) ? 0.25 : 1;
      const size = { width: width - gap, height: height - gap };
      const shade = { class: paint, "fill-opacity": (opacity * pale).toFixed(3) };
      group.append(shape("rect", { x: left, y: top, ...size, ...shade }));
      if (dash && strength < -0.06) {
        const [cx, cy] = [left + size.width / 2, top + size.height / 2];
        const line = { x1: cx - dash, x2: cx + dash, y1: cy, y2: cy };
        group.append(shape("line", { ...line, class: "x-minus", opacity: pale }));
      }
    }
  }
  parent.append(group);
}

// Lines over 1, 2, ..., n, or `from` another number on, or between two `ends` in words.
// Each of `lines` has values and perhaps a role, a dash, a further class `kind`, a
// label. The axis holds zero and all values. What lies where in the chart is returned.
function chart(parent, { x, y, width, height, title, across, lines, ...more }) {
  const { band, mark, from = 1, ends } = more;
  const n = lines[0].values.length;
  const all = lines.flatMap((line) => line.values);
  const highest = Math.max(...all, ...(band ? band.high : []), 0.1);
  const below = Math.max(0, ...all.map((value) => -value));
  // either side of zero has room for its number
  const top = above(Math.max(highest, below / 4));
  const floor = below ? -above(Math.max(below, highest / 4)) : 0;
  const left = x + 26;
  const right = x + width - 84; // room for the labels at the ends
  const acrossAt = (i) => (n > 1 ? left + ((right - left) * i) / (n - 1) : left);
  const upAt = (value) =>
    y + (height * (top - clamp(value, floor, top))) / (top - floor);
  const path = (values) =>
    values.map((v, i) => `${i ? "L" : "M"}${acrossAt(i)} ${upAt(v)}`).join("");
  const group = shape("g");
  write(group, x, y - 12, title, { class: "x-heading" });
  for (const value of [floor, floor ? 0 : top / 2, top]) {
    const line = { x1: left - 4, x2: right, y1: upAt(value), y2: upAt(value) };
    group.append(shape("line", { ...line, class: "x-grid" }));
    const at = { class: "x-tick", "text-anchor": "end" };
    write(group, left - 8, upAt(value) + 4, String(value).replace("-", "−"), at);
  }
  for (const i of new Set([0, n - 1])) {
    const at = { class: "x-tick", "text-anchor": "middle" };
    const text = ends?.[i ? 1 : 0] ?? String(i + from);
    write(group, acrossAt(i), y + height + 16, text, at);
  }
  const middle = { class: "x-tick", "text-anchor": "middle" };
  write(group, (left + right) / 2, y + height + 16, across, middle);
  if (band) {
    const low = range(n).map((i) => `L${acrossAt(i)} ${upAt(band.low[i])}`);
    const around = path(band.high) + low.reverse().join("");
    group.append(shape("path", { d: around, class: "x-band" }));
  }
  const labels = [];
  for (const { values, role, dash, kind = "", label } of lines) {
    const stroke = role ? `x-line x-stroke-${role}` : "x-line";
    const line = { class: `${stroke} ${kind}`, "stroke-dasharray": dash };
    group.append(shape("path", { d: path(values), ...line }));
    if (label) labels.push({ y: upAt(values[n - 1]), text: label, role });
  }
  if (mark) {
    const at = { cx: acrossAt(mark.at), cy: upAt(mark.value), r: 4.5 };
    group.append(shape("circle", { ...at, class: `x-fill-${lines[0].role}` }));
  }
  endLabels(group, right + 8, labels, y + height);
  parent.append(group);
  const placeAt = (at) => (at - left) / (acrossAt(1) - left);
  return { left, right, acrossAt, placeAt, upAt };
}

// Logarithmic axes: across from `first` to `last`, up from 10^low to 10^high.
function logAxes({ left, right, top, bottom }, [first, last], [low, high]) {
  const octaves = Math.log2(last / first);
  const across = (right - left) / octaves;
  const up = (bottom - top) / (high - low);
  return {
    ...{ left, right, top, bottom, first, octaves, low, high },
    x: (value) => left + across * Math.log2(value / first),
    y: (value) => bottom - up * (Math.log10(value) - low),
    valueAt: (x) => first * 2 ** clamp((x - left) / across, 0, octaves),
  };
}

// Their lines and numbers, which `upward` and `sideward` put in words.
function logGrid(parent, axes, { across, upward, sideward = String }) {
  const { left, right, bottom } = axes;
  const decades = range(40).map((i) => i - 15);
  const shown = decades.filter((power) => power > axes.low && power < axes.high);
  for (const power of shown.filter((power) => shown.length < 7 || power % 2 === 0)) {
    const y = axes.y(10 ** power);
    const level = { x1: left, x2: right, y1: y, y2: y, class: "x-grid" };
    parent.append(shape("line", level));
    tick(parent, left - 6, y + 4, upward(10 ** power), "end");
  }
  const room = (right - left) / axes.octaves;
  const every = [1, 2, 4, 5].find((octaves) => octaves * room > 44);
  for (const octave of range(axes.octaves + 1).filter((i) => i % every === 0)) {
    const value = axes.first * 2 ** octave;
    tick(parent, axes.x(value), bottom + 16, sideward(value));
  }
  tick(parent, (left + right) / 2, bottom + 34, across);
}

// A line across the axes at a value that can be dragged, with a knob where it meets y.
function upright(parent, axes, { value, y, role, parts = [], ...what }) {
  const { top, bottom } = axes;
  const x = axes.x(value);
  const strip = { x: x - 14, y: top, width: 28, height: bottom - top, rx: 4 };
  const line = { x1: x, x2: x, y1: top, y2: bottom, class: `x-line x-stroke-${role}` };
  const knob = { cx: x, cy: y, r: 7, class: `x-knob x-stroke-${role}` };
  parent.append(
    handle(
      { now: value, ...what },
      shape("rect", { ...strip, class: "x-touch" }),
      shape("line", line),
      ...parts,
      shape("circle", knob),
    ),
  );
}

// A value on a logarithmic scale some quarters of an octave on, and at least by one.
function onward(value, steps) {
  const next = Math.round(value * 2 ** (steps / 4));
  return next === value ? value + steps : next;
}

// Rows that one points at, from x over the width of a row, and their numbers.
function rowFrames(parent, { count, asked, x, y, width, height }) {
  for (const i of range(count)) {
    const frame = { x: x - 3, y: y + i * height - 1.5, width, height: height + 1 };
    const kind = i === asked ? "x-row x-asked" : "x-row";
    const row = shape("rect", { ...frame, rx: 3, class: kind, "data-pick": i + 1 });
    parent.append(row);
  }
}

function numbering(parent, { count, x, y, height }) {
  for (const i of range(count)) {
    const at = { class: "x-tick", "text-anchor": "end" };
    write(parent, x, y + i * height + height / 2 + 3.5, String(i + 1), at);
  }
}

// What can be moved by hand. `id` names it to `drag` and `nudge`, `label` in words;
// `said` puts its value in words.
function handle({ id, label, min, max, now, said, kinds = "", pick }, ...parts) {
  const spoken = { "aria-label": label, "aria-valuetext": said };
  const limits = { "aria-valuemin": min, "aria-valuemax": max, "aria-valuenow": now };
  const own = { class: `x-handle ${kinds}`, "data-drag": id, "data-pick": pick };
  const all = { ...own, tabindex: "0", role: "slider", ...spoken, ...limits };
  return shape("g", all, ...parts);
}

// A knob with a letter on it, alone or at the end of what `parts` draw.
function knob(parent, { cx, cy, role, text, parts = [], ...what }) {
  const round = { cx, cy, class: `x-knob x-stroke-${role}` };
  const touch = shape("circle", { cx, cy, r: 16, class: "x-touch" });
  const node = handle(what, ...parts, touch, shape("circle", { ...round, r: 10 }));
  tick(node, cx, cy + 4, text);
  parent.append(node);
}

// A direction in the plane that can be turned by hand: a line from the centre of a dial
// and a knob at its end.
function spoke(parent, { cx, cy, radius, angle, role, id, label, text, ...more }) {
  const [right, up] = unit(angle);
  const [x, y] = [cx + radius * right, cy - radius * up];
  const said = more.said ?? `${angle} degrees`;
  const limits = { min: -180, max: 180, now: angle, said };
  const line = { x1: cx, y1: cy, x2: x, y2: y, class: `x-line x-stroke-${role}` };
  const what = { id, label, kinds: more.kinds, pick: more.pick, ...limits };
  knob(parent, { cx: x, cy: y, role, text, parts: [shape("line", line)], ...what });
}

// The direction of a point in whole degrees, from −180 to 180.
function degrees([right, up]) {
  return Math.round((Math.atan2(up, right) * 180) / Math.PI);
}

function turned(angle, steps) {
  return ((angle + 5 * steps + 540) % 360) - 180;
}

// The directions of keys once that of the handle "key-0", "key-1", ... is moved.
function withTurned(angles, id, next) {
  return angles.map((angle, i) => (id === `key-${i}` ? next(angle) : angle));
}

// `drag` and `nudge` of directions on a dial: `turn(id, next, settings)` gives the
// settings in which a handle's direction is `next` of what it was.
function dialHands({ cx, cy }, turn) {
  return {
    drag: (id, { x, y }, s) => turn(id, () => degrees([x - cx, cy - y]), s),
    nudge: (id, steps, s) => turn(id, (angle) => turned(angle, steps), s),
  };
}

// ---------------------------------------------------------------- addresses

function toText(setting, value) {
  return setting.kind === "several" ? value.join(",") : String(value);
}

// The value a text stands for, inside the setting's limits; undefined if it is none.
function fromText(setting, text) {
  if (setting.kind === "choice") {
    return setting.options.some(([value]) => value === text) ? text : undefined;
  }
  const within = (x) => clamp(x, setting.min, setting.max);
  if (setting.kind === "several") {
    const values = text === "" ? [] : text.split(",").map(Number);
    const sound = values.every(Number.isFinite);
    return sound ? values.slice(0, setting.most).map(within) : undefined;
  }
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) return undefined;
  return within(setting.kind === "whole" ? Math.round(value) : value);
}

// The settings that the page's address gives to `address`, or null if it gives none.
function read(address) {
  const [name, query = ""] = location.hash.slice(1).split("?");
  if (name !== address) return null;
  const given = new URLSearchParams(query);
  const values = {};
  for (const setting of SETTINGS.filter(({ name }) => given.has(name))) {
    const value = fromText(setting, given.get(setting.name));
    if (value !== undefined) values[setting.name] = value;
  }
  return values;
}

function link(address, settings, initial) {
  const changed = SETTINGS.map((setting) => [
    setting.name,
    toText(setting, settings[setting.name]),
    toText(setting, initial[setting.name]),
  ]).filter(([, now, before]) => now !== before);
  const query = changed.map(([name, now]) => `${name}=${encodeURIComponent(now)}`);
  if (!query.length) return `#${address}`;
  // a comma may stand in an address as it is, and reads better
  return `#${address}?${query.join("&").replaceAll("%2C", ",")}`;
}

function python(settings) {
  const changed = SETTINGS.filter((setting) => {
    const now = toText(setting, settings[setting.name]);
    return now !== toText(setting, setting.default);
  });
  const given = changed.map(({ name }) => `${name}=${JSON.stringify(settings[name])}`);
  return `from ctlearn.explore import ${NAME}\n${NAME}.compute(${given.join(", ")})`;
}

// ---------------------------------------------------------------- controls

function button(label, icon, action) {
  const path = shape("path", { d: icon });
  const picture = shape("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
  const text = element("span", {}, label);
  return element("button", { type: "button", onclick: action }, picture, text);
}

// A button that puts text on the clipboard and says so.
function copier(label, text) {
  const said = element("span", {}, label);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      // no clipboard on pages served without encryption: the old way
      const area = element("textarea", { "aria-hidden": "true" });
      area.value = text();
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    said.textContent = "copied";
    setTimeout(() => (said.textContent = label), 1500);
  };
  const attributes = { type: "button", class: "x-quiet", "aria-live": "polite" };
  return element("button", { ...attributes, onclick: copy }, said);
}

function slider(setting, view) {
  const { name, min, max, step, log } = setting;
  const id = `${NAME}-${view.id}-${name}`;
  const whole = setting.kind === "whole";
  // a slider in octaves moves by factors: its place is the logarithm of its value
  const place = log ? Math.log2 : (value) => value;
  const valueAt = (at) => {
    if (!log) return at;
    return whole ? Math.round(2 ** at) : Number((2 ** at).toPrecision(3));
  };
  const set = () => view.change({ [name]: valueAt(Number(input.value)) });
  const limits = { type: "range", id, name, min: place(min), max: place(max), step };
  const input = element("input", { ...limits, oninput: set });
  const label = element("label", { for: id }, ...words(setting.label, setting.role));
  // the slider says its value itself
  const shown = element("span", { "aria-hidden": "true" });
  const node = element("div", { class: "x-slider" }, label, shown, input);
  const refresh = (settings) => {
    const most = setting.most ? Math.min(max, settings[setting.most]) : max;
    const value = Math.min(settings[name], most);
    input.max = place(most);
    input.value = place(value);
    shown.textContent = log && !whole ? brief(value) : round(value, whole ? 0 : 2);
    if (log) input.setAttribute("aria-valuetext", shown.textContent);
    const when = Object.entries(setting.when ?? {});
    const off = ([other, values]) => ![values].flat().includes(settings[other]);
    input.disabled = when.some(off);
    node.classList.toggle("x-off", input.disabled);
  };
  return { node, refresh };
}

function radios(setting, view) {
  const group = `${NAME}-${setting.name}-${view.id}`;
  const inputs = setting.options.map(([value]) => {
    const set = () => view.change({ [setting.name]: value });
    return element("input", { type: "radio", name: group, value, onchange: set });
  });
  const labels = setting.options.map(([, text], i) =>
    element("label", {}, inputs[i], element("span", {}, ...words(text))),
  );
  const legend = element("legend", {}, ...words(setting.label));
  const node = element("fieldset", { class: "x-radios" }, legend, ...labels);
  const refresh = (settings) => {
    for (const input of inputs) input.checked = input.value === settings[setting.name];
  };
  return { node, refresh };
}

// Reset, step, play: a setting that counts up, to another one where it has an `end`.
function transport(setting, view) {
  const { name, max, verb, label } = setting;
  let timer = null;
  const end = () => Math.min(view.settings()[setting.end] ?? max, max);
  const at = () => Math.min(view.settings()[name], end());
  // at the end stands the largest number, which stays "all" when there are more
  const go = (next) => view.change({ [name]: next >= end() ? max : next });
  const stop = () => {
    clearInterval(timer);
    timer = null;
  };
  const tick = () => {
    go(at() + 1);
    if (at() >= end()) stop();
    view.redraw();
  };
  const toggle = () => {
    if (timer) {
      stop();
    } else {
      if (at() >= end()) go(0);
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) go(max);
      else timer = setInterval(tick, 700);
    }
    view.redraw();
  };
  const halt = (action) => () => {
    stop();
    action();
  };
  const icons = { reset: "M3 3v10M13 3 6 8l7 5z", step: "M3 3l7 5-7 5zM13 3v10" };
  const reset = button("reset", icons.reset, halt(() => go(0)));
  const step = button("step", icons.step, halt(() => go(at() + 1)));
  const play = button("play", "", toggle);
  const count = element("span", { class: "x-count" });
  const node = element("div", { class: "x-transport" }, reset, step, play, count);
  const refresh = () => {
    // a button that is disabled would lose the focus that has just pressed it
    reset.setAttribute("aria-disabled", at() === 0);
    step.setAttribute("aria-disabled", at() >= end());
    step.setAttribute("aria-label", `step: ${verb} the next ${label}`);
    play.lastChild.textContent = timer ? "pause" : "play";
    const icon = timer ? "M5 3v10M11 3v10" : "M4 2.5l9 5.5-9 5.5z";
    play.querySelector("path").setAttribute("d", icon);
    count.textContent = `${label} ${at()} of ${end()}`;
  };
  return { node, refresh, stop };
}

// A choice among many, whose options would not fit beside each other.
function menu(setting, view) {
  const { name, options, label } = setting;
  const id = `${NAME}-${view.id}-${name}`;
  const parts = options.map(([value, text]) => element("option", { value }, text));
  const set = () => view.change({ [name]: select.value });
  const select = element("select", { id, name, onchange: set }, ...parts);
  const title = element("label", { for: id }, ...words(label, setting.role));
  const node = element("div", { class: "x-menu" }, title, select);
  const refresh = (settings) => {
    select.value = settings[name];
  };
  return { node, refresh };
}

function control(setting, view) {
  if (setting.kind === "choice") return (setting.menu ? menu : radios)(setting, view);
  return setting.verb ? transport(setting, view) : slider(setting, view);
}

// ---------------------------------------------------------------- the explorable

function numbersTable({ head, rows }) {
  const titles = head.map((text) => element("th", { scope: "col" }, ...words(text)));
  const body = rows.map(([first, ...rest]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, first),
      ...rest.map((text) => element("td", {}, text)),
    ),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...body),
  );
}

let mounted = 0;

// The module's `render`. What an explorable brings of its own:
//   compute(settings)        the numbers, as NAME.compute in Python
//   draw(numbers, view)      the pictures, a list of SVG elements for view.width pixels
//   readouts(numbers, s)     [[words, role, text], ...]
//   sentence(numbers, s)     what there is to see, said aloud when it changes
//   rows(numbers, s)         {head, rows}: the numbers behind the picture
//   follow(changed, s)       further settings that a change of some entails (optional)
//   drag(id, point, s, view), nudge(id, steps, s, key)
//                            settings after a handle (data-drag) is moved (optional)
//   pick(number)             settings after a click on that data-pick (optional)
function explorable(own) {
  return ({ model, el, address }) => {
    const names = SETTINGS.map(({ name }) => name);
    const settings = () =>
      Object.fromEntries(names.map((name) => [name, model.get(name)]));
    const initial = settings();
    mounted += 1;
    const view = { id: mounted, settings, change, redraw, width: 0, pointed: null };
    let numbers = null;
    // pending: the next drawing, the sentence, the change of the address
    let frame = 0;
    let spoken = 0;
    let moved = 0;

    function change(values) {
      const all = { ...values, ...own.follow?.(values, { ...settings(), ...values }) };
      for (const [name, value] of Object.entries(all)) model.set(name, value);
      model.save_changes();
    }

    // ------------------------------------------------------------ the parts
    const shown = SETTINGS.filter(({ kind }) => kind !== "several");
    const controls = shown.map((setting) => control(setting, view));
    const stage = element("div", { class: "x-stage" });
    const facts = element("dl", { class: "x-facts" });
    const sentence = element("p", { class: "x-sentence", role: "status" });
    const scroll = { class: "x-scroll", tabindex: "0", role: "region" };
    const list = element("div", { ...scroll, "aria-label": "Numbers" });
    const behind = element("summary", {}, "Numbers behind the picture");
    const details = element("details", { ontoggle: redraw }, behind, list);
    // not a <pre>: a page's theme may take those out of the Tab order while folded
    const line = element("code", {});
    const lines = element("div", { ...scroll, "aria-label": "Python" }, line);
    const copy = copier("copy", () => python(settings()));
    const inPython = element("summary", {}, "The same in Python");
    const code = element("details", {}, inPython, element("div", {}, lines, copy));
    const here = () => new URL(link(address, settings(), initial), location.href).href;
    const tools = element(
      "div",
      { class: "x-tools" },
      ...(address ? [copier("copy link", here)] : []),
      element(
        "button",
        { type: "button", class: "x-quiet", onclick: () => change(initial) },
        "start over",
      ),
    );
    el.classList.add("explorable");
    el.setAttribute("role", "group");
    el.setAttribute("aria-label", TITLE);
    el.append(
      element("style", {}, STYLE),
      element("div", { class: "x-head" }, element("p", {}, TITLE), tools),
      element("div", { class: "x-controls" }, ...controls.map(({ node }) => node)),
      stage,
      facts,
      sentence,
      details,
      code,
    );

    // ------------------------------------------------------------ drawing
    function redraw() {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(paint);
    }

    function recompute() {
      numbers = null;
      redraw();
      if (!address) return;
      clearTimeout(moved);
      // browsers allow a page only so many changes of its address
      moved = setTimeout(() => {
        history.replaceState(history.state, "", link(address, settings(), initial));
      }, 300);
    }

    function paint() {
      const now = settings();
      numbers ??= own.compute(now);
      for (const { refresh } of controls) refresh(now);
      view.width = stage.clientWidth;
      if (!view.width) return; // not on the page yet: the observer will call again
      const held = el.contains(document.activeElement)
        ? document.activeElement.dataset.drag
        : undefined;
      stage.replaceChildren(...own.draw(numbers, view));
      if (held) stage.querySelector(`[data-drag="${held}"]`)?.focus();
      facts.replaceChildren(
        ...own.readouts(numbers, now).map(([label, role, text]) => {
          const name = element("dt", {}, ...words(label));
          return element("div", {}, name, element("dd", { class: `x-${role}` }, text));
        }),
      );
      line.textContent = python(now);
      if (details.open) list.replaceChildren(numbersTable(own.rows(numbers, now)));
      clearTimeout(spoken);
      // by the time it is spoken, `numbers` may be cleared for the next picture
      const shown = numbers;
      // a reader's voice would not keep up with a slider on its way
      spoken = setTimeout(() => {
        const text = own.sentence(shown, now);
        if (sentence.textContent !== text) sentence.textContent = text;
      }, 250);
    }

    // ------------------------------------------------------------ hands
    function point(event, id) {
      const svg = stage.querySelector(`[data-drag="${id}"]`).ownerSVGElement;
      const at = new DOMPoint(event.clientX, event.clientY);
      return at.matrixTransform(svg.getScreenCTM().inverse());
    }

    function pointAt(value) {
      if (view.pointed === value) return;
      view.pointed = value;
      redraw();
    }

    let dragged = null;
    stage.addEventListener("pointerdown", (event) => {
      const handle = event.target.closest("[data-drag]");
      if (!handle) return;
      dragged = handle.dataset.drag;
      // the handle is drawn anew on the way; the stage stays
      stage.setPointerCapture(event.pointerId);
      handle.focus();
      event.preventDefault();
    });
    stage.addEventListener("pointermove", (event) => {
      if (dragged) {
        change(own.drag(dragged, point(event, dragged), settings(), view));
      } else if (event.pointerType === "mouse") {
        const row = event.target.closest("[data-pick]");
        pointAt(row ? Number(row.dataset.pick) : null);
      }
    });
    stage.addEventListener("pointerleave", () => pointAt(null));
    for (const end of ["pointerup", "pointercancel"]) {
      stage.addEventListener(end, () => (dragged = null));
    }
    stage.addEventListener("click", (event) => {
      const row = event.target.closest("[data-pick]");
      if (row && own.pick) change(own.pick(Number(row.dataset.pick)));
    });
    stage.addEventListener("keydown", (event) => {
      const handle = event.target.closest("[data-drag]");
      const arrows = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };
      const steps = { ...arrows, PageUp: 5, PageDown: -5 }[event.key];
      if (!handle || !steps) return;
      event.preventDefault();
      change(own.nudge(handle.dataset.drag, steps, settings(), event.key));
    });

    // A key that is pressed in here is no command to what lies around, such as to the
    // notebook in JupyterLab; with Ctrl, Alt or Meta it may be.
    el.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
    });

    // ------------------------------------------------------------ coming and going
    const restore = (block) => {
      const given = address && read(address);
      if (!given) return;
      change({ ...initial, ...given });
      redraw();
      // once it is drawn, and has its height
      requestAnimationFrame(() => el.scrollIntoView({ block }));
    };
    const follow = () => restore("nearest");
    for (const name of names) model.on(`change:${name}`, recompute);
    window.addEventListener("hashchange", follow);
    const width = new ResizeObserver(() => {
      if (stage.clientWidth !== view.width) redraw();
    });
    width.observe(stage);
    redraw();
    restore("start");
    return () => {
      for (const { stop } of controls) stop?.();
      for (const name of names) model.off(`change:${name}`, recompute);
      window.removeEventListener("hashchange", follow);
      width.disconnect();
      clearTimeout(spoken);
      clearTimeout(moved);
      cancelAnimationFrame(frame);
    };
  };
}
