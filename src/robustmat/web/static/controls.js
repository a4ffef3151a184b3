// Sliders, switches and samples.

import { complain, find, fixed, make } from "./dom.js";
import { openImage } from "./frame.js";
import { SIDES, announce, change, decibels, listen, state, title } from "./state.js";

export function makeControls() {
  listen(["server"], showServer);
  listen(["model"], showEvidence);
  listen(["image"], showSample);
  find("least").addEventListener("input", (event) => {
    find("least-value").textContent = fixed(Number(event.target.value));
    change({ least: Number(event.target.value) });
  });
  find("weather").addEventListener("change", (event) => {
    find("strength").disabled = !event.target.value;
    change({ weather: event.target.value });
    announce("weather-changed");
  });
  for (const [id, show] of [["strength", String], ["noise", (step) => (step ? `${decibels(step)} dB` : "off")]]) {
    find(id).addEventListener("input", (event) => {
      const value = Number(event.target.value);
      find(`${id}-value`).textContent = show(value);
      change({ [id]: value });
      announce("weather-changed");
    });
  }
  find("side").addEventListener("change", (event) => { change({ side: event.target.value }); announce("weather-changed"); });
  find("model").addEventListener("change", (event) => { change({ model: event.target.value, result: null }); announce("weather-changed"); });
  find("layout").addEventListener("click", (event) => {
    const stacked = event.target.getAttribute("aria-pressed") !== "true";
    event.target.setAttribute("aria-pressed", stacked);
    find("stage").classList.toggle("stacked", stacked);
    announce("size");
  });
}

function showServer() {
  const { models, perturbations, samples } = state.server;
  find("model").replaceChildren(...models.map((model) => make("option", { value: model.name }, model.name)));
  find("model-field").hidden = models.length < 2;
  const weather = perturbations.filter((one) => one.unit === "severity");
  find("weather").append(...weather.map((one) => make("option", { value: one.name }, title(one.name))));
  find("samples").replaceChildren(...samples.map((sample) => make("button", { type: "button", "data-sample": sample.name, "aria-pressed": "false", onclick: () => openSample(sample) }, sample.title)));
  change({ model: models.find((model) => model.default).name });
}

function showEvidence() {
  const kinds = state.server.models.find((model) => model.name === state.model).evidence;
  const last = kinds.at(-1).name;
  find("evidence").replaceChildren(...kinds.map((kind) => make("label", { class: "kind" },
    make("input", { type: "radio", name: "evidence", value: kind.name, checked: kind.name === last, onchange: () => change({ evidence: kind.name }) }),
    make("span", {}, kind.name), make("output", { "data-count": kind.name, "aria-label": `matches by ${kind.name}` }), make("small", {}, kind.about))));
  find("evidence-card").hidden = kinds.length < 2;
  change({ evidence: last });
}

// A sample's button is pressed as long as both of its frames are there.
function showSample() {
  for (const button of find("samples").children) {
    button.setAttribute("aria-pressed", SIDES.every((side) => state.frames[side]?.name === `${button.dataset.sample}-${side}.jpg`));
  }
}

export async function openSample(sample) {
  try {
    const loaded = await Promise.all(SIDES.map(async (side) => {
      const [image, boxes] = await Promise.all(["jpg", "json"].map((kind) => fetch(`samples/${sample.name}-${side}.${kind}`)));
      return [await image.blob(), await boxes.json()];
    }));
    for (const [place, side] of SIDES.entries()) {
      const [blob, boxes] = loaded[place];
      await openImage(side, blob, `${sample.name}-${side}.jpg`, boxes.landmarks, sample.camera);
    }
    announce("sample");
  } catch (problem) {
    complain(problem);
  }
}
