/** What remains of an instance that has ended: why that was, its recordings, and its exports. */

import { h } from "./elements.js";
import { endSentence } from "./states.js";

/** Shows why an instance has ended, and links to its recordings. */
export class EndedPanel {
  #why = h("p", { class: "why" });
  #log = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Where it crashed" });
  #recordings = h("ul", { hidden: "" });

  constructor() {
    this.element = h("div", {}, this.#why, this.#log, this.#recordings);
  }

  /** @param {object} row Of the list of instances. */
  show(row) {
    this.#why.textContent = endSentence(row);
    this.#log.textContent = row.log_tail ?? "";
    this.#log.hidden = !row.log_tail;
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
