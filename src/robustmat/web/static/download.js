// What is shown, as files: JSON as the command line writes it, a table, a picture.

import { fixed, make } from "./dom.js";
import { imageOf } from "./frame.js";
import { ends } from "./lines.js";
import { DOUBTFUL, SIDES, color, leftAlone, opacity, shownMatches, state } from "./state.js";

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const left = (side, matches) => state.frames[side].landmarks.map((_, index) => index).filter((index) => !matches.some((match) => match[side] === index));

export function saveJson() {
  const { a, b, checkpoint, threshold, version, perturb } = state.result;
  const matches = shownMatches().map(({ a: first, b: second, score, probability }) => ({ a: first, b: second, score, probability }));
  const written = { a, b, matches, unmatched_a: left("a", matches), unmatched_b: left("b", matches), checkpoint, evidence: state.evidence, threshold, min_probability: state.least, version, perturb };
  save("matches.json", new Blob([JSON.stringify(written, null, 2)], { type: "application/json" }));
}

export function saveCsv() {
  const rows = shownMatches().map((match) => {
    const [first, second] = SIDES.map((side) => state.frames[side].landmarks[match[side]]);
    return [match.number, match.a, match.b, first.category, match.score, match.probability, ...first.box, ...second.box].join(",");
  });
  const head = "number,a,b,category,score,probability,a_x0,a_y0,a_x1,a_y1,b_x0,b_y0,b_x1,b_y1";
  save("matches.csv", new Blob([[head, ...rows, ""].join("\n")], { type: "text/csv" }));
}

export async function savePicture() {
  const { a, b } = state.frames;
  const stacked = a.width / a.height > 2;
  const caption = 40, gap = 12;
  const corner = { a: [0, caption], b: stacked ? [0, caption + a.height + gap] : [a.width + gap, caption] };
  const canvas = make("canvas", { width: stacked ? Math.max(a.width, b.width) : a.width + gap + b.width, height: stacked ? corner.b[1] + b.height : caption + Math.max(a.height, b.height) });
  const context = canvas.getContext("2d");
  context.fillStyle = "#16181c";
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const side of SIDES) context.drawImage(imageOf(side), ...corner[side], state.frames[side].width, state.frames[side].height);
  const placed = (side, box) => box.map((value, place) => value + corner[side][place % 2]);
  const matches = shownMatches();
  for (const side of SIDES) {
    context.strokeStyle = "#ffffffa0";
    for (const index of leftAlone(side)) outline(context, placed(side, state.frames[side].landmarks[index].box));
  }
  context.lineWidth = 2.5;
  for (const match of [...matches].reverse()) {
    const boxes = SIDES.map((side) => state.frames[side].landmarks[match[side]].box);
    context.strokeStyle = color(match.probability);
    context.setLineDash(match.probability < DOUBTFUL ? [9, 6] : []);
    context.globalAlpha = opacity(match.probability);
    const [start, end] = ends(placed, ...boxes, stacked);
    context.beginPath();
    context.moveTo(...start);
    context.lineTo(...end);
    context.stroke();
    context.globalAlpha = 1;
    SIDES.forEach((side, place) => outline(context, placed(side, boxes[place])));
  }
  context.setLineDash([]);
  context.font = "600 15px system-ui, sans-serif";
  for (const match of matches) {
    for (const side of SIDES) {
      const [x, y] = placed(side, state.frames[side].landmarks[match[side]].box);
      const text = side === "a" ? `${match.number}  ${fixed(match.probability)}` : String(match.number);
      const wide = context.measureText(text).width + 8, top = Math.max(y - 22, corner[side][1]);
      context.fillStyle = "#10181ae0";
      context.fillRect(x, top, wide, 20);
      context.fillStyle = "#fff";
      context.fillText(text, x + 4, top + 15);
    }
  }
  context.fillStyle = "#f0f0f0";
  context.fillText(`${matches.length} matches of at least ${fixed(state.least)} by ${state.evidence} (${state.result.checkpoint}); dashed: below ${DOUBTFUL}`, 12, 26);
  save("matches.png", await new Promise((done) => canvas.toBlob(done, "image/png")));
}

const outline = (context, [x0, y0, x1, y1]) => context.strokeRect(x0, y0, x1 - x0, y1 - y0);
