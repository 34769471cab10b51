/** The panel of an instance with a clock: its state, lateness and jitter. */

import { numberText } from "./chart_scale.js";
import { h } from "./elements.js";
import { button } from "./widgets/containers.js";

const DISTRIBUTIONS = {
  lateness_ns: "Lateness",
  lateness_all_ns: "Lateness with ticks left out",
  jitter_ns: "Jitter",
  age_ns: "Age of observations",
  reaction_ns: "Reaction",
};
const COLUMNS = ["p50", "p90", "p99", "max"];

/** Shows the statistics of a clock, and pauses and resumes it. */
export class RealtimePanel {
  #call;
  #path;
  #words = h("p", {});
  #body = h("tbody", {});
  #error = h("p", { class: "error", role: "alert" });

  /**
   * @param {(method: string, path: string, body?: object) => Promise<object>} call
   * @param {string} path Of the instance.
   * @param {boolean} may Whether the token may pause it.
   */
  constructor(call, path, may) {
    this.#call = call;
    this.#path = `${path}realtime/`;
    const heads = ["", ...COLUMNS].map((each) => h("th", { scope: "col" }, each));
    const table = h("table", { class: "table" }, h("thead", {}, h("tr", {}, ...heads)), this.#body);
    const buttons = h(
      "div",
      { class: "row" },
      button("Pause", "Pause the clock", () => this.#send("pause/")),
      button("Resume", "Resume the clock", () => this.#send("resume/")),
    );
    this.element = h("div", { class: "realtime" }, this.#words, table, ...(may ? [buttons] : []), this.#error);
  }

  /** Request the statistics, and show them. */
  async update() {
    try {
      this.#show(await this.#call("GET", this.#path));
    } catch (error) {
      this.#error.textContent = error.message;
    }
  }

  async #send(place) {
    this.#error.textContent = "";
    try {
      await this.#call("POST", this.#path + place, {});
      await this.update();
    } catch (error) {
      this.#error.textContent = error.message;
    }
  }

  #show(clock) {
    this.#error.textContent = "";
    const { state, settings, ticks, skipped, timeouts, actions, stall_ns: stall } = clock;
    const words = [state, ...(settings?.hz ? [`${numberText(settings.hz)} Hz`] : [])];
    words.push(`${ticks} ticks`, `${skipped} left out`, `${timeouts} too late`);
    if (stall) words.push(`at most ${millisecondsOf(stall)} without a tick`);
    if (actions) words.push(`${actions.applied} of ${actions.received} actions applied`);
    this.#words.textContent = words.join(" · ");
    this.#body.replaceChildren(...Object.entries(DISTRIBUTIONS).map(([name, title]) => rowOf(title, clock[name])));
  }
}

function rowOf(title, distribution) {
  const cells = COLUMNS.map((each) => h("td", {}, millisecondsOf(distribution?.[each])));
  return h("tr", {}, h("th", { scope: "row" }, title), ...cells);
}

/** Print nanoseconds as milliseconds. */
export function millisecondsOf(nanoseconds) {
  return typeof nanoseconds === "number" ? `${numberText(nanoseconds / 1e6)} ms` : "–";
}
