// Why two landmarks were matched, or not.

import { ask } from "./api.js";
import { complain, find, fixed, make, patch, signed } from "./dom.js";
import { imageOf } from "./frame.js";
import { framesForm } from "./matching.js";
import { SIDES, allMatches, change, color, key, listen, state, title } from "./state.js";

// What each kind of evidence looks at, in a few words.
const WORDS = {
  pair: "the two landmarks and their neighbours",
  frames: "their look against all others",
  placement: "how landmarks look, and where their boxes stand",
  diffusion: "one motion of the camera that all landmarks agree on",
  motion: "one camera motion that fits all landmarks",
  scene: "keypoints of the whole frames",
  "base rate": "how common matches of this category are",
  competition: "rivals for the same partner",
  detection: "whether the detector saw a landmark at all",
};

let running = null;

export function makeWhy() {
  listen(["pair", "evidence", "result"], () => { if (!find("why").hidden) show(); });
  for (const side of SIDES) find(`why-${side}`).addEventListener("change", (event) => change({ pair: { ...state.pair, [side]: Number(event.target.value) } }));
  find("why-before").addEventListener("click", () => step(-1));
  find("why-next").addEventListener("click", () => step(1));
}

function step(by) {
  const matches = allMatches();
  if (!matches.length) return;
  const place = matches.findIndex((match) => state.pair && match.key === key(state.pair));
  const { a, b } = matches[(Math.max(place, by < 0 ? 0 : -1) + by + matches.length) % matches.length];
  change({ pair: { a, b } });
}

export async function show() {
  const body = find("why-body");
  const { frames } = state;
  if (!state.pair && allMatches().length) state.pair = { a: allMatches()[0].a, b: allMatches()[0].b };
  const { pair } = state;
  const there = pair && SIDES.every((side) => frames[side]?.landmarks[pair[side]]);
  if (!there) return body.replaceChildren(make("p", { class: "empty-note card" }, "Match two frames first, then choose a match: in the table, among the patches, or here."));
  for (const side of SIDES) {
    find(`why-${side}`).replaceChildren(...frames[side].landmarks.map((mark, index) => make("option", { value: index, selected: index === pair[side] }, `${side.toUpperCase()}${index} ${title(mark.category)}`)));
  }
  running?.abort();
  const mine = (running = new AbortController());
  body.setAttribute("aria-busy", "true");
  try {
    const told = await ask("explain", { body: framesForm({ index_a: pair.a, index_b: pair.b, evidence: state.evidence }), signal: mine.signal });
    body.replaceChildren(page(told));
  } catch (problem) {
    if (problem.name !== "AbortError") complain(problem);
  } finally {
    if (running === mine) body.removeAttribute("aria-busy");
  }
}

const nameOf = (side, index) => `${side.toUpperCase()}${index}`;
const markOf = (side, index) => state.frames[side].landmarks[index];

function page(told) {
  const { pair } = told;
  const close = make("div", { class: "duo close" }, ...SIDES.map((side) => make("figure", {},
    patch(imageOf(side), markOf(side, pair[side]).box, 240, `Patch of ${nameOf(side, pair[side])}`),
    make("figcaption", {}, `${nameOf(side, pair[side])}, ${title(markOf(side, pair[side]).category)}`))));
  const around = make("div", { class: "duo" }, ...SIDES.map((side) => make("figure", {}, graph(side, pair[side], told),
    make("figcaption", {}, told.neighbors[side].length ? `${nameOf(side, pair[side])} and its neighbours ${told.neighbors[side].map((index) => nameOf(side, index)).join(", ")}${told.epipolar ? "; the epipolar line is dotted" : ""}` : `${nameOf(side, pair[side])} is alone in its frame`))));
  const verdict = make("p", {}, `Log odds ${signed(pair.log_odds)}, that is a probability of `, make("b", {}, fixed(pair.probability)), `, by ${told.evidence} (${told.checkpoint}). `,
    "Zero means even odds; each kind of evidence is credited with what it changed.");
  const rivals = told.rivals.map((rival) => {
    const side = rival.a === pair.a ? "b" : "a";
    return make("div", { class: "rival" }, patch(imageOf(side), markOf(side, rival[side]).box, 120, `Patch of ${nameOf(side, rival[side])}`),
      make("div", {}, make("p", {}, make("b", {}, `${nameOf("a", rival.a)} with ${nameOf("b", rival.b)}`), `: probability ${fixed(rival.probability)}. ${rival.why}.`), bars(rival, told)));
  });
  return make("div", { class: "why" },
    make("div", {}, make("section", { class: "card" }, make("h3", {}, "Both patches"), close), make("section", { class: "card" }, make("h3", {}, "Their neighbourhoods"), around)),
    make("div", {}, make("section", { class: "card" }, make("h3", {}, `${nameOf("a", pair.a)} with ${nameOf("b", pair.b)}`), verdict, bars(pair, told), ...inside(pair, told)),
      make("section", { class: "card" }, make("h3", {}, "Runners-up"), ...(rivals.length ? rivals : [make("p", {}, "There is no other candidate of this category.")]))));
}

// Each kind of evidence as a bar from the middle, left for less, right for more, and the sum below.
function bars(one, told, total = "log odds", kind = "") {
  const everything = [told.pair, ...told.rivals].flatMap((pair) => [pair.log_odds, ...pair.contributions.map((part) => part.log_odds)]);
  const most = Math.max(1, ...everything.map(Math.abs));
  const row = (name, value, shape) => {
    const bar = make("i", { class: value < 0 ? "minus" : "plus" });
    const share = (50 * Math.abs(value)) / most;
    bar.style.width = `${share}%`;
    bar.style.left = `${value < 0 ? 50 - share : 50}%`;
    return make("tr", { class: shape }, make("th", { scope: "row" }, name, ...(WORDS[name] && one === told.pair && !shape ? [make("small", {}, WORDS[name])] : [])), make("td", { class: "track", "aria-hidden": "true" }, make("div", {}, bar)), make("td", {}, signed(value)));
  };
  return make("table", { class: "bars" }, make("caption", { class: "unseen" }, "Contributions to the log odds"),
    make("tbody", {}, ...one.contributions.map((part) => row(part.name.replaceAll("_", " "), part.log_odds, kind)), row(total, one.log_odds, "sum")));
}

// The numbers that a kind of evidence is made of, for those who want to know.
function inside(one, told) {
  return one.contributions.filter((kind) => kind.parts).map((kind) => make("details", {}, make("summary", {}, `The ${kind.parts.length} numbers behind ${kind.name}`),
    bars({ contributions: kind.parts, log_odds: kind.log_odds }, told, kind.name, "part")));
}

// The surroundings of a landmark with its neighbourhood graph.
function graph(side, index, told) {
  const image = imageOf(side), frame = state.frames[side];
  const boxes = [index, ...told.neighbors[side]].map((one) => markOf(side, one).box);
  const middle = (box) => [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const reach = Math.max(90, ...boxes.flatMap((box) => [Math.abs(box[0] - middle(boxes[0])[0]), Math.abs(box[2] - middle(boxes[0])[0]), Math.abs(box[1] - middle(boxes[0])[1]), Math.abs(box[3] - middle(boxes[0])[1])])) + 20;
  const wide = Math.min(frame.width, 2 * reach), high = Math.min(frame.height, 1.4 * reach, wide * 0.8);
  const clip = (value, most) => Math.min(Math.max(value, 0), most);
  const tall = Math.max(high, Math.min(frame.height, Math.max(...boxes.map((box) => box[3])) - Math.min(...boxes.map((box) => box[1])) + 30));
  const x = clip(middle(boxes[0])[0] - wide / 2, frame.width - wide);
  const y = clip((Math.max(...boxes.map((box) => box[3])) + Math.min(...boxes.map((box) => box[1])) - tall) / 2, frame.height - tall);
  const scale = 560 / wide;
  const canvas = make("canvas", { width: 560, height: Math.round(tall * scale), role: "img", "aria-label": `${nameOf(side, index)} with lines to its nearest landmarks` });
  const context = canvas.getContext("2d");
  context.drawImage(image, x, y, wide, tall, 0, 0, canvas.width, canvas.height);
  const at = (point) => [(point[0] - x) * scale, (point[1] - y) * scale];
  context.lineWidth = 3;
  context.strokeStyle = "#fff";
  for (const box of boxes.slice(1)) {
    context.beginPath();
    context.moveTo(...at(middle(boxes[0])));
    context.lineTo(...at(middle(box)));
    context.stroke();
  }
  const line = told.epipolar?.[side];
  if (line && Math.abs(line[1]) > 1e-9) {
    context.setLineDash([3, 7]);
    context.strokeStyle = "#fde047";
    context.beginPath();
    for (const u of [x, x + wide]) context.lineTo(...at([u, -(line[0] * u + line[2]) / line[1]]));
    context.stroke();
    context.setLineDash([]);
  }
  boxes.forEach((box, place) => {
    context.strokeStyle = place ? "#fff" : color(told.pair.probability);
    context.lineWidth = place ? 2 : 4;
    const [left, top] = at(box);
    context.strokeRect(left, top, (box[2] - box[0]) * scale, (box[3] - box[1]) * scale);
  });
  return canvas;
}
