// What the page knows, and who wants to be told when it changes.

const listeners = new Map();

export const state = {
  server: null, // what GET /api/models told
  frames: { a: null, b: null }, // { blob, name, url, width, height, landmarks, picture, camera, searching }
  model: null,
  evidence: null,
  weather: "", strength: 3, noise: 0, side: "second",
  least: 0.5,
  result: null, // the last answer of /api/match
  hot: null, // key of the match under the pointer or in focus
  chosen: null, // { side, index }: the box being edited
  pair: null, // { a, b }: the pair that Why looks at
};

export function listen(topics, act) {
  for (const topic of topics) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(act);
  }
}

// Change some values and tell everyone who listens to one of them, once.
export function change(values) {
  Object.assign(state, values);
  announce(...Object.keys(values));
}

export function announce(...topics) {
  const told = new Set();
  for (const topic of topics) for (const act of listeners.get(topic) ?? []) told.add(act);
  for (const act of told) act(topics);
}

export const SIDES = ["a", "b"];
export const DOUBTFUL = 0.7;
export const key = (match) => `${match.a}-${match.b}`;
export const title = (category) => category.replace("_", " ");

// Matches by the chosen evidence, likeliest first, numbered once for all thresholds.
export function allMatches() {
  const { result, evidence } = state;
  if (!result) return [];
  const found = result.by_evidence?.[evidence] ?? result.matches;
  return [...found].sort((x, y) => y.probability - x.probability).map((match, place) => ({ ...match, number: place + 1, key: key(match) }));
}

export const shownMatches = () => allMatches().filter((match) => match.probability >= state.least);

// A doubtful detection counts once a match confirms it; what somebody drew has no confidence.
export const isLikely = (mark) => (mark.confidence ?? 1) >= 0.5;

// The landmarks of a frame that have no match, by their indices: the likely ones, or the doubtful detections.
export function leftAlone(side, likely = true) {
  const taken = new Set(shownMatches().map((match) => match[side]));
  const { landmarks } = state.frames[side];
  return [...landmarks.keys()].filter((index) => isLikely(landmarks[index]) === likely && !taken.has(index));
}

// What to say of frames without any landmark, once nobody is looking for them any more; nothing where there is none.
export function nothingFound() {
  const bare = SIDES.filter((side) => state.frames[side]?.landmarks.length === 0 && !state.frames[side].searching);
  if (!bare.length) return "";
  return `No landmark was found in ${bare.map((side) => `frame ${side.toUpperCase()} (${state.frames[side].name})`).join(" and ")}: draw boxes, or open a box file.`;
}

export function perturbation() {
  const wanted = [];
  if (state.weather) wanted.push(`${state.weather}:${state.strength}`);
  if (state.noise > 0) wanted.push(`awgn:${decibels(state.noise)}`);
  return wanted.join(",") || "clean";
}

export const decibels = (step) => 40 - 4 * step; // 36 dB is hardly seen, 16 dB is strong

// Sure matches are teal and opaque, doubtful ones amber and faint.
export function color(probability) {
  const share = Math.min(1, Math.max(0, (probability - 0.4) / 0.6));
  return `oklch(${Math.round(76 + 6 * share)}% 0.15 ${Math.round(55 + 125 * share)})`;
}

export const opacity = (probability) => 0.35 + 0.65 * Math.min(1, Math.max(0, (probability - 0.3) / 0.7));
