// Ask for a match whenever frames, boxes or weather change: a moment after the last change, and only for the last one.

import { ask, form } from "./api.js";
import { calm, complain, plural, say, working } from "./dom.js";
import { named } from "./frame.js";
import { change, listen, nothingFound, perturbation, shownMatches, state } from "./state.js";

const WAIT = 250; // milliseconds
let timer = null, running = null;

export function makeMatching() {
  listen(["landmarks", "weather-changed"], soon);
  listen(["sample"], match);
  listen(["least", "evidence"], tell);
}

// The parts of a request about both frames.
export function framesForm(more = {}) {
  const { a, b } = state.frames;
  const camera = a.camera && b.camera && String(a.camera) === String(b.camera) ? a.camera.join(",") : null;
  return form({
    a: named(a), b: named(b), boxes_a: { landmarks: a.landmarks }, boxes_b: { landmarks: b.landmarks }, camera,
    checkpoint: state.model, perturb: perturbation(), perturb_side: state.side, ...more,
  });
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(match, WAIT);
}

async function match() {
  clearTimeout(timer);
  running?.abort();
  const { a, b } = state.frames;
  if (!a || !b) return;
  const nothing = nothingFound();
  if (nothing) return say(nothing);
  if (!a.landmarks.length || !b.landmarks.length) return; // the detector is looking at it, and what it finds is matched
  const mine = (running = new AbortController());
  working(true);
  say("Matching");
  try {
    const result = await ask("match", { body: framesForm({ min_probability: 0, compare: true, pictures: true }), signal: mine.signal, onBusy: () => say("The server is busy, waiting") });
    calm();
    change({ result });
    if (result.warnings.length) complain(new Error(result.warnings.join("; ")));
    tell();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    say("Not matched");
    complain(problem);
  } finally {
    if (running === mine) working(false);
  }
}

function tell() {
  const { result } = state;
  if (!result) return;
  say(`${plural(shownMatches().length, "match", "matches")} in ${result.seconds.toFixed(2)} s`);
}
