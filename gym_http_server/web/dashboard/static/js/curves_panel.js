/** Curves of one instance: returns and lengths of its episodes, and the time of its steps. */

import { ChartGroup } from "./chart.js";
import { meanBetween } from "./chart_scale.js";
import { h } from "./elements.js";
import { EpisodePoints } from "./episode_points.js";
import { Exports } from "./exports.js";

/** Components of rewards whose returns are drawn, at most. */
const MAX_COMPONENTS = 8;
const EMPTY = "No episode has ended";

/** Draws episodes once each, whether they come from the list or from a watcher. */
export class CurvesPanel {
  #charts = new ChartGroup();
  #returns = [this.#charts.chart({ label: "Return", empty: EMPTY })];
  #lengths = this.#charts.chart({ label: "Length", unit: "steps", empty: EMPTY });
  #times = this.#charts.chart({ label: "Step time", unit: "ms", along: ["time"], empty: "No step has been taken yet" });
  #points = new EpisodePoints();
  #exports = new Exports();
  #id;
  #before = null;
  #began = performance.now();

  /** @param {string} id Of the instance. */
  constructor(id) {
    this.#id = id;
    const drawn = [...this.#returns, this.#lengths, this.#times];
    const compare = h("a", { href: `#/compare/${encodeURIComponent(id)}` }, "Compare with others");
    this.element = h(
      "div",
      { class: "curves" },
      this.#charts.controls,
      h("div", { class: "charts" }, ...drawn.map(({ element }) => element)),
      h("p", {}, compare),
      this.#exports.element,
    );
    this.#offer();
  }

  /** The number of the first episode that is not drawn yet. */
  get next() {
    return this.#points.next;
  }

  /** Draw episodes that ended, in the order of their numbers. */
  addEpisodes(episodes) {
    for (const { total, length, ...at } of this.#points.add(episodes)) {
      const parts = Array.isArray(total) ? total.slice(0, MAX_COMPONENTS) : [total];
      if (parts.length > this.#returns.length) this.#split(parts.length);
      parts.forEach((y, index) => this.#returns[index].add({ ...at, y }));
      this.#lengths.add({ ...at, y: length });
    }
  }

  /** Hide the curve of what only a page that was open before the end has seen. */
  end() {
    this.#times.element.hidden = !this.#before;
  }

  #offer() {
    this.#exports.offer([...this.#returns, this.#lengths], { instances: [this.#id] });
  }

  /** Replace the curve of returns by one for each component of the rewards. */
  #split(count) {
    const labels = Array.from({ length: count }, (_, index) => `Return, component ${index + 1}`);
    const before = this.#returns;
    this.#returns = labels.map((label) => this.#charts.chart({ label }));
    before[0].element.before(...this.#returns.map(({ element }) => element));
    before.forEach(({ element }) => element.remove());
    this.#offer();
  }

  /** Draw the mean time of the steps between two rows of the list of instances. */
  addRow({ step_ms, steps, num_envs }) {
    if (!step_ms) return;
    const now = { mean: step_ms.mean, count: steps / (num_envs ?? 1) };
    const mean = meanBetween(this.#before, now);
    this.#before = now;
    if (mean !== null) this.#times.add({ time: (performance.now() - this.#began) / 1000, y: mean });
  }
}
