// Fit the stream: the numbers of fit_the_stream.py, and their picture: one question's
// answers and all errors over the tokens, and the chosen solver's error by its knob.

const [TOKENS, D_K, RIDGE] = [40, 4, 0.5];
const { options } = SETTINGS.find(({ name }) => name === "solver");
const [SOLVERS, NAMES] = [0, 1].map((part) => options.map((option) => option[part]));
const [KEYS, MAPS, DRIFT, NOISE, LENGTHS, QUESTION] = [0, 1, 2, 3, 4, 5];

// ---------------------------------------------------------------- numbers

function streamOf({ switch: anew, drift, noise, lengths, seed }) {
  const size = (t) => 2 ** (lengths * (2 * uniform(seed, LENGTHS, t, 0) - 1));
  const drawn = directions(normal(seed, KEYS, TOKENS, D_K));
  const keys = drawn.map((key, t) => key.map((x) => size(t) * x));
  const [first, second] = normal(seed, MAPS, 2, D_K);
  const fresh = normal(seed, DRIFT, TOKENS, D_K);
  const [stays, comes] = [Math.sqrt(1 - drift), Math.sqrt(drift)];
  const maps = [first];
  for (let t = 1; t < TOKENS; t++) {
    const drifted = maps[t - 1].map((x, c) => stays * x + comes * fresh[t][c]);
    maps.push(t + 1 === anew ? second : drifted);
  }
  const extra = normal(seed, NOISE, TOKENS, 1).map(([x]) => noise * x);
  return { keys, maps, told: keys.map((key, t) => dot(key, maps[t]) + extra[t]) };
}

const scaled = (x, factor) => x.map((entry) => factor * entry);
const added = (x, y, factor) => x.map((entry, c) => entry + factor * y[c]);
const ridge = (size) => table(D_K, D_K, (i, j) => (i === j ? size : 0));

// The state after each token, before the sums are scaled.
function rawStates(solver, { keys, told }, knob) {
  const kept = ["decay", "rls", "mesa"].includes(solver) ? 1 - 1 / knob : 1;
  let S = new Array(D_K).fill(0);
  // of the keys: their sum for Mesa, the inverse of it for RLS
  let H = solver === "rls" ? ridge(1 / RIDGE) : ridge(0);
  return keys.map((key, t) => {
    const square = dot(key, key);
    const error = told[t] - dot(S, key);
    if (solver === "delta") S = added(S, key, knob * error);
    else if (solver === "longhorn") {
      S = added(S, key, (knob / (1 + knob * square)) * error);
    } else if (solver === "rls") {
      const seen = ask(H, key);
      const weight = kept + dot(key, seen);
      S = added(S, seen, error / weight);
      H = table(D_K, D_K, (i, j) => (H[i][j] - (seen[i] * seen[j]) / weight) / kept);
    } else S = added(scaled(S, kept), key, told[t]);
    if (solver !== "mesa") return S;
    H = remember(H, key, key, kept);
    return solve(plus(H, ridge(RIDGE)), S.map((x) => [x])).flat();
  });
}

function statesBy(solver, stream, knob) {
  const states = rawStates(solver, stream, knob);
  const [flat, wanted] = [states.flat(), stream.maps.flat()];
  const sums = solver === "linear" || solver === "decay";
  const scale = sums ? dot(flat, wanted) / dot(flat, flat) : 1;
  return { states: states.map((S) => scaled(S, scale)), scale };
}

function knobsOf(solver) {
  if (solver === "linear") return [];
  const strengths = range(9).map((i) => 2 ** (i - 4));
  const memories = range(8).map((i) => 2 ** (i + 1));
  return solver === "delta" || solver === "longhorn" ? strengths : memories;
}

// The name of the setting that a solver has, if it has one.
function knobName(solver) {
  if (solver === "linear") return null;
  return solver === "delta" || solver === "longhorn" ? "beta" : "memory";
}

export function compute(settings) {
  const { solver, seed } = settings;
  const stream = streamOf(settings);
  const { keys, maps, told } = stream;
  const found = SOLVERS.map((one) => statesBy(one, stream, settings[knobName(one)]));
  const [question] = directions(normal(seed, QUESTION, 1, D_K));
  const errorsOf = (states) => states.map((S, t) => distance(S, maps[t]) / D_K);
  const errors = found.map(({ states }) => errorsOf(states));
  const knobs = knobsOf(solver);
  const sweep = knobs.map((x) => mean(errorsOf(statesBy(solver, stream, x).states)));
  return {
    keys,
    maps,
    told,
    truth: maps.map((W) => dot(W, question)),
    answers: found.map(({ states }) => states.map((S) => dot(S, question))),
    errors,
    means: errors.map(mean),
    scales: found.slice(0, 2).map(({ scale }) => scale),
    knobs,
    sweep,
    best: knobs.length ? knobs[sweep.indexOf(Math.min(...sweep))] : null,
  };
}

// ---------------------------------------------------------------- pictures

const held = (x, most) => x.map((value) => clamp(value, -most, most));

function answers({ truth, answers }, chosen, width) {
  const node = picture(width, 172, "the answer to one question, and the right one");
  const others = answers.filter((_, i) => i !== chosen);
  const most = above(Math.max(...truth.map(Math.abs)));
  const lines = [
    { values: truth, role: "value", kind: "x-thick", label: "right" },
    ...others.map((values) => ({ values: held(values, most), kind: "x-thin x-pale" })),
    { values: held(answers[chosen], most), role: "output", label: NAMES[chosen] },
  ];
  const title = "the answer to one question";
  chart(node, { x: 0, y: 28, width, height: 118, title, across: "token", lines });
  return node;
}

function errors({ errors }, chosen, width) {
  const node = picture(width, 172, "the error of all six after each token");
  const line = (values, i) => ({ values: held(values, 2), label: NAMES[i] });
  const pale = (one) => ({ ...one, kind: "x-thin x-pale" });
  const all = errors.map(line);
  const own = { ...all[chosen], role: "error", kind: "x-thick" };
  const lines = [...all.filter((_, i) => i !== chosen).map(pale), own];
  const title = "error, over all questions";
  chart(node, { x: 0, y: 28, width, height: 118, title, across: "token", lines });
  return node;
}

// The mean error of the chosen solver by its setting, with a knob where it stands.
function knobs(numbers, settings, chosen, view) {
  const { knobs, sweep, means } = numbers;
  const name = knobName(settings.solver);
  if (!name) return [];
  const width = Math.min(view.width, 400);
  const node = picture(width, 158, "mean error by setting", "group");
  const role = name === "beta" ? "rate" : "decay";
  const lines = [{ values: held(sweep, 2), role, label: "mean error" }];
  const across = name === "beta" ? "strength β" : "memory m, tokens";
  const ends = [knobs[0], knobs[knobs.length - 1]].map(brief);
  const title = `${NAMES[chosen]} by its setting: drag it`;
  const box = { x: 0, y: 28, width, height: 104, title, across, lines, ends };
  const axes = chart(node, box);
  view.axes = axes;
  const at = Math.log2(settings[name] / knobs[0]);
  const limits = { min: knobs[0], max: knobs[knobs.length - 1], now: settings[name] };
  const said = brief(settings[name]);
  const what = { id: "knob", label: "setting in the picture", said, ...limits };
  const place = { cx: axes.acrossAt(at), cy: axes.upAt(Math.min(2, means[chosen])) };
  knob(node, { ...place, role, text: name === "beta" ? "β" : "m", ...what });
  return [node];
}

function draw(numbers, view) {
  const settings = view.settings();
  const chosen = SOLVERS.indexOf(settings.solver);
  const { width } = view;
  return [
    answers(numbers, chosen, width),
    errors(numbers, chosen, width),
    ...knobs(numbers, settings, chosen, view),
  ];
}

// ---------------------------------------------------------------- words

function readouts({ means }, { solver }) {
  return SOLVERS.map((one, i) => {
    const text = means[i] < 100 ? round(means[i]) : brief(means[i]);
    return [NAMES[i], one === solver ? "error" : "size", text];
  });
}

function sentence({ means, sweep, best, scales }, { solver }) {
  const chosen = SOLVERS.indexOf(solver);
  const least = means.indexOf(Math.min(...means));
  const nearest = `As set, ${NAMES[least]} comes nearest, at ${round(means[least])}.`;
  const own = `Its mean error is ${brief(means[chosen])}`;
  if (best === null) {
    return `${own} at its best scale, ${brief(scales[0])}, its one setting. ${nearest}`;
  }
  const letter = knobName(solver) === "beta" ? "β" : "m";
  const other = `of the settings tried ${letter} = ${brief(best)} is best`;
  return `${own}; ${other}, at ${round(Math.min(...sweep))}. ${nearest}`;
}

function rows({ told, truth, answers }) {
  return {
    head: ["token", "told", "right answer", ...NAMES],
    rows: told.map((value, t) => [
      String(t + 1),
      ...[value, truth[t], ...answers.map((all) => all[t])].map((x) => round(x)),
    ]),
  };
}

// ---------------------------------------------------------------- hands

function put(next, { solver, ...settings }) {
  const [name, knobs] = [knobName(solver), knobsOf(solver)];
  return { [name]: limited(name, next(settings[name], knobs)) };
}

function drag(id, { x }, settings, { axes }) {
  const octaves = axes.placeAt(x);
  return put((_, [lowest]) => lowest * 2 ** octaves, settings);
}

function nudge(id, steps, settings) {
  return put((old) => old * 2 ** (steps / 4), settings);
}

export default {
  render: explorable({ compute, draw, readouts, sentence, rows, drag, nudge }),
};
