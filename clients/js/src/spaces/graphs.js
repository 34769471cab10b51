/** Graphs: whether they are elements of a `Graph`, how it draws and reads them. */

import { NdArray, array } from "../arrays.js";
import { dtypeNamed } from "../dtypes.js";
import { GraphInstance } from "../scalars.js";
import { below } from "./draws.js";
import { fromLists } from "./elements.js";

const MAX_NODES = 10;

/** Whether a value is a graph whose nodes and edges are elements of these spaces. */
export function isGraph(value, nodeSpace, edgeSpace) {
  if (!(value instanceof GraphInstance)) return false;
  const nodes = nodeSpace.unstack(value.nodes);
  if (!nodes || !nodes.every((node) => nodeSpace.contains(node))) return false;
  if (value.edges === null || value.edgeLinks === null) {
    return value.edges === null && value.edgeLinks === null;
  }
  const edges = edgeSpace?.unstack(value.edges);
  if (!edges || !edges.every((edge) => edgeSpace.contains(edge))) return false;
  return areLinks(value.edgeLinks, edges.length, nodes.length);
}

/** Draw a graph; without a space of edges it has none. */
export function drawGraph(nodeSpace, edgeSpace, random) {
  const count = 1 + below(MAX_NODES, random);
  const nodes = nodeSpace.stack(draws(nodeSpace, count, random));
  const edges = edgeSpace && count > 1 ? below(count * (count - 1), random) : 0;
  if (!edges) return new GraphInstance(nodes);
  const links = Int32Array.from({ length: 2 * edges }, () => below(count, random));
  const drawn = edgeSpace.stack(draws(edgeSpace, edges, random));
  return new GraphInstance(nodes, drawn, array(links, { shape: [edges, 2] }));
}

/** Make a graph from plain JSON. */
export function graphFromPlain(plain, nodeSpace, edgeSpace) {
  const stack = (space, items) => items && space.stack(items.map((each) => space.fromPlain(each)));
  const links = plain.edge_links;
  return new GraphInstance(
    stack(nodeSpace, plain.nodes),
    stack(edgeSpace, plain.edges),
    links && fromLists(links, [links.length, 2], "int32"),
  );
}

function draws(space, count, random) {
  return Array.from({ length: count }, () => space.sample(random));
}

function areLinks(links, edges, nodes) {
  if (!(links instanceof NdArray) || links.shape.length !== 2) return false;
  if (links.shape[0] !== edges || links.shape[1] !== 2) return false;
  if (!"iu".includes(dtypeNamed(links.dtype)?.kind)) return false;
  return Array.from(links.data).every((link) => link >= 0 && link < nodes);
}
