// The map from above, and where a frame was taken.

import { ask, form } from "./api.js";
import { complain, draw, find, fixed, make } from "./dom.js";
import { named } from "./frame.js";
import { SIDES, state } from "./state.js";

let map = null;

export async function makeWhere() {
  for (const side of SIDES) find(`where-${side}`).addEventListener("click", () => locate(side));
  try {
    map = await ask("map");
    show(null);
  } catch (problem) {
    complain(problem);
  }
}

async function locate(side) {
  const frame = state.frames[side];
  if (!frame) return complain(new Error("open an image first"));
  try {
    const boxes = frame.landmarks.length ? { landmarks: frame.landmarks } : null;
    show(await ask("map/query", { body: form({ image: named(frame), boxes, camera: frame.camera?.join(",") }) }));
  } catch (problem) {
    complain(problem);
  }
}

function show(place) {
  const points = [...map.landmarks, ...map.keyframes, ...(place?.ground ? [place.ground.position] : [])];
  if (!points.length) return find("where-body").replaceChildren(make("p", { class: "empty-note card" }, "This map is empty."));
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => -point[1])];
  const margin = 8, left = Math.min(...xs) - margin, top = Math.min(...ys) - margin;
  const wide = Math.max(...xs) + margin - left, high = Math.max(...ys) + margin - top;
  const unit = Math.max(wide, high) / 400;
  const svg = draw("svg", { class: "map", viewBox: `${left} ${top} ${wide} ${high}`, role: "img", "aria-label": words(place) });
  for (const [x, y, category] of map.landmarks) {
    const mark = category === "pole" ? draw("circle", { cx: x, cy: -y, r: 1.6 * unit }) : draw("rect", { x: x - 1.5 * unit, y: -y - 1.5 * unit, width: 3 * unit, height: 3 * unit });
    mark.setAttribute("fill", "#8a9894");
    svg.append(mark);
  }
  for (const [x, y, name] of map.keyframes) {
    const found = place && String(name) === String(place.keyframe);
    svg.append(draw("circle", { cx: x, cy: -y, r: (found ? 5 : 2) * unit, fill: found ? "none" : "#0ea5a0", stroke: found ? "#d97706" : "none", "stroke-width": 1.6 * unit }));
  }
  if (place && !place.unknown && place.ground) {
    const [x, y] = place.ground.position;
    const [major, minor, angle] = ellipse(place.ground.covariance);
    svg.append(draw("ellipse", { cx: x, cy: -y, rx: Math.max(2 * major, 3 * unit), ry: Math.max(2 * minor, 3 * unit), transform: `rotate(${-angle} ${x} ${-y})`, fill: "#d9770633", stroke: "#d97706", "stroke-width": unit }));
    svg.append(draw("path", { d: `M${x - 5 * unit} ${-y}H${x + 5 * unit}M${x} ${-y - 5 * unit}V${-y + 5 * unit}`, stroke: "#d97706", "stroke-width": 1.5 * unit }));
  }
  find("where-body").replaceChildren(make("p", { role: "status" }, words(place)), svg, make("p", { class: "hint" }, "Grey: landmarks. Teal: keyframes. Amber ring: the keyframe that was matched; cross and ellipse: the place, twice its standard deviation."));
}

function words(place) {
  if (!place) return `${map.landmarks.length} landmarks and ${map.keyframes.length} keyframes from above.`;
  if (place.unknown) return "This place is not on the map.";
  if (!place.ground) return `Near keyframe ${place.keyframe}, probability ${fixed(place.probability)}.`;
  const [x, y] = place.ground.position;
  return `At ${fixed(x)}, ${fixed(y)} m, probability ${fixed(place.probability)}, matched with keyframe ${place.keyframe}.`;
}

// Standard deviations along the axes of a covariance, and the major axis's angle in degrees.
function ellipse(covariance) {
  if (!covariance) return [0, 0, 0];
  const [[a, b], [, c]] = covariance;
  const middle = (a + c) / 2, spread = Math.hypot((a - c) / 2, b);
  return [Math.sqrt(Math.max(middle + spread, 0)), Math.sqrt(Math.max(middle - spread, 0)), (Math.atan2(2 * b, a - c) / 2) * (180 / Math.PI)];
}
