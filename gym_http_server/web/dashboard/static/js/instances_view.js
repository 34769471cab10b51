/** The list of instances: searched, sorted, live once a second. */

import { action, h } from "./elements.js";
import { STATES, stateText, whyEnded } from "./states.js";
import { duration, number } from "./texts.js";

const EVERY = 1000;
const COLUMNS = [
  { name: "Instance", key: (row) => row.instance_id },
  { name: "Environment", key: (row) => row.env_id },
  { name: "Label", key: (row) => row.label ?? "" },
  { name: "State", key: (row) => row.state },
  { name: "Steps", key: (row) => row.steps, isNumber: true },
  { name: "Steps/s", key: (row) => row.rate, isNumber: true },
  { name: "Episodes", key: (row) => row.episodes, isNumber: true },
  { name: "Last return", key: (row) => row.last_return ?? -Infinity, isNumber: true },
  { name: "Step p50, ms", key: (row) => row.step_ms?.p50 ?? -1, isNumber: true },
  { name: "Memory, MiB", key: (row) => row.memory_bytes, isNumber: true },
  { name: "Age", key: (row) => row.age_s, isNumber: true },
];

/** Make the view. */
export function view(context) {
  const page = new InstancesPage(context);
  page.begin();
  return { element: page.element, dispose: () => page.dispose() };
}

class InstancesPage {
  #context;
  #search = h("input", { type: "search", "aria-label": "Search instances", placeholder: "Search" });
  #state = h(
    "select",
    { "aria-label": "State" },
    ...["", ...STATES].map((each) => h("option", { value: each }, each || "any state")),
  );
  #slots = h("p", { class: "soft" });
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #head = h("tr", {});
  #body = h("tbody", {});
  #ended = h("tbody", {});
  #endedTable = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Ended instances", hidden: "" });
  #sort = 10;
  #isDown = false;
  #rates = new Map();
  #timer = null;
  #isOver = false;
  #data = { instances: [], ended: [] };

  constructor(context) {
    this.#context = context;
    this.element = h(
      "div",
      {},
      h("div", { class: "row" }, h("h1", {}, "Instances"), this.#slots),
      h("div", { class: "row" }, this.#search, this.#state, h("a", { href: "#/new" }, "New instance")),
      this.#error,
      h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Running instances" },
        h("table", {}, h("caption", {}, "Running"), h("thead", {}, this.#head), this.#body)),
      this.#endedTable,
    );
    this.#endedTable.append(
      h("table", {}, h("caption", {}, "Ended"),
        h("thead", {}, h("tr", {}, ...["Instance", "Environment", "Label", "Why"].map((each) => h("th", { scope: "col" }, each)),
          ...["Steps", "When"].map((each) => h("th", { scope: "col", class: "number" }, each)))),
        this.#ended),
    );
    for (const each of [this.#search, this.#state]) each.addEventListener("input", () => this.#load());
  }

  begin() {
    this.#drawHead();
    this.#repeat();
  }

  dispose() {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  async #repeat() {
    await this.#load();
    if (!this.#isOver) this.#timer = setTimeout(() => this.#repeat(), EVERY);
  }

  async #load() {
    const query = new URLSearchParams({ search: this.#search.value.slice(0, 200), state: this.#state.value });
    try {
      const data = await this.#context.call("GET", `/v1/instances/?${query}`);
      if (this.#isOver) return;
      this.#data = data;
      this.#error.hidden = true;
    } catch (error) {
      this.#error.textContent = error.message;
      this.#error.hidden = false;
      return;
    }
    this.#measure();
    this.#draw();
  }

  /** Compute steps a second between two answers. */
  #measure() {
    const now = performance.now();
    const rates = new Map();
    for (const row of this.#data.instances) {
      const last = this.#rates.get(row.instance_id);
      const seconds = last ? (now - last.at) / 1000 : 0;
      row.rate = last ? (seconds < 0.5 ? last.rate : (row.steps - last.steps) / seconds) : 0;
      rates.set(row.instance_id, last && seconds < 0.5 ? last : { at: now, steps: row.steps, rate: row.rate });
    }
    this.#rates = rates;
  }

  #drawHead() {
    const cells = COLUMNS.map(({ name, isNumber }, index) => {
      const sorted = index === this.#sort ? (this.#isDown ? "descending" : "ascending") : "none";
      const attributes = { scope: "col", "aria-sort": sorted, class: isNumber ? "number" : "" };
      return h("th", attributes, action(name, () => this.#sortBy(index)));
    });
    this.#head.replaceChildren(...cells, h("th", { scope: "col" }, "Close"));
  }

  #sortBy(index) {
    this.#isDown = index === this.#sort && !this.#isDown;
    this.#sort = index;
    this.#drawHead();
    this.#draw();
    this.#head.children[index].firstChild.focus();
  }

  #draw() {
    const { key } = COLUMNS[this.#sort];
    const sign = this.#isDown ? -1 : 1;
    const rows = [...this.#data.instances].sort((a, b) => {
      const [first, second] = [key(a), key(b)];
      return first === second ? 0 : first < second ? -sign : sign;
    });
    const { slots } = this.#data;
    if (slots) this.#slots.textContent = `${slots.taken} of ${slots.of} slots taken`;
    const focused = document.activeElement?.dataset?.key;
    this.#body.replaceChildren(...rows.map((row) => this.#row(row)));
    if (focused) this.#body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.#endedTable.hidden = !this.#data.ended.length;
    this.#ended.replaceChildren(...this.#data.ended.map((row) => endedRow(row)));
  }

  #row(row) {
    const id = row.instance_id;
    const close = action("Close", () => this.#close(row), { class: "danger", "data-key": `close ${id}`, "aria-label": `Close ${id}` });
    return h(
      "tr",
      {},
      h("td", {}, h("a", { href: `#/envs/${encodeURIComponent(id)}`, "data-key": `open ${id}` }, id)),
      h("td", { title: row.program ?? "" }, row.num_envs ? `${row.env_id} × ${row.num_envs}` : row.env_id),
      h("td", {}, row.label ?? ""),
      h("td", {}, h("span", { class: `badge ${row.state}` }, stateText(row))),
      ...[
        number(row.steps),
        number(row.rate),
        number(row.episodes),
        number(row.last_return),
        number(row.step_ms?.p50),
        number(row.memory_bytes / 2 ** 20),
        duration(row.age_s),
      ].map((text) => h("td", { class: "number" }, text)),
      h("td", {}, close),
    );
  }

  async #close(row) {
    const { ask, call, toast } = this.#context;
    const id = row.instance_id;
    const isUsed = row.streams ? " A client is connected to it." : "";
    if (!(await ask(`Close ${id} (${row.env_id})?${isUsed}`))) return;
    try {
      await call("POST", `/v1/envs/${encodeURIComponent(id)}/close/`, {});
      toast(`${id} is closed.`);
    } catch (error) {
      toast(error.message);
    }
    this.#load();
  }
}

function endedRow(row) {
  const cell = h("td", {}, whyEnded(row));
  if (row.log_tail) cell.append(h("details", {}, h("summary", {}, "Last output"), h("pre", {}, row.log_tail)));
  return h(
    "tr",
    {},
    h("td", {}, h("a", { href: `#/envs/${encodeURIComponent(row.instance_id)}` }, row.instance_id)),
    h("td", {}, row.env_id),
    h("td", {}, row.label ?? ""),
    cell,
    h("td", { class: "number" }, number(row.steps)),
    h("td", { class: "number" }, `${duration(row.ended_s_ago)} ago`),
  );
}
