// The matches as patches and as a table, and what each kind of evidence brings.

import { find, fixed, make, patch, plural } from "./dom.js";
import { imageOf } from "./frame.js";
import { SIDES, allMatches, change, color, key, leftAlone, listen, nothingFound, shownMatches, state, title } from "./state.js";

export function makeResults(openWhy) {
  listen(["result", "least", "evidence"], () => { showPatches(openWhy); showTable(openWhy); showSummary(); });
  listen(["picture"], () => showPatches(openWhy));
  listen(["hot"], showHot);
}

// An element that lights its match up while the pointer or the focus is on it.
function warmed(element, match) {
  element.dataset.key = match.key;
  for (const kind of ["pointerenter", "focusin"]) element.addEventListener(kind, () => state.hot !== match.key && change({ hot: match.key }));
  for (const kind of ["pointerleave", "focusout"]) element.addEventListener(kind, () => state.hot === match.key && change({ hot: null }));
  return element;
}

const categoryOf = (match) => title(state.frames.a.landmarks[match.a]?.category ?? "");

function showPatches(openWhy) {
  const { a, b } = state.frames;
  const items = shownMatches().filter((match) => a?.landmarks[match.a] && b?.landmarks[match.b]).map((match) => {
    const cut = (side) => {
      const canvas = patch(imageOf(side), state.frames[side].landmarks[match[side]].box, 96, `Patch of ${side.toUpperCase()}${match[side]}`);
      canvas.setAttribute("aria-hidden", "true");
      return canvas;
    };
    const label = make("span", { class: "label" }, make("b", {}, String(match.number)), " ", make("span", {}, categoryOf(match)), " ", make("span", {}, fixed(match.probability)), make("span", { class: "unseen" }, ", show why"));
    const button = make("button", { type: "button", onclick: () => openWhy(match) }, cut("a"), cut("b"), label);
    return make("li", {}, warmed(button, match));
  });
  find("patches").replaceChildren(...items);
  find("patches-heading").hidden = find("patches").hidden = items.length === 0;
}

function showTable(openWhy) {
  const kinds = Object.keys(state.result?.by_evidence ?? {});
  const found = new Map(kinds.map((kind) => [kind, new Set(state.result.by_evidence[kind].filter((match) => match.probability >= state.least).map(key))]));
  const rows = shownMatches().map((match) => {
    const bar = make("i");
    bar.style.width = `${100 * match.probability}%`;
    bar.style.background = color(match.probability);
    const chips = kinds.map((kind) => {
      const has = found.get(kind).has(match.key);
      return make("span", { class: has ? "chip" : "chip no" }, `${has ? "✓" : "–"} ${kind}`);
    });
    const why = make("button", { type: "button", "aria-label": `Why match ${match.number}`, onclick: () => openWhy(match) }, "Why");
    return warmed(make("tr", {}, make("th", { scope: "row" }, String(match.number)), make("td", {}, categoryOf(match)), make("td", {}, `A${match.a}`), make("td", {}, `B${match.b}`),
      make("td", {}, make("span", { class: "meter", "aria-hidden": "true" }, bar), fixed(match.probability)), make("td", { class: "by" }, ...chips), make("td", {}, why)), match);
  });
  const body = find("table").tBodies[0];
  if (rows.length) return body.replaceChildren(...rows);
  const words = state.result ? "No match is that probable: lower the least probability, or add boxes." : nothingFound() || "Nothing matched yet.";
  return body.replaceChildren(make("tr", {}, make("td", { colspan: 7 }, words)));
}

function showSummary() {
  const shown = shownMatches().length, all = allMatches().length;
  find("summary").textContent = state.result ? `${shown} of ${plural(all, "match", "matches")} shown. ${leftAlone("a").length} + ${leftAlone("b").length} landmarks unmatched.` : "";
  for (const [name, likely] of [["likely", true], ["doubtful", false]]) find(`legend-${name}`).hidden = !state.result || !SIDES.some((side) => leftAlone(side, likely).length);
  const told = state.result?.by_evidence;
  const words = find("brings");
  words.textContent = "";
  for (const count of document.querySelectorAll("[data-count]")) count.textContent = "";
  if (!told) return;
  const names = Object.keys(told);
  const keys = (kind) => new Set(told[kind].filter((match) => match.probability >= state.least).map(key));
  for (const kind of names) {
    const count = document.querySelector(`[data-count="${CSS.escape(kind)}"]`);
    if (count) count.textContent = `${keys(kind).size}`;
  }
  const place = names.indexOf(state.evidence);
  if (place < 1) return;
  const now = keys(state.evidence), before = keys(names[place - 1]);
  const gained = [...now].filter((one) => !before.has(one)).length, lost = [...before].filter((one) => !now.has(one)).length;
  words.textContent = difference(gained, lost, names[place - 1]);
}

function difference(gained, lost, other) {
  if (!gained && !lost) return `The same matches as by ${other} alone.`;
  const more = gained ? `${plural(gained, "match", "matches")} more` : "";
  const fewer = lost ? `${gained ? lost : plural(lost, "match", "matches")} fewer` : "";
  return `${[more, fewer].filter(Boolean).join(" and ")} than by ${other} alone.`;
}

function showHot() {
  for (const element of document.querySelectorAll("#patches [data-key], #table [data-key]")) element.classList.toggle("hot", element.dataset.key === state.hot);
}
