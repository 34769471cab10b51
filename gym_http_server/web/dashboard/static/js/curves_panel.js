/** Curves of one instance: returns and lengths of its episodes, and the time of its steps. */

import { meanBetween } from "./chart_scale.js";
import { curve } from "./curve.js";
import { h } from "./elements.js";

/** Components of rewards whose returns are drawn, at most. */
const MAX_COMPONENTS = 8;

/** Draws episodes once each, whether they come from the list or from a watcher. */
export class CurvesPanel {
  #returns = [curve({ label: "Return", unit: "" })];
  #lengths = curve({ label: "Length", unit: "steps" });
  #times = curve({ label: "Step time", unit: "ms", along: "second" });
  #next = 0;
  #before = null;
  #began = performance.now();

  constructor() {
    const drawn = [...this.#returns, this.#lengths, this.#times];
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
      const parts = Array.isArray(total) ? total.slice(0, MAX_COMPONENTS) : [total];
      if (parts.length > this.#returns.length) this.#split(parts.length);
      parts.forEach((part, index) => this.#returns[index].add(number, part));
      this.#lengths.add(number, length);
    }
  }

  /** Replace the curve of returns by one for each component of the rewards. */
  #split(count) {
    const labels = Array.from({ length: count }, (_, index) => `Return, component ${index + 1}`);
    const before = this.#returns;
    this.#returns = labels.map((label) => curve({ label, unit: "" }));
    before[0].element.before(...this.#returns.map(({ element }) => element));
    before.forEach(({ element }) => element.remove());
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
