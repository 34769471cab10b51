/** `Graph`: nodes, and edges between them. */

import { NdArray, array } from "../arrays.js";
import { dtypeNamed } from "../dtypes.js";
import { GraphInstance } from "../scalars.js";
import { below } from "./draws.js";
import { fromLists } from "./elements.js";
import { Fields } from "./fields.js";
import { spaceOf } from "./index.js";
import { Space } from "./space.js";

const MAX_NODES = 10;

/** Graphs whose nodes, and edges if they have any, are elements of a space each. */
export class Graph extends Space {
  /** @param {object} description As `{node_space: {type: "Discrete", n: 2}, edge_space: null}`. */
  constructor(description) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.nodeSpace = spaceOf(fields.inner("node_space", fields.get("node_space", null)));
    const edges = fields.get("edge_space", null);
    this.edgeSpace = edges === null ? null : spaceOf(fields.inner("edge_space", edges));
  }

  contains(value) {
    if (!(value instanceof GraphInstance)) return false;
    const nodes = this.nodeSpace.unstack(value.nodes);
    if (!nodes || !nodes.every((node) => this.nodeSpace.contains(node))) return false;
    if (value.edges === null || value.edgeLinks === null) {
      return value.edges === null && value.edgeLinks === null;
    }
    const edges = this.edgeSpace?.unstack(value.edges);
    if (!edges || !edges.every((edge) => this.edgeSpace.contains(edge))) return false;
    return areLinks(value.edgeLinks, edges.length, nodes.length);
  }

  sample(random = Math.random) {
    const count = 1 + below(MAX_NODES, random);
    const nodes = this.nodeSpace.stack(draws(this.nodeSpace, count, random));
    const edges = this.edgeSpace && count > 1 ? below(count * (count - 1), random) : 0;
    if (!edges) return new GraphInstance(nodes);
    const links = Int32Array.from({ length: 2 * edges }, () => below(count, random));
    const drawn = this.edgeSpace.stack(draws(this.edgeSpace, edges, random));
    return new GraphInstance(nodes, drawn, array(links, { shape: [edges, 2] }));
  }

  toJSON() {
    const edge_space = this.edgeSpace?.toJSON() ?? null;
    return { type: "Graph", node_space: this.nodeSpace.toJSON(), edge_space };
  }

  fromPlain(plain) {
    const stack = (space, items) => items && space.stack(items.map((each) => space.fromPlain(each)));
    const links = plain.edge_links;
    return new GraphInstance(
      stack(this.nodeSpace, plain.nodes),
      stack(this.edgeSpace, plain.edges),
      links && fromLists(links, [links.length, 2], "int32"),
    );
  }
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
