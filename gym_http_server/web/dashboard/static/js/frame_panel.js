/** The live frame of an instance: its picture or text, and its last step in words. */

import { ansiRuns } from "./ansi.js";
import { numberText } from "./chart_scale.js";
import { h } from "./elements.js";
import { PictureWords } from "./picture_words.js";
import { partsOf } from "./texts.js";

/** Characters of a value in words. */
const SHOWN = 300;
/** Milliseconds between two looks at how old the picture is. */
const LOOKS = 500;

/** Shows the updates of one instance. */
export class FramePanel {
  #picture = h("img", { class: "frame-picture", alt: "" });
  #text = h("pre", { class: "frame-text" });
  #words = h("p", { class: "frame-words" }, "Waiting for the first update …");
  #why = h("p", { class: "frame-why" });
  #age = new PictureWords();
  #timer = setInterval(() => this.#printAge(), LOOKS);
  // The picture that is being decoded, and the newest one behind it.
  #isLoading = false;
  #next = null;

  constructor() {
    this.#picture.hidden = this.#text.hidden = this.#why.hidden = true;
    for (const kind of ["load", "error"]) this.#picture.addEventListener(kind, () => this.#loaded());
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
    // The first picture moves nothing.
    this.element.classList.toggle("is-blank", update.why === "not-reset" && this.#picture.hidden);
    this.#age.note(update, Boolean(blob), performance.now());
    this.#printAge();
  }

  /** Show words in place of an update, as after the end. */
  say(words) {
    this.#words.textContent = words;
  }

  dispose() {
    clearInterval(this.#timer);
    this.#next = null;
    URL.revokeObjectURL(this.#picture.src);
  }

  #printAge() {
    const words = this.#age.text(performance.now());
    if (words !== this.#why.textContent) this.#why.textContent = words;
    this.#why.hidden = !words;
  }

  #showText(text) {
    this.#text.hidden = false;
    this.#text.replaceChildren(
      ...ansiRuns(text).map((run) => (run.classes ? h("span", { class: run.classes }, run.text) : run.text)),
    );
  }

  #showPicture(blob) {
    this.#next = blob;
    // A picture that is replaced before it is decoded would never be seen.
    if (!this.#isLoading) this.#load();
  }

  #load() {
    this.#isLoading = true;
    this.#picture.hidden = false;
    this.#picture.alt = "Frame of the environment";
    this.#picture.src = URL.createObjectURL(this.#next);
    this.#next = null;
  }

  #loaded() {
    URL.revokeObjectURL(this.#picture.src);
    this.#isLoading = false;
    if (this.#next) this.#load();
  }
}

/** Describe an update in one line. */
export function wordsOf(update) {
  if (update.error) return `Error: ${update.error}`;
  if (update.op === null || update.op === undefined) return update.why ? "" : "Nothing has happened yet.";
  const words = [update.op];
  if (update.envs) words.push(`environment 0 of ${update.envs}`);
  if (update.action !== null && update.action !== undefined) words.push(`action ${short(update.action)}`);
  for (const name of ["reward", "return"]) {
    const value = update[name];
    const parts = partsOf(value).filter(([, part]) => typeof part === "number");
    const named = parts.map(([of, part]) => `${Array.isArray(value) ? "" : of} ${numberText(part)}`.trim());
    if (named.length) words.push(`${name} ${named.join(", ")}`);
  }
  if (typeof update.length === "number") words.push(`length ${update.length}`);
  for (const flag of ["terminated", "truncated"]) {
    const set = partsOf(update[flag]).filter(([, each]) => each);
    if (set.length) words.push([...set.map(([agent]) => agent), flag].join(" ").trim());
  }
  return words.join(" · ");
}

function short(value) {
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text;
}
