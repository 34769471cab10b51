/** The nodes of a fleet, for the overview, which loads this only in one. */

import { h, table } from "./elements.js";

/** The states of a node, and the badge of each, which an instance has in a like state. */
const BADGES = { ready: "running", draining: "paused", missing: "stuck" };

/** Make the table of nodes. */
export function nodesTable() {
  const { element, fill } = table("Nodes", ["Node", "Slots taken", "State"]);
  return { element, show: (nodes) => fill(nodes.map(cellsOf)) };
}

function cellsOf({ away, draining, free, node, slots }) {
  const state = away ? "missing" : draining ? "draining" : "ready";
  const bar = h("meter", { min: "0", max: String(slots), value: String(slots - free), "aria-label": `Slots of ${node}, share` });
  return [node, h("div", {}, `${slots - free} of ${slots}`, bar), h("span", { class: `badge ${BADGES[state]}` }, state)];
}
