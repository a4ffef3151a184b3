// The page: tabs, and who is started when.

import { ask, useToken } from "./api.js";
import { calm, complain, find, make, say } from "./dom.js";
import { makeControls, openSample } from "./controls.js";
import { makeFrames } from "./frame.js";
import { makeLines } from "./lines.js";
import { makeMatching } from "./matching.js";
import { makeResults } from "./results.js";
import { announce, change, listen, state } from "./state.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const started = {}; // views that have been opened, so that their modules are loaded once and only when needed

async function open(name) {
  for (const tab of tabs) {
    const here = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", here);
    tab.tabIndex = here ? 0 : -1;
    find(tab.getAttribute("aria-controls")).hidden = !here;
  }
  if (name === "match") return announce("size");
  const first = !started[name];
  started[name] ??= (name === "api" ? showApi() : import(`./${name}.js`));
  const view = await started[name];
  if (name === "why") {
    if (first) view.makeWhy();
    await view.show();
  } else if (name === "where" && first) await view.makeWhere();
}

for (const tab of tabs) {
  tab.addEventListener("click", () => open(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = tabs.filter((one) => !one.hidden);
    const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
    next.focus();
    open(next.id.slice(4));
  });
}

async function openWhy(match) {
  change({ pair: { a: match.a, b: match.b }, hot: null });
  await open("why");
  find("tab-why").focus();
}

async function showApi() {
  find("curl").textContent = [`curl ${location.origin}/api/match \\`, "  -F a=@a.jpg -F boxes_a=@a.json \\", "  -F b=@b.jpg -F boxes_b=@b.json \\", "  -F min_probability=0.5"].join("\n");
  const told = await ask("../openapi.json");
  const rows = Object.entries(told.paths ?? {}).flatMap(([path, methods]) => Object.entries(methods).map(([method, about]) =>
    make("tr", {}, make("td", {}, method.toUpperCase()), make("td", {}, make("code", {}, path)), make("td", {}, about.summary))));
  find("paths").tBodies[0].replaceChildren(...rows);
}

for (const name of ["Json", "Csv", "Picture"]) {
  find(`save-${name.toLowerCase()}`).addEventListener("click", async () => (await import("./download.js"))[`save${name}`]());
}
listen(["result"], () => { for (const name of ["json", "csv", "picture"]) find(`save-${name}`).disabled = !state.result; });
find("alert-close").addEventListener("click", calm);
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(find("token").value);
  find("token-form").hidden = true;
  calm();
  start();
});

async function start() {
  try {
    change({ server: await ask("models") });
    find("tab-where").hidden = !state.server.map;
    await openSample(state.server.samples[0]);
  } catch (problem) {
    say("Not started");
    complain(problem);
  }
}

makeFrames();
makeControls();
makeLines();
makeResults(openWhy);
makeMatching();
announce("result");
start();
