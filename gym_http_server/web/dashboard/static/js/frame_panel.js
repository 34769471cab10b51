/** The live frame of an instance: its picture or text, and its last step in words. */

import { ansiRuns } from "./ansi.js";
import { numberText } from "./chart_scale.js";
import { h } from "./elements.js";

const REASONS = {
  "no-render-mode": "It was made without a render mode, so there is no picture.",
  "too-slow": "Drawing takes longer than the clock allows, so there is no picture.",
  "not-reset": "It was not reset yet: reset it by hand, play it, or start an agent.",
  "no-image": "The environment rendered something that is no picture.",
  "external-away": "The external environment has lost its connection.",
  list: "This render mode collects frames, so there is no picture.",
};
const SHOWN = 300;

/** Shows the updates of one instance. */
export class FramePanel {
  #picture = h("img", { class: "frame-picture", alt: "" });
  #text = h("pre", { class: "frame-text" });
  #words = h("p", { class: "frame-words" }, "Waiting for the first update …");
  #why = h("p", { class: "frame-why" });
  #url = null;

  constructor() {
    this.#picture.hidden = this.#text.hidden = this.#why.hidden = true;
    this.element = h("div", { class: "frame" }, this.#picture, this.#text, this.#why, this.#words);
    this.element.setAttribute("tabindex", "-1");
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Live frame");
  }

  /** Show an update of a watcher, and its picture if it has one. */
  show(update, blob) {
    this.#words.textContent = wordsOf(update);
    if (typeof update.ansi === "string") this.#showText(update.ansi);
    if (blob) this.#showPicture(blob);
    const why = update.why && (REASONS[update.why] ?? `No picture: ${update.why}.`);
    this.#why.textContent = why ?? "";
    this.#why.hidden = !why;
  }

  /** Show words in place of an update, as after the end. */
  say(words) {
    this.#words.textContent = words;
  }

  dispose() {
    if (this.#url) URL.revokeObjectURL(this.#url);
    this.#url = null;
  }

  #showText(text) {
    this.#text.hidden = false;
    this.#text.replaceChildren(
      ...ansiRuns(text).map((run) => (run.classes ? h("span", { class: run.classes }, run.text) : run.text)),
    );
  }

  #showPicture(blob) {
    const before = this.#url;
    this.#url = URL.createObjectURL(blob);
    this.#picture.hidden = false;
    this.#picture.alt = "Frame of the environment";
    this.#picture.addEventListener("load", () => before && URL.revokeObjectURL(before), { once: true });
    this.#picture.src = this.#url;
  }
}

/** Describe an update in one line. */
export function wordsOf(update) {
  if (update.error) return `Error: ${update.error}`;
  if (update.op === null || update.op === undefined) return "Nothing has happened yet.";
  const words = [update.op];
  if (update.envs) words.push(`environment 0 of ${update.envs}`);
  if (update.action !== null && update.action !== undefined) words.push(`action ${short(update.action)}`);
  for (const name of ["reward", "return"]) {
    const parts = [update[name]].flat().filter((part) => typeof part === "number");
    if (parts.length) words.push(`${name} ${parts.map(numberText).join(", ")}`);
  }
  if (typeof update.length === "number") words.push(`length ${update.length}`);
  if (update.terminated) words.push("terminated");
  if (update.truncated) words.push("truncated");
  return words.join(" · ");
}

function short(value) {
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text;
}
