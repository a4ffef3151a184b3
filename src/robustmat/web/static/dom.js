// Small helpers to make elements; texts are texts, never HTML.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export function say(text) {
  find("status-text").textContent = text;
}

export function working(busy) {
  find("progress").hidden = !busy;
  for (const picture of document.querySelectorAll(".picture")) picture.classList.toggle("busy", busy);
}

export function complain(problem) {
  find("alert-text").textContent = problem.message ?? String(problem);
  find("alert").hidden = false;
  if (problem.status === 401) find("token-form").hidden = false;
}

export function calm() {
  find("alert").hidden = true;
}

export const fixed = (number) => number.toFixed(2);
export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

// What rounds to zero has no sign.
export function signed(number) {
  const digits = Math.abs(number).toFixed(1);
  return digits === "0.0" ? digits : (number < 0 ? "−" : "+") + digits;
}

// The patch around a box, squared, on a canvas.
export function patch(image, box, size, label) {
  const canvas = make("canvas", { width: size, height: size, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  const [x0, y0, x1, y1] = box;
  const side = Math.max(x1 - x0, y1 - y0) + 16;
  const left = (x0 + x1 - side) / 2, top = (y0 + y1 - side) / 2;
  context.fillStyle = "#5f6360";
  context.fillRect(0, 0, size, size);
  context.drawImage(image, left, top, side, side, 0, 0, size, size);
  const scale = size / side;
  context.strokeStyle = "#ffffffb0";
  context.strokeRect((x0 - left) * scale, (y0 - top) * scale, (x1 - x0) * scale, (y1 - y0) * scale);
  return canvas;
}
