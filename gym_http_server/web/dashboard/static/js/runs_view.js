/** The list of training runs, live once a second. */

import { h, table } from "./elements.js";
import { ago, bytesText, number } from "./texts.js";

const EVERY = 1000;
const COLUMNS = ["Run", "Workers", "Waiting batches", "Waiting", "Version of the weights", "Last used"];

/**
 * Make the view.
 *
 * @param {object} context
 */
export function view(context) {
  const listed = table("Training runs", COLUMNS);
  const none = h("p", { class: "nothing", hidden: "" }, "There are no runs.");
  const error = h("p", { class: "error", role: "alert", hidden: "" });
  let timer = null;
  let isOver = false;

  const load = async () => {
    try {
      const { runs } = await context.call("GET", "/v1/runs/");
      if (isOver) return;
      error.hidden = true;
      none.hidden = runs.length > 0;
      listed.fill(runs.map(cellsOf));
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
    if (!isOver) timer = setTimeout(load, EVERY);
  };
  load();
  return {
    element: h("div", { class: "view" }, h("h1", {}, "Training runs"), error, none, listed.element),
    dispose() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

function cellsOf({ run, workers, queue_batches, queue_bytes, version, last }) {
  return [
    h("a", { href: `#/runs/${encodeURIComponent(run)}` }, run),
    number(workers),
    number(queue_batches),
    bytesText(queue_bytes),
    number(version),
    last ? ago((Date.now() - Date.parse(last)) / 1000) : "–",
  ];
}
