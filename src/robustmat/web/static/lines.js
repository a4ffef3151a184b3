// Lines between both frames, one for each match shown.

import { draw, find } from "./dom.js";
import { pictureRect, pressBelow } from "./frame.js";
import { DOUBTFUL, change, color, listen, opacity, shownMatches, state } from "./state.js";

export function makeLines() {
  listen(["result", "least", "evidence", "landmarks", "size", "image"], show);
  listen(["hot"], showHot);
  window.addEventListener("resize", show);
}

// Where a match's line starts and ends, given where a box is drawn: it joins the sides that face each other.
export function ends(placed, boxA, boxB, stacked) {
  const a = placed("a", boxA), b = placed("b", boxB);
  if (stacked) return [[(a[0] + a[2]) / 2, a[3]], [(b[0] + b[2]) / 2, b[1]]];
  return [[a[2], (a[1] + a[3]) / 2], [b[0], (b[1] + b[3]) / 2]];
}

function show() {
  const svg = find("lines");
  const { a, b } = state.frames;
  const home = find("stage").getBoundingClientRect();
  if (!a || !b || !home.width) return svg.replaceChildren();
  const rects = { a: pictureRect("a"), b: pictureRect("b") };
  const stacked = rects.b.top >= rects.a.bottom;
  const placed = (side, box) => {
    const rect = rects[side], scale = rect.width / state.frames[side].width;
    return box.map((value, place) => value * scale + (place % 2 ? rect.top - home.top : rect.left - home.left));
  };
  const drawn = [];
  for (const match of [...shownMatches()].reverse()) { // the likeliest last, on top
    const [first, second] = [a.landmarks[match.a], b.landmarks[match.b]];
    if (!first || !second) continue;
    const [[x0, y0], [x1, y1]] = ends(placed, first.box, second.box, stacked);
    const d = `M${x0} ${y0}L${x1} ${y1}`;
    const dash = match.probability < DOUBTFUL ? "7 5" : null;
    const halo = draw("path", { d, stroke: "#000", "stroke-width": 3.4, opacity: 0.3, "stroke-dasharray": dash });
    const line = draw("path", { d, stroke: color(match.probability), "stroke-width": 1.8, opacity: opacity(match.probability), "stroke-dasharray": dash });
    const hit = draw("path", { d, class: "hit" });
    hit.addEventListener("pointerenter", () => change({ hot: match.key }));
    hit.addEventListener("pointerleave", () => change({ hot: null }));
    hit.addEventListener("pointerdown", pressBelow);
    drawn.push(draw("g", { "data-key": match.key }, halo, line, hit));
  }
  svg.replaceChildren(...drawn);
  showHot();
}

function showHot() {
  for (const group of find("lines").children) {
    const hot = group.dataset.key === state.hot;
    group.setAttribute("opacity", state.hot === null || hot ? 1 : 0.12);
    group.children[1].setAttribute("stroke-width", hot ? 3.4 : 1.8);
  }
}
