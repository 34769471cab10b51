/** What remains of an instance that has ended: why that was, its recordings, and its exports. */

import { h } from "./elements.js";
import { endSentence } from "./states.js";

/** Shows why an instance has ended, where it crashed, and links to its recordings. */
export class EndedPanel {
  #why = h("p", { class: "why" });
  #place = h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Where it crashed, and its last output", hidden: "" });
  #recordings = h("ul", { hidden: "" });

  constructor() {
    this.element = h("div", {}, this.#why, this.#place, this.#recordings);
  }

  /** @param {object} row Of the list of instances. */
  show(row) {
    this.#why.textContent = endSentence(row);
    // After a crash it begins with the frames, the failing one first.
    this.#place.textContent = row.log_tail ?? "";
    this.#place.hidden = !row.log_tail;
  }

  /**
   * Find the recordings of an instance.
   *
   * @param {(method: string, path: string) => Promise<object>} call
   * @param {string} id
   */
  async find(call, id) {
    const { recordings } = await call("GET", "/v1/recordings/");
    const own = recordings.filter(({ instance_id }) => instance_id === id);
    this.#recordings.hidden = !own.length;
    this.#recordings.replaceChildren(
      ...own.map(({ directory }) => h("li", {}, h("a", { href: "#/recordings" }, `Recording ${directory}`))),
    );
  }
}
