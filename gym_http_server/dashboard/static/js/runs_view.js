/** Training runs: what the relay keeps, and how far behind readers and weights are. */

import { h } from "./elements.js";

const EVERY = 1000;

/**
 * Make the view of all runs, or of one.
 *
 * @param {object} context
 * @param {string} [name] Name of the run.
 */
export function view(context, name) {
  const body = h("div", {});
  const error = h("p", { class: "error", role: "alert", hidden: "" });
  let timer = null;
  let isOver = false;

  const load = async () => {
    const path = name ? `/v1/runs/${encodeURIComponent(name)}/` : "/v1/runs/";
    try {
      const found = await context.call("GET", path);
      if (isOver) return;
      error.hidden = true;
      body.replaceChildren(name ? facts(found) : list(found.runs ?? []));
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
    if (!isOver) timer = setTimeout(load, EVERY);
  };
  load();
  return {
    element: h("div", {}, h("h1", {}, name ? `Run ${name}` : "Training runs"), error, body),
    dispose() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

function list(runs) {
  if (!runs.length) return h("p", { class: "soft" }, "There are no runs.");
  const items = runs.map((each) => {
    const name = typeof each === "string" ? each : each.run;
    return h("li", {}, h("a", { href: `#/runs/${encodeURIComponent(name)}` }, name));
  });
  return h("ul", {}, ...items);
}

/** Show the members of an object, those of objects below them as rows of their own. */
function facts(value, path = "") {
  const rows = [];
  const add = (given, name) => {
    if (given !== null && typeof given === "object" && !Array.isArray(given)) {
      for (const [key, each] of Object.entries(given)) add(each, name ? `${name}.${key}` : key);
    } else {
      const text = given !== null && typeof given === "object" ? JSON.stringify(given) : String(given);
      rows.push(h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, text)));
    }
  };
  add(value, path);
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Figures" }, h("table", {}, h("tbody", {}, ...rows)));
}
