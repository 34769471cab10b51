/** What charts show, as a file of CSV, and as a command for TensorBoard. */

import { action, h } from "./elements.js";

/** Columns of a file; a chart's own value is last. */
const COLUMNS = ["episode", "version", "step", "time"];

/**
 * Write the lines of a chart as CSV.
 *
 * @param {{ label: string, lines: { label: string, points: object[] }[] }} shown What the chart
 *   shows.
 * @returns {string} A row for each point, with the columns that some point has.
 */
export function csvOf({ label, lines }) {
  const columns = COLUMNS.filter((name) => lines.some(({ points }) => points.some((each) => name in each)));
  const rows = lines.flatMap((line) => line.points.map((each) => [line.label, ...columns.map((name) => each[name]), each.y]));
  return [["series", ...columns, label], ...rows].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

function cell(value) {
  if (typeof value === "number") return String(value);
  const text = String(value ?? "");
  // A spreadsheet would execute a text that begins like a formula.
  const inert = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n']/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

/**
 * Write commands that write the episodes of instances and the records of runs for TensorBoard.
 *
 * @param {string} origin Address of the server.
 * @param {string[]} instances IDs.
 * @param {string[]} runs Names.
 * @returns {string} A line for each command.
 */
export function tensorBoardCommands(origin, instances, runs) {
  const lines = runs.map((name) => `gym-http-server runs ${quoted(origin)} ${quoted(name)} export --tensorboard ${quoted(`logs/${name}`)}`);
  if (instances.length) {
    const names = instances.map(quoted).join(" ");
    lines.unshift(`python -m gym_http_client watch ${quoted(origin)} ${names} --tensorboard logs`);
  }
  return lines.join("\n");
}

function quoted(text) {
  // A terminal obeys control characters, in quotes, too.
  const inert = text.replace(/\p{Cc}/gu, "?");
  return /^[\w./:@-]+$/.test(inert) ? inert : `'${inert.replaceAll("'", "'\\''")}'`;
}

/** Exports of a view's charts, which a person opens. */
export class Exports {
  #charts = h("div", { class: "row" });
  #commands = h("pre", { tabindex: "0", role: "region", "aria-label": "Commands for TensorBoard" });
  #copied = h("span", { class: "soft", role: "status" });

  constructor() {
    const copy = action("Copy", () => this.#copy(), { class: "quiet" });
    this.element = h(
      "details",
      { class: "exports" },
      h("summary", {}, "Export"),
      this.#charts,
      h("p", { class: "soft" }, "For TensorBoard, run this where the client is installed; GHS_TOKEN has the token:"),
      this.#commands,
      h("div", { class: "row" }, copy, this.#copied),
    );
  }

  /**
   * Offer the export of charts.
   *
   * @param {{ shown: object }[]} charts
   * @param {{ instances?: string[], runs?: string[] }} from What they show.
   */
  offer(charts, { instances = [], runs = [] }) {
    const buttons = charts.map((chart) => action(`${chart.shown.label} as CSV`, () => save(chart.shown), { class: "quiet" }));
    this.#charts.replaceChildren(...buttons);
    this.#commands.textContent = tensorBoardCommands(location.origin, instances, runs);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.#commands.textContent);
      this.#copied.textContent = "Copied.";
    } catch {
      // Without HTTPS, browsers copy only what a person has selected.
      getSelection().selectAllChildren(this.#commands);
      this.#copied.textContent = "Selected: copy it with Ctrl+C.";
    }
  }
}

function save(shown) {
  const url = URL.createObjectURL(new Blob([csvOf(shown)], { type: "text/csv" }));
  const name = shown.label.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const link = h("a", { href: url, download: `${name}.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(url);
}
