/** What to say of an instance's picture: why there is none, or how old it is. No DOM. */

import { roughly } from "./texts.js";

/** Milliseconds after which a picture is old. */
const OLD = 1000;
const REASONS = {
  "no-render-mode": "No picture: the instance was made without a render mode.",
  "too-slow": "No picture: drawing takes longer than the clock allows.",
  "not-reset": "Nothing to see yet: reset it by hand, play it, or start an agent.",
  "no-image": "The environment rendered something that is no picture.",
  "external-away": "The external environment has lost its connection.",
  list: "No picture: this render mode collects frames.",
};

/** Follows the updates of one watcher. */
export class PictureWords {
  #words = "";
  // When the picture that is shown was new, and whether it is of an earlier state now.
  #at = null;
  #isBehind = false;

  /**
   * Note an update.
   *
   * @param {object} update
   * @param {boolean} hasPicture Whether a picture belongs to it.
   * @param {number} now Milliseconds.
   */
  note(update, hasPicture, now) {
    if (hasPicture) this.#at = now;
    this.#isBehind = !hasPicture && this.#at !== null;
    this.#words = wordsOf(update, this.#at !== null);
  }

  /** The words now; "" if the picture is as new as can be seen. */
  text(now) {
    const age = now - this.#at;
    const old = this.#isBehind && age > OLD ? `Picture of ${roughly(age / 1000)} ago.` : "";
    return [this.#words, old].filter(Boolean).join(" ");
  }
}

function wordsOf({ why, render_error: error, next_picture_s: next }, hadPicture) {
  if (!why) return "";
  // The next picture is due later, so that drawing does not slow down an agent.
  if (why === "too-slow" && (hadPicture || typeof next === "number")) return "";
  if (why === "render-failed") return `Rendering failed${error ? `: ${error}` : ""}.`;
  return REASONS[why] ?? `There is no newer picture: ${why}.`;
}
