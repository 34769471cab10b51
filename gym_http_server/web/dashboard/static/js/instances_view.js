/** The list of instances: searched, sorted, live once a second. */

import { action, h } from "./elements.js";
import { Rates } from "./rates.js";
import { STATES, stateText, whyEnded } from "./states.js";
import { ago, bytesText, number, roughly } from "./texts.js";

const EVERY = 1000;
const COLUMNS = [
  { name: "Instance", key: (row) => row.instance_id },
  { name: "Environment", key: (row) => row.env_id },
  { name: "Label", key: (row) => row.label ?? "" },
  { name: "Owner", key: (row) => row.owner ?? "" },
  { name: "Node", key: (row) => row.node ?? "" },
  { name: "State", key: (row) => row.state },
  { name: "Steps", key: (row) => row.steps, isNumber: true },
  { name: "Steps/s", key: (row) => row.rate, isNumber: true },
  { name: "Episodes", key: (row) => row.episodes, isNumber: true },
  { name: "Last return", key: (row) => row.last_return ?? -Infinity, isNumber: true },
  { name: "Step, ms", key: (row) => row.step_ms?.p50 ?? -1, isNumber: true },
  { name: "Memory", key: (row) => row.memory_bytes, isNumber: true },
  { name: "Age", key: (row) => row.age_s, isNumber: true },
];
const FIGURES = COLUMNS.findIndex(({ isNumber }) => isNumber);
const ENDED = ["Instance", "Environment", "Label", "Owner", "Node", "Why", "Steps", "Ended"];

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
  #owner = h("select", { "aria-label": "Owner", hidden: "" });
  #slots = h("p", { class: "soft" });
  #error = h("p", { class: "error", role: "alert", hidden: "" });
  #head = h("tr", {});
  #body = h("tbody", {});
  #ended = h("tbody", {});
  #endedHead = h("tr", {});
  #running = h("div", { class: "table cards panel", tabindex: "0", role: "region", "aria-label": "Live instances", hidden: "" });
  #endedTable = h("div", { class: "table cards panel", tabindex: "0", role: "region", "aria-label": "Ended instances", hidden: "" });
  #none = h("p", { class: "nothing", hidden: "" });
  #sort = COLUMNS.length - 1;
  #isDown = false;
  #owners = new Set();
  #rates = new Rates();
  #timer = null;
  #isOver = false;
  #data = { instances: [], ended: [] };

  constructor(context) {
    this.#context = context;
    this.element = h(
      "div",
      { class: "view" },
      h("div", { class: "head" }, h("h1", {}, "Instances"), this.#slots),
      h("div", { class: "row" }, this.#search, this.#state, this.#owner),
      this.#error,
      this.#none,
      this.#running,
      this.#endedTable,
    );
    this.#running.append(h("table", {}, h("caption", {}, "Live"), h("thead", {}, this.#head), this.#body));
    this.#endedTable.append(h("table", {}, h("caption", {}, "Ended"), h("thead", {}, this.#endedHead), this.#ended));
    for (const each of [this.#search, this.#state]) each.addEventListener("input", () => this.#load());
    this.#owner.addEventListener("input", () => this.#draw());
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
    this.#rates.take(this.#data.instances, performance.now());
    this.#showOwners();
    this.#draw();
  }

  /** Offer the owners, if there are any, to a token that sees instances of several. */
  #showOwners() {
    const before = this.#owners.size;
    for (const { owner } of [...this.#data.instances, ...this.#data.ended]) if (owner) this.#owners.add(owner);
    if (this.#owners.size === before) return;
    const chosen = this.#owner.value;
    const names = ["", ...[...this.#owners].sort()];
    this.#owner.replaceChildren(...names.map((each) => h("option", { value: each }, each || "any owner")));
    this.#owner.value = chosen;
    this.#owner.hidden = this.#owners.size < 2;
    this.#drawHead();
  }

  #isShown = ({ owner }) => !this.#owner.value || owner === this.#owner.value;

  /** Whether there is a column: of owners where there are some, of nodes in a fleet. */
  #has(name) {
    return name === "Owner" ? this.#owners.size > 0 : name !== "Node" || Boolean(this.#context.about.nodes);
  }

  #drawHead() {
    const cells = COLUMNS.flatMap(({ name, isNumber }, index) => {
      if (!this.#has(name)) return [];
      const sorted = index === this.#sort ? (this.#isDown ? "descending" : "ascending") : "none";
      const attributes = { scope: "col", "aria-sort": sorted, class: isNumber ? "number" : "" };
      return h("th", attributes, action(name, () => this.#sortBy(index), { "data-key": name }));
    });
    if (this.#context.may("step", "create")) cells.push(h("th", { scope: "col" }, h("span", { class: "unseen" }, "Close")));
    this.#head.replaceChildren(...cells);
    const names = ENDED.filter((name) => this.#has(name));
    this.#endedHead.replaceChildren(...names.map((each) => h("th", { scope: "col", class: each === "Steps" || each === "Ended" ? "number" : "" }, each)));
  }

  #sortBy(index) {
    this.#isDown = index === this.#sort && !this.#isDown;
    this.#sort = index;
    this.#drawHead();
    this.#draw();
    this.#head.querySelector(`[data-key="${COLUMNS[index].name}"]`).focus();
  }

  #draw() {
    const { key } = COLUMNS[this.#sort];
    const sign = this.#isDown ? -1 : 1;
    const rows = this.#data.instances.filter(this.#isShown).sort((a, b) => {
      const [first, second] = [key(a), key(b)];
      return first === second ? 0 : first < second ? -sign : sign;
    });
    const { slots } = this.#data;
    if (slots) this.#slots.textContent = `${slots.taken} of ${slots.of} slots taken`;
    const focused = document.activeElement?.dataset?.key;
    this.#body.replaceChildren(...rows.map((row) => this.#row(row)));
    if (focused) this.#body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    const ended = this.#data.ended.filter(this.#isShown);
    const isFiltered = this.#search.value || this.#state.value || this.#owner.value;
    this.#none.hidden = rows.length > 0 || ended.length > 0;
    this.#none.textContent = isFiltered ? "No instance is like that." : "No instance runs, and none has ended.";
    this.#running.hidden = !rows.length;
    this.#endedTable.hidden = !ended.length;
    this.#ended.replaceChildren(...ended.map((row) => this.#endedRow(row)));
  }

  /** The cells of a row's owner and node, where there are such columns. */
  #places({ owner, node }) {
    const cells = Object.entries({ Owner: owner, Node: node });
    return cells.filter(([name]) => this.#has(name)).map(([name, text]) => cell(name, text ?? ""));
  }

  #row(row) {
    const id = row.instance_id;
    const close = action("Close", () => this.#close(row), { class: "danger", "data-key": `close ${id}`, "aria-label": `Close ${id}` });
    const numbers = [
      number(row.steps),
      number(row.rate),
      number(row.episodes),
      number(row.last_return),
      number(row.step_ms?.p50),
      bytesText(row.memory_bytes),
      roughly(row.age_s),
    ];
    return h(
      "tr",
      {},
      cell("Instance", h("a", { href: hrefOf(id), "data-key": `open ${id}`, class: "id" }, id)),
      cell("Environment", row.num_envs ? `${row.env_id} × ${row.num_envs}` : row.env_id, { title: row.program ?? "", class: "first" }),
      cell("Label", row.label ?? ""),
      ...this.#places(row),
      cell("State", h("span", { class: `badge ${row.state}` }, stateText(row)), { class: "wide" }),
      ...numbers.map((text, index) => cell(COLUMNS[FIGURES + index].name, text, { class: "number" })),
      ...(this.#context.may("step", "create") ? [cell("", close, { class: "wide number" })] : []),
    );
  }

  #endedRow(row) {
    const reason = cell("Why", h("span", {}, whyEnded(row)));
    if (row.log_tail) reason.append(h("details", {}, h("summary", {}, "Last output"), h("pre", {}, row.log_tail)));
    return h(
      "tr",
      {},
      cell("Instance", h("a", { href: hrefOf(row.instance_id), class: "id" }, row.instance_id)),
      cell("Environment", row.env_id, { class: "first" }),
      cell("Label", row.label ?? ""),
      ...this.#places(row),
      reason,
      cell("Steps", number(row.steps), { class: "number" }),
      cell("Ended", ago(row.ended_s_ago), { class: "number" }),
    );
  }

  async #close(row) {
    const { ask, call, toast } = this.#context;
    const id = row.instance_id;
    const isUsed = row.streams ? " A client is connected to it." : "";
    if (!(await ask(`Close ${id} (${row.env_id})?${isUsed}`, "Close instance", "Keep it"))) return;
    try {
      await call("POST", `/v1/envs/${encodeURIComponent(id)}/close/`, {});
      toast(`${id} is closed.`);
    } catch (error) {
      toast(error.message);
    }
    this.#load();
  }
}

/** A cell that names its column where the table is drawn as cards. */
function cell(name, content, attributes = {}) {
  return h("td", { "data-label": name, ...attributes }, content);
}

function hrefOf(id) {
  return `#/envs/${encodeURIComponent(id)}`;
}
