// One frame: its image, its boxes, and everything that changes them.

import { ask, form } from "./api.js";
import { complain, draw, find, fixed, make, plural, say } from "./dom.js";
import { SIDES, DOUBTFUL, announce, change, color, isLikely, listen, nothingFound, shownMatches, state, title } from "./state.js";

const views = {};
const SMALLEST = 4; // pixels
const CORNERS = ["nw", "ne", "sw", "se"];

export const imageOf = (side) => views[side].image;
export const pictureRect = (side) => views[side].picture.getBoundingClientRect();

// A press on a line over a frame is meant for the frame below.
export function pressBelow(event) {
  const below = document.elementsFromPoint(event.clientX, event.clientY).find((element) => element.closest(".picture svg"));
  for (const side of SIDES) if (below && views[side].svg.contains(below)) views[side].press(event, below);
}

export function makeFrames() {
  for (const side of SIDES) views[side] = new FrameView(side);
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file) return;
    const inB = document.activeElement?.closest?.(".frame") === views.b.root;
    openImage(inB ? "b" : "a", file, file.name);
  });
}

// Show an image; boxes come from a box file, the detector, or are drawn later.
export async function openImage(side, blob, name, landmarks = null, camera = null) {
  const url = URL.createObjectURL(blob);
  const probe = new Image();
  probe.src = url;
  try {
    await probe.decode();
  } catch {
    URL.revokeObjectURL(url);
    complain(new Error(`'${name}' is no image that can be shown: use PNG, JPEG, WebP or BMP`));
    return;
  }
  const limits = state.server.limits;
  const pixels = probe.naturalWidth * probe.naturalHeight;
  if (blob.size > limits.image_bytes || pixels > limits.pixels) {
    URL.revokeObjectURL(url);
    complain(new Error(`'${name}' has ${(blob.size / 1e6).toFixed(1)} MB and ${(pixels / 1e6).toFixed(1)} megapixels; allowed are ${limits.image_bytes / 1e6} MB and ${limits.pixels / 1e6} megapixels: reduce it`));
    return;
  }
  if (state.frames[side]) URL.revokeObjectURL(state.frames[side].url);
  state.frames[side] = { blob, name, url, width: probe.naturalWidth, height: probe.naturalHeight, landmarks: landmarks ?? [], picture: null, camera, searching: !landmarks && Boolean(state.server.detector) };
  change({ result: null, chosen: null, hot: null, pair: null });
  announce("image");
  if (landmarks) announce("landmarks");
  else if (state.server.detector) await detect(side);
  else say(`Frame ${side.toUpperCase()} has no boxes yet: draw them, or open a box file`);
}

async function detect(side) {
  const frame = state.frames[side];
  if (!frame) return;
  frame.searching = true;
  say("Looking for landmarks");
  try {
    const before = frame.landmarks, count = before.length;
    const found = await ask("detect", { body: form({ image: named(frame) }) });
    frame.searching = false;
    // Boxes that were opened or drawn meanwhile are what the user wants.
    if (state.frames[side] !== frame || frame.landmarks !== before || before.length !== count) return;
    setLandmarks(side, found.landmarks);
    const likely = found.landmarks.filter(isLikely).length, doubtful = found.landmarks.length - likely;
    say(nothingFound() || `${plural(likely, "landmark")} found in frame ${side.toUpperCase()}${doubtful ? ` and ${plural(doubtful, "doubtful one")}` : ""}`);
  } catch (problem) {
    complain(problem);
  } finally {
    frame.searching = false;
  }
}

async function openBoxes(side, file) {
  const frame = state.frames[side];
  if (!frame) return complain(new Error("open the image before its boxes"));
  try {
    const boxes = form({ boxes: file, name: frame.name, width: frame.width, height: frame.height });
    setLandmarks(side, (await ask("boxes", { body: boxes })).landmarks);
  } catch (problem) {
    complain(problem);
  }
}

function setLandmarks(side, landmarks) {
  state.frames[side].landmarks = landmarks;
  change({ result: null, chosen: null, hot: null, pair: null });
  announce("landmarks");
}

export const named = (frame) => new File([frame.blob], frame.name, { type: frame.blob.type });

class FrameView {
  constructor(side) {
    this.side = side;
    this.letter = side.toUpperCase();
    this.root = find("frame-template").content.firstElementChild.cloneNode(true);
    const part = (name) => this.root.querySelector(name);
    this.image = part("img");
    this.svg = part("svg");
    this.picture = part(".picture");
    this.editor = part(".editor");
    this.category = part(".category");
    part(".side").textContent = `Frame ${this.letter}`;
    this.svg.setAttribute("aria-label", `Landmarks of frame ${this.letter}`);
    for (const [name, label] of [[".open", "Open image"], [".boxes", "Box file"], [".add", "Add box"], [".detect", "Detect"]]) part(name).setAttribute("aria-label", `${label}, frame ${this.letter}`);
    part(".open").addEventListener("change", (event) => this.take(event.target, (file) => openImage(side, file, file.name)));
    part(".boxes").addEventListener("change", (event) => this.take(event.target, (file) => openBoxes(side, file)));
    part(".detect").addEventListener("click", () => detect(side));
    part(".add").addEventListener("click", () => this.add());
    part(".delete").addEventListener("click", () => this.remove());
    part(".done").addEventListener("click", () => change({ chosen: null }));
    this.category.addEventListener("change", () => this.edit((mark) => { mark.category = this.category.value; }));
    this.picture.classList.add("empty");
    this.drops();
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("keydown", (event) => this.type(event));
    find("frames").append(this.root);
    listen(["image"], () => this.showImage());
    listen(["server"], () => this.showServer());
    listen(["image", "landmarks", "result", "least", "evidence", "chosen", "size"], () => this.showBoxes());
    listen(["hot"], () => this.showHot());
    listen(["result"], () => this.showPicture());
    new ResizeObserver(() => announce("size")).observe(this.picture);
  }

  take(input, act) {
    const file = input.files[0];
    input.value = "";
    if (file) act(file);
  }

  drops() {
    for (const kind of ["dragenter", "dragover"]) this.picture.addEventListener(kind, (event) => { event.preventDefault(); this.picture.classList.add("over"); });
    for (const kind of ["dragleave", "drop"]) this.picture.addEventListener(kind, () => this.picture.classList.remove("over"));
    this.picture.addEventListener("drop", (event) => {
      event.preventDefault();
      for (const file of event.dataTransfer.files) {
        if (file.name.endsWith(".json")) openBoxes(this.side, file);
        else openImage(this.side, file, file.name);
      }
    });
  }

  get frame() { return state.frames[this.side]; }

  showServer() {
    this.root.querySelector(".detect").hidden = !state.server.detector;
    this.category.replaceChildren(...state.server.categories.map((name) => make("option", { value: name }, title(name))));
  }

  showImage() {
    const { frame } = this;
    if (!frame || this.shown === frame) return;
    this.shown = frame;
    this.image.src = frame.url;
    this.image.alt = `Frame ${this.letter}: ${frame.name}`;
    this.picture.classList.remove("empty");
    this.root.querySelector(".name").textContent = frame.name;
    this.svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  }

  // The frame in its weather, or the frame itself.
  showPicture() {
    const wanted = state.result?.pictures?.[this.side] ?? this.frame?.url;
    if (wanted && state.result && this.image.src !== wanted) {
      this.image.src = wanted;
      this.image.decode().then(() => announce("picture"), () => {});
    }
  }

  showBoxes() {
    const { frame } = this;
    if (!frame) return;
    const focused = this.svg.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    const unit = frame.width / (this.picture.clientWidth || frame.width);
    const partners = new Map(shownMatches().map((match) => [match[this.side], match]));
    this.svg.replaceChildren(...frame.landmarks.map((mark, index) => this.boxOf(mark, index, partners.get(index), unit)));
    const { chosen } = state;
    const mine = chosen?.side === this.side ? frame.landmarks[chosen.index] : null;
    this.editor.hidden = !mine;
    if (mine) {
      this.category.value = mine.category;
      this.root.querySelector(".which").textContent = `Box ${this.letter}${chosen.index}`;
    }
    if (focused !== null) this.svg.querySelector(`[data-index="${focused}"]`)?.focus({ preventScroll: true });
    this.showHot();
  }

  boxOf(mark, index, match, unit) {
    const [x, y, x1, y1] = mark.box;
    const shape = { x, y, width: x1 - x, height: y1 - y };
    const told = match ? `match ${match.number}, probability ${fixed(match.probability)}` : isLikely(mark) ? "not matched" : "doubtful detection, not matched";
    const isChosen = state.chosen?.side === this.side && state.chosen.index === index;
    const group = draw("g", { tabindex: 0, role: "button", "aria-label": `${this.letter}${index}, ${title(mark.category)}, ${told}`, "data-index": index, "data-key": match?.key, "aria-pressed": isChosen ? "true" : "false" });
    group.classList.toggle("matched", Boolean(match));
    group.classList.toggle("doubtful", Boolean(match) && match.probability < DOUBTFUL);
    group.classList.toggle("chosen", isChosen);
    group.classList.toggle("unsure", !match && !isLikely(mark));
    const box = draw("rect", { ...shape, class: "box", rx: 1.5 * unit });
    if (match && !isChosen) box.style.stroke = color(match.probability);
    group.append(draw("rect", { ...shape, class: "shade" }), box);
    if (match) group.append(this.tag(match, mark.box, unit));
    if (isChosen) {
      for (const corner of CORNERS) {
        const cx = corner[1] === "w" ? x : x1, cy = corner[0] === "n" ? y : y1;
        group.append(draw("rect", { class: `handle ${corner}`, "data-corner": corner, x: cx - 5 * unit, y: cy - 5 * unit, width: 10 * unit, height: 10 * unit }));
      }
    }
    const warm = () => match && change({ hot: match.key });
    const cool = () => state.hot === match?.key && change({ hot: null });
    for (const kind of ["pointerenter", "focus"]) group.addEventListener(kind, warm);
    for (const kind of ["pointerleave", "blur"]) group.addEventListener(kind, cool);
    return group;
  }

  tag(match, [x0, y0, x1], unit) {
    const text = String(match.number), wide = (9 + 7 * text.length) * unit, high = 17 * unit;
    const left = Math.min(Math.max((x0 + x1 - wide) / 2, 0), this.frame.width - wide);
    const top = Math.max(y0 - high - 2 * unit, 0);
    const label = draw("text", { x: left + wide / 2, y: top + high / 2 }, text);
    label.style.fontSize = `${12 * unit}px`;
    const plate = draw("rect", { x: left, y: top, width: wide, height: high, rx: 4 * unit });
    return draw("g", { class: "tag", "aria-hidden": "true" }, plate, label);
  }

  showHot() {
    this.svg.classList.toggle("dimmed", state.hot !== null);
    for (const group of this.svg.children) {
      group.classList.toggle("hot", state.hot !== null && group.dataset.key === state.hot);
      group.classList.toggle("cool", group.dataset.key !== state.hot);
    }
  }

  // ---- editing

  point(event) {
    const { left, top, width, height } = this.picture.getBoundingClientRect();
    const { frame } = this;
    const clip = (value, most) => Math.min(Math.max(value, 0), most);
    return [clip(((event.clientX - left) / width) * frame.width, frame.width), clip(((event.clientY - top) / height) * frame.height, frame.height)];
  }

  press(event, target = event.target) {
    if (!this.frame || event.button !== 0) return;
    const group = target.closest("g[data-index]");
    if (!group && event.pointerType === "touch") return change({ chosen: null }); // a finger on the picture scrolls
    const start = this.point(event);
    let mark, index, how;
    if (group) {
      index = Number(group.dataset.index);
      mark = this.frame.landmarks[index];
      how = target.dataset.corner ?? "move";
      group.focus({ preventScroll: true });
      change({ chosen: { side: this.side, index } });
    } else {
      event.preventDefault();
      index = this.frame.landmarks.length;
      mark = { box: [...start, ...start], category: this.category.value || state.server.categories[0] };
      how = "se";
    }
    const before = [...mark.box];
    let moved = false;
    const drag = (next) => {
      const [x, y] = this.point(next);
      if (!moved && Math.hypot(x - start[0], y - start[1]) < 3) return;
      if (!moved && !group) this.frame.landmarks.push(mark);
      moved = true;
      mark.box = reshape(before, how, x - start[0], y - start[1], this.frame);
      if (!group && state.result) change({ result: null });
      this.showBoxes();
    };
    const stop = () => {
      window.removeEventListener("pointermove", drag);
      window.removeEventListener("pointerup", stop);
      window.removeEventListener("pointercancel", stop);
      if (!moved) {
        if (!group) change({ chosen: null });
        return;
      }
      mark.box = ordered(mark.box, this.frame);
      delete mark.confidence;
      change({ chosen: { side: this.side, index } });
      announce("landmarks");
    };
    window.addEventListener("pointermove", drag);
    window.addEventListener("pointerup", stop);
    window.addEventListener("pointercancel", stop);
  }

  type(event) {
    const index = event.target.closest("g[data-index]")?.dataset.index;
    if (index === undefined) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in arrows) {
      const [dx, dy] = arrows[event.key].map((step) => step * (event.altKey ? 10 : 2));
      state.chosen = { side: this.side, index: Number(index) };
      this.edit((mark) => { mark.box = ordered(reshape(mark.box, event.shiftKey ? "se" : "move", dx, dy, this.frame), this.frame); });
    } else if (event.key === "Delete" || event.key === "Backspace") {
      state.chosen = { side: this.side, index: Number(index) };
      this.remove();
    } else if (event.key === "Enter" || event.key === " ") {
      change({ chosen: { side: this.side, index: Number(index) } });
    } else if (event.key === "Escape") {
      change({ chosen: null });
    } else return;
    event.preventDefault();
  }

  edit(act) {
    act(this.frame.landmarks[state.chosen.index]);
    announce("chosen", "landmarks");
  }

  add() {
    if (!this.frame) return complain(new Error("open an image first"));
    const { width, height, landmarks } = this.frame;
    const side = Math.round(Math.min(width, height) / 8);
    landmarks.push({ box: [(width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2], category: this.category.value });
    change({ result: null, chosen: { side: this.side, index: landmarks.length - 1 } });
    announce("landmarks");
    this.svg.lastElementChild.focus({ preventScroll: true });
  }

  remove() {
    const { index } = state.chosen;
    this.frame.landmarks.splice(index, 1);
    change({ result: null, chosen: null, hot: null, pair: null });
    announce("landmarks");
    (this.svg.children[Math.min(index, this.svg.children.length - 1)] ?? this.root.querySelector(".add")).focus({ preventScroll: true });
  }
}

function reshape([x0, y0, x1, y1], how, dx, dy, { width, height }) {
  if (how === "move") {
    const x = Math.min(Math.max(dx, -x0), width - x1), y = Math.min(Math.max(dy, -y0), height - y1);
    return [x0 + x, y0 + y, x1 + x, y1 + y];
  }
  if (how.includes("w")) x0 += dx; else x1 += dx;
  if (how.includes("n")) y0 += dy; else y1 += dy;
  return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
}

function ordered([x0, y0, x1, y1], { width, height }) {
  const tidy = (low, high, most) => {
    const start = Math.max(0, Math.min(low, high, most - SMALLEST)), end = Math.min(most, Math.max(low, high, start + SMALLEST));
    return [Math.round(start * 10) / 10, Math.round(end * 10) / 10];
  };
  const [left, right] = tidy(x0, x1, width), [top, bottom] = tidy(y0, y1, height);
  return [left, top, right, bottom];
}
