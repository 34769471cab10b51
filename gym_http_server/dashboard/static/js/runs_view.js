/** The list of training runs, live once a second. */

import { h, table } from "./elements.js";
import { bytesText } from "./recording_panel.js";
import { number } from "./texts.js";

const EVERY = 1000;
const COLUMNS = ["Run", "Workers", "Waiting batches", "Waiting", "Version of the weights", "Last used"];

/**
 * Make the view.
 *
 * @param {object} context
 */
export function view(context) {
  const body = h("div", {});
  const error = h("p", { class: "error", role: "alert", hidden: "" });
  let timer = null;
  let isOver = false;

  const load = async () => {
    try {
      const { runs } = await context.call("GET", "/v1/runs/");
      if (isOver) return;
      error.hidden = true;
      draw(runs);
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
    if (!isOver) timer = setTimeout(load, EVERY);
  };
  const draw = (runs) => {
    const focused = document.activeElement?.getAttribute("href");
    body.replaceChildren(runs.length ? table("Training runs", COLUMNS, runs.map(cellsOf)) : noRuns());
    if (focused) body.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  };
  load();
  return {
    element: h("div", {}, h("h1", {}, "Training runs"), error, body),
    dispose() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

function noRuns() {
  return h("p", { class: "soft" }, "There are no runs.");
}

function cellsOf({ run, workers, queue_batches, queue_bytes, version, last }) {
  return [
    h("a", { href: `#/runs/${encodeURIComponent(run)}` }, run),
    number(workers),
    number(queue_batches),
    bytesText(queue_bytes),
    number(version),
    last ? new Date(last).toLocaleString() : "–",
  ];
}
