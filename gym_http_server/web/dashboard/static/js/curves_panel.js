/** Curves of one instance: returns and lengths of its episodes, and the time of its steps. */

import { meanBetween } from "./chart_scale.js";
import { curve } from "./curve.js";
import { h } from "./elements.js";

/** Draws episodes once each, whether they come from the list or from a watcher. */
export class CurvesPanel {
  #returns = curve({ label: "Return", unit: "" });
  #lengths = curve({ label: "Length", unit: "steps" });
  #times = curve({ label: "Step time", unit: "ms", along: "second" });
  #next = 0;
  #before = null;
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

  /** Draw the mean time of the steps between two rows of the list of instances. */
  addRow({ step_ms, steps, num_envs }) {
    if (!step_ms) return;
    const now = { mean: step_ms.mean, count: steps / (num_envs ?? 1) };
    const mean = meanBetween(this.#before, now);
    this.#before = now;
    if (mean !== null) this.#times.add((performance.now() - this.#began) / 1000, mean);
  }
}
