/** The widget of Graph: a list of nodes, and a list of edges between them. */

import { h } from "../elements.js";
import { WidgetList } from "./containers.js";
import { initialOf, readNumber } from "./plan.js";

/** Make the widget of a Graph space. */
export function graphWidget(space, name, make) {
  const nodes = new WidgetList(`${name}.nodes`, (itemName) => make(space.node_space, itemName));
  const count = () => nodes.length;
  const edges =
    space.edge_space && new WidgetList(`${name}.edges`, (itemName) => edgeWidget(space.edge_space, itemName, make, count));
  const set = (value) => {
    nodes.set(value.nodes);
    edges?.set((value.edges ?? []).map((edge, i) => ({ edge, link: value.edge_links[i] })));
  };
  set(initialOf(space));
  const value = () => {
    const drawn = edges?.value() ?? [];
    const hasEdges = drawn.length > 0;
    return {
      nodes: nodes.value(),
      edges: hasEdges ? drawn.map(({ edge }) => edge) : null,
      edge_links: hasEdges ? drawn.map(({ link }) => link) : null,
    };
  };
  const lists = edges ? [nodes.element, edges.element] : [nodes.element];
  return { element: h("div", { class: "widget-graph" }, ...lists), value, set };
}

/** An edge: the numbers of two nodes, and an element of the space of edges. */
function edgeWidget(space, name, make, count) {
  const edge = make(space, name);
  const ends = ["from", "to"].map((end) => {
    const field = h("input", { type: "text", inputmode: "numeric", value: "0", autocomplete: "off" });
    return { field, element: h("label", { class: "widget-number" }, h("span", {}, `${name} ${end} node`), field) };
  });
  const nodeOf = ({ field }) =>
    readNumber(field.value, { low: 0, high: count() - 1, isInteger: true, isFlag: false }, `${name}, a node`);
  return {
    element: h("div", { class: "widget-edge" }, ...ends.map(({ element }) => element), edge.element),
    value: () => ({ edge: edge.value(), link: ends.map(nodeOf) }),
    set: (value) => {
      edge.set(value.edge);
      ends.forEach(({ field }, i) => (field.value = String(value.link[i])));
    },
  };
}
