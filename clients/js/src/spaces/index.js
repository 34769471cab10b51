/** Spaces, and how they are made of their descriptions. */

import { Box } from "./box.js";
import { DictSpace, OneOf, Sequence, TupleSpace } from "./containers.js";
import { Discrete, MultiBinary, MultiDiscrete } from "./discrete.js";
import { Fields } from "./fields.js";
import { Graph } from "./graph.js";
import { Text } from "./text.js";

/**
 * Make the space of a description.
 *
 * @param {object} description From a server: an object with a `type`.
 * @returns {import("./space.js").Space}
 * @throws {ProtocolError} The description does not fit.
 */
export function spaceOf(description) {
  const fields = description instanceof Fields ? description : new Fields(description);
  const type = fields.get("type");
  const kinds = kindsOf();
  if (typeof type !== "string" || !Object.hasOwn(kinds, type)) {
    fields.refuse("type", `one of ${Object.keys(kinds).join(", ")}`);
  }
  return new kinds[type](fields);
}

// Not a constant: spaces of spaces and this module import each other.
function kindsOf() {
  return {
    Box,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Text,
    Dict: DictSpace,
    Tuple: TupleSpace,
    OneOf,
    Sequence,
    Graph,
  };
}

export { Space } from "./space.js";
export { Box, DictSpace, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, TupleSpace };
