/** Curves of one instance: returns and lengths of its episodes, and the time of its steps. */

import { curve } from "./curve.js";
import { h } from "./elements.js";

/** Draws episodes once each, whether they come from the list or from a watcher. */
export class CurvesPanel {
  #returns = curve({ label: "Return", unit: "" });
  #lengths = curve({ label: "Length", unit: "steps" });
  #times = curve({ label: "Step time", unit: "ms", along: "second" });
  #next = 0;
  #began = performance.now();

  constructor() {
    const drawn = [this.#returns, this.#lengths, this.#times];
    this.element = h("div", { class: "curves" }, ...drawn.map(({ element }) => element));
  }

  /** The number of the first episode that is not drawn yet. */
  get next() {
    return this.#next;
  }

  /** Draw episodes that ended, in the order of their numbers. */
  addEpisodes(episodes) {
    for (const { number, return: total, length } of episodes) {
      if (number < this.#next) continue;
      this.#next = number + 1;
      this.#returns.add(number, total);
      this.#lengths.add(number, length);
    }
  }

  /** Draw the step time of a row of the list of instances. */
  addRow({ step_ms }) {
    if (step_ms) this.#times.add((performance.now() - this.#began) / 1000, step_ms.mean);
  }
}
