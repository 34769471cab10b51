/** Curves of one instance: returns and lengths of its episodes, and the time of its steps. */

import { ChartGroup } from "./chart.js";
import { meanBetween } from "./chart_scale.js";
import { h } from "./elements.js";
import { EpisodePoints } from "./episode_points.js";
import { Exports } from "./exports.js";
import { partsOf } from "./texts.js";

/** Components of rewards, or agents, whose returns are drawn, at most. */
const MOST = 8;
const EMPTY = "No episode has ended";

/** Draws episodes once each, whether they come from the list or from a watcher. */
export class CurvesPanel {
  #charts = new ChartGroup();
  #returns = new Map([["", this.#charts.chart({ label: "Return", empty: EMPTY })]]);
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
    const drawn = [...this.#returns.values(), this.#lengths, this.#times];
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
      for (const [name, y] of partsOf(total)) {
        const label = Array.isArray(total) ? `Return, component ${+name + 1}` : `Return of ${name}`;
        this.#chartOf(name, label)?.add({ ...at, y });
      }
      this.#lengths.add({ ...at, y: length });
    }
  }

  /** Hide the curve of what only a page that was open before the end has seen. */
  end() {
    this.#times.element.hidden = !this.#before;
  }

  #offer() {
    this.#exports.offer([...this.#returns.values(), this.#lengths], { instances: [this.#id] });
  }

  /** Return the curve of a component or an agent, which may be new; null beyond the most. */
  #chartOf(name, label) {
    const charts = this.#returns;
    if (charts.has(name)) return charts.get(name);
    const whole = charts.get("");
    if (charts.size === MOST && !whole) return null;
    const made = this.#charts.chart({ label });
    this.#lengths.element.before(made.element);
    whole?.element.remove();
    charts.delete("");
    charts.set(name, made);
    this.#offer();
    return made;
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
