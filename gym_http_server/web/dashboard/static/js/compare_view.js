/** Instances and training runs in one plot, those that have ended, too. */

import { ChartGroup } from "./chart.js";
import { action, h } from "./elements.js";
import { EpisodePoints } from "./episode_points.js";
import { Exports } from "./exports.js";
import { request } from "./server.js";
import { partsOf } from "./texts.js";

const EVERY = 2000;
/** How many are compared at most, which is how many colours there are. */
const MOST = 8;
/** What marks a name in the address as that of a run. */
const RUN = "run:";
/** Episodes of a run that are drawn at first. */
const EARLIER = 2000;

/**
 * Make the view.
 *
 * @param {object} context
 * @param {string} names IDs of instances, and names of runs with `run:` before them, with commas
 *   between.
 */
export function view(context, names) {
  const page = new ComparePage(context, [...new Set(names.split(",").filter(Boolean))].slice(0, MOST));
  page.begin();
  return { element: page.element, dispose: () => page.dispose() };
}

class ComparePage {
  #context;
  #compared;
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #choice = h("select", {});
  #add = h("form", { class: "chart-controls" }, h("label", {}, h("span", {}, "Instance or run"), this.#choice), h("button", {}, "Add"));
  #list = h("ul", { class: "row compared" });
  #charts = new ChartGroup();
  #returns = this.#charts.chart({ label: "Return", empty: "Add instances or runs whose episodes have ended" });
  #lengths = this.#charts.chart({ label: "Length", unit: "steps", empty: "Nothing yet" });
  #exports = new Exports();
  #offered = "";
  #runs = null;
  #timer = null;
  #isOver = false;

  constructor(context, names) {
    this.#context = context;
    this.#compared = names.map((name) => (name.startsWith(RUN) ? new ComparedRun(name) : new ComparedInstance(name)));
    this.#add.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#choice.value) this.#go([...names, this.#choice.value]);
    });
    this.element = h(
      "div",
      { class: "view" },
      h("h1", {}, "Compare"),
      this.#error,
      this.#add,
      this.#list,
      h("div", { class: "panel" }, this.#charts.controls, h("div", { class: "charts" }, this.#returns.element, this.#lengths.element)),
      this.#exports.element,
    );
    const instances = this.#compared.filter((each) => !each.isRun).map(({ name }) => name);
    const runs = this.#compared.filter((each) => each.isRun).map(({ name }) => name.slice(RUN.length));
    this.#exports.offer([this.#returns, this.#lengths], { instances, runs });
    this.#exports.element.hidden = !names.length;
  }

  async begin() {
    await this.#load();
    if (!this.#isOver) this.#timer = setTimeout(() => this.begin(), EVERY);
  }

  dispose() {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #go(names) {
    this.#context.go(`#/compare/${encodeURIComponent(names.join(","))}`);
  }

  async #load() {
    const { call } = this.#context;
    try {
      // Once: the request starts the relay.
      this.#runs ??= this.#context.may("runs") ? (await call("GET", "/v1/runs/")).runs.map(({ run }) => run) : [];
      const { instances, ended } = await call("GET", "/v1/instances/");
      if (this.#isOver) return;
      const rows = new Map([...instances, ...ended].map((row) => [row.instance_id, row]));
      for (const each of this.#compared) if (!each.isRun) await each.find(call, rows);
      this.#offer(rows, this.#runs);
      this.#label();
      this.#error.hidden = true;
    } catch (error) {
      this.#say(error);
      return;
    }
    const loaded = await Promise.allSettled(this.#compared.map((each) => this.#draw(each)));
    const failed = loaded.find(({ status }) => status === "rejected");
    if (failed) this.#say(failed.reason);
  }

  #say(error) {
    if (this.#isOver) return;
    this.#error.textContent = error.message;
    this.#error.hidden = false;
  }

  async #draw(each) {
    const points = await each.load(this.#context.call);
    if (this.#isOver) return;
    for (const { total, length, ...at } of points) {
      const parts = partsOf(total).map(([, part]) => part);
      const y = parts.length > 1 ? parts.reduce((sum, part) => sum + part, 0) : parts[0];
      this.#returns.series(each.label).add({ ...at, y: y ?? NaN });
      this.#lengths.series(each.label).add({ ...at, y: length ?? NaN });
    }
  }

  /** Offer what can be added, unless a person is about to choose. */
  #offer(rows, runs) {
    const names = new Set(this.#compared.map(({ name }) => name));
    const options = [...rows.values()].map((row) => [row.instance_id, `${titleOf(row)} · ${row.instance_id}${row.reason ? " · ended" : ""}`]);
    options.push(...runs.map((run) => [`${RUN}${run}`, `Run ${run}`]));
    const left = options.filter(([name]) => !names.has(name));
    this.#add.hidden = names.size >= MOST || !left.length;
    const offered = JSON.stringify(left);
    if (offered === this.#offered || document.activeElement === this.#choice) return;
    this.#offered = offered;
    const before = this.#choice.value;
    this.#choice.replaceChildren(...left.map(([value, text]) => h("option", { value }, text)));
    if (left.some(([value]) => value === before)) this.#choice.value = before;
  }

  /** Name the lines, once, by labels; by IDs as well where labels are the same. */
  #label() {
    if (this.#list.childElementCount) return;
    const names = this.#compared.map(({ name }) => name);
    for (const each of this.#compared) {
      const isOnly = this.#compared.filter(({ title }) => title === each.title).length === 1;
      each.label = isOnly ? each.title : `${each.title} ${each.name}`;
      // In the order of the address, so that colours stay.
      this.#returns.series(each.label);
      this.#lengths.series(each.label);
    }
    this.#list.replaceChildren(...this.#compared.map((each) => h("li", { class: "row" }, ...this.#entry(each, names))));
  }

  #entry(each, names) {
    const rest = names.filter((name) => name !== each.name);
    const remove = action("Remove", () => this.#go(rest), { class: "quiet", "aria-label": `Remove ${each.label}` });
    return [h("a", { href: each.href }, each.label), remove];
  }
}

class ComparedInstance {
  isRun = false;
  title;
  label = "";
  #row = null;
  #points = new EpisodePoints();
  #isComplete = false;

  constructor(name) {
    this.name = name;
    this.title = name;
    this.href = `#/envs/${encodeURIComponent(name)}`;
  }

  /** Find its row, which the list has no more if many have ended since. */
  async find(call, rows) {
    if (!rows.has(this.name) && !this.#row) {
      const { ended } = await call("GET", `/v1/instances/?state=ended&search=${encodeURIComponent(this.name)}`);
      for (const row of ended) rows.set(row.instance_id, row);
    }
    this.#row = rows.get(this.name) ?? this.#row;
    if (this.#row) this.title = titleOf(this.#row);
  }

  /** Fetch the episodes that have ended since. */
  async load(call) {
    if (this.#isComplete) return [];
    const { episodes, reason } = await call("GET", `/v1/envs/${encodeURIComponent(this.name)}/episodes/?from=${this.#points.next}`);
    this.#isComplete = reason !== undefined;
    return this.#points.add(episodes);
  }
}

class ComparedRun {
  isRun = true;
  label = "";
  #after = null;
  #episodes = 0;
  #steps = 0;
  #began = null;

  /** @param {string} name With `run:` before it. */
  constructor(name) {
    this.name = name;
    this.title = `Run ${name.slice(RUN.length)}`;
    this.href = `#/runs/${encodeURIComponent(name.slice(RUN.length))}`;
  }

  /** Fetch the episodes of training that were recorded since. */
  async load(call) {
    const path = `/v1/runs/${encodeURIComponent(this.name.slice(RUN.length))}/`;
    if (this.#after === null) {
      const { episodes, training_steps } = (await call("GET", path)).records;
      this.#after = Math.max(0, episodes + training_steps - EARLIER);
    }
    const response = await request("GET", `${path}records/?type=episode&after=${this.#after}`);
    if (!response.ok) throw new Error((await response.json()).message);
    const lines = (await response.text()).split("\n").filter(Boolean);
    return lines.map((line) => this.#point(JSON.parse(line))).filter(Boolean);
  }

  #point({ position, mode, return: total, length, time }) {
    this.#after = position;
    if (mode !== "training") return null;
    this.#began ??= time;
    this.#steps += length ?? NaN;
    return { episode: this.#episodes++, step: this.#steps, time: time - this.#began, length, total };
  }
}

function titleOf({ label, env_id }) {
  return label ?? env_id;
}
