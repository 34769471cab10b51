/** A training run: curves of returns, queue and lag, its workers and its readers. */

import { ChartGroup } from "./chart.js";
import { h, table } from "./elements.js";
import { request } from "./server.js";
import { ago, bytesText, number, roughly } from "./texts.js";

const EVERY = 1000;
/** How many of the last records are drawn at first. */
const EARLIER = 2000;
const WORKERS = ["Worker", "State", "Version", "Lag", "Batches sent", "Mean return", "Last seen"];
const READERS = ["Reader", "Position", "Behind", "Draws", "Last seen"];

/**
 * Make the view.
 *
 * @param {object} context
 * @param {string} name Name of the run.
 */
export function view(context, name) {
  const page = new RunPage(context, name);
  page.begin();
  return { element: page.element, dispose: () => page.dispose() };
}

class RunPage {
  #context;
  #path;
  #words = h("p", { class: "summary soft" });
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #charts = new ChartGroup(["episode"]);
  #returns = this.#charts.chart({ label: "Return in training", empty: "No episode has been recorded yet" });
  #evaluations = this.#charts.chart({
    label: "Return in evaluations",
    along: ["version"],
    empty: "No evaluation has been recorded yet",
  });
  #queue = this.#charts.chart({ label: "Queue", unit: "batches", along: ["time"] });
  #lag = this.#charts.chart({ label: "Mean lag of active workers", unit: "versions", along: ["time"], empty: "No worker is active" });
  #workers = table("Workers", WORKERS);
  #readers = table("Readers", READERS);
  #all = h("pre", {});
  #began = performance.now();
  #episodes = 0;
  #after = null;
  #timer = null;
  #isOver = false;

  constructor(context, name) {
    this.#context = context;
    this.#path = `/v1/runs/${encodeURIComponent(name)}/`;
    const curves = [this.#returns, this.#evaluations, this.#queue, this.#lag];
    this.element = h(
      "div",
      { class: "view" },
      h("div", {}, h("h1", {}, `Run ${name}`), this.#words),
      this.#error,
      h("div", { class: "panel" }, this.#charts.controls, h("div", { class: "charts" }, ...curves.map(({ element }) => element))),
      this.#workers.element,
      this.#readers.element,
      h("details", {}, h("summary", {}, "All figures"), this.#all),
    );
  }

  async begin() {
    await this.#load();
    if (!this.#isOver) this.#timer = setTimeout(() => this.begin(), EVERY);
  }

  dispose() {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  async #load() {
    try {
      const run = await this.#context.call("GET", this.#path);
      if (this.#isOver) return;
      this.#show(run);
      await this.#addRecords(run.records);
      this.#error.hidden = true;
    } catch (problem) {
      this.#error.textContent = problem.message;
      this.#error.hidden = false;
    }
  }

  #show(run) {
    const { samples, rates, workers, readers, weights, records } = run;
    const active = workers.filter(({ state }) => state === "active");
    const seconds = (performance.now() - this.#began) / 1000;
    this.#queue.add({ time: seconds, y: samples.waiting });
    const lags = active.reduce((sum, { lag }) => sum + lag, 0);
    if (active.length) this.#lag.add({ time: seconds, y: lags / active.length });
    this.#words.textContent = [
      `${active.length} of ${workers.length} workers active`,
      `${number(samples.waiting)} batches wait (${bytesText(samples.bytes)})`,
      `${number(rates.transitions_s)} transitions/s`,
      weights ? `version ${weights.version} of the weights, ${roughly(weights.age_s)} old` : "no weights yet",
      `${number(records.episodes)} episodes, ${number(records.training_steps)} training steps`,
    ].join(" · ");
    this.#workers.fill(workers.map(cellsOfWorker));
    this.#readers.fill(readers.map(cellsOfReader));
    this.#all.textContent = JSON.stringify(run, null, 2);
  }

  /** Draw the episodes that were recorded since. */
  async #addRecords({ episodes, training_steps }) {
    const after = this.#after ?? Math.max(0, episodes + training_steps - EARLIER);
    this.#episodes ||= Math.max(0, episodes - EARLIER);
    const response = await request("GET", `${this.#path}records/?type=episode&after=${after}`);
    if (!response.ok || this.#isOver) return;
    const lines = (await response.text()).split("\n").filter(Boolean);
    for (const record of lines.map((line) => JSON.parse(line))) {
      this.#after = record.position;
      if (record.mode === "training") this.#returns.add({ episode: (this.#episodes += 1), y: record.return });
      if (record.mode === "evaluation") this.#evaluations.add({ version: record.version, y: record.return });
    }
  }
}

function cellsOfWorker({ worker, state, version, lag, sent, mean_return, seen_s }) {
  const badge = h("span", { class: "badge" }, state);
  return [worker, badge, number(version), number(lag), number(sent), number(mean_return), ago(seen_s)];
}

function cellsOfReader({ reader, after, behind, draws, seen_s }) {
  return [reader, number(after), number(behind), number(draws), ago(seen_s)];
}
