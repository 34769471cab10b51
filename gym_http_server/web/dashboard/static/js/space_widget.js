/** Widgets of spaces: controls with which a person enters an element. */

import { Float } from "../../v1/external/client/scalars.js";
import { plainTree } from "../../v1/external/client/plain.js";
import { spaceOf } from "../../v1/external/client/spaces/index.js";
import { arrayWidget } from "./widgets/arrays.js";
import { dictWidget, oneOfWidget, sequenceWidget, tupleWidget } from "./widgets/containers.js";
import { graphWidget } from "./widgets/graphs.js";
import { initialOf, isOpaque } from "./widgets/plan.js";
import { jsonWidget, textWidget } from "./widgets/texts.js";

const MAKERS = {
  Box: arrayWidget,
  Discrete: arrayWidget,
  MultiBinary: arrayWidget,
  MultiDiscrete: arrayWidget,
  Text: textWidget,
  Dict: dictWidget,
  Tuple: tupleWidget,
  OneOf: oneOfWidget,
  Sequence: sequenceWidget,
  Graph: graphWidget,
  Opaque: (space, name) => jsonWidget(initialOf(space), `${name} of ${space.class}`),
};
const ARRAYS = new Set(["Box", "Discrete", "MultiBinary", "MultiDiscrete"]);

/**
 * Make the widget of a space.
 *
 * @param {object} space Its description, with a `type`.
 * @param {string} [name] What its controls are called.
 * @param {() => Promise<unknown>} [draw] Asks the server for an element of an opaque space.
 * @returns {{ element: Element, value(): unknown, set(value: unknown): void,
 *   sample(): Promise<void> | void }} Values are plain: lists, objects, numbers, strings.
 *   `value` throws an `InputError` for input that is no element.
 */
export function widget(space, name = "action", draw = undefined) {
  const made = makeWidget(space, name);
  if (draw && isOpaque(space)) return { ...made, sample: async () => made.set(await draw()) };
  const parsed = spaceOf(space);
  return { ...made, sample: () => made.set(plainOf(parsed.sample())) };
}

function makeWidget(space, name) {
  // The parts of a batch of others are arrays of arrays, which lists do not show.
  const isBatch = space.type === "Sequence" && space.stack && !ARRAYS.has(space.space.type);
  const isGraphOfOthers = space.type === "Graph" && !isGraphOfArrays(space);
  if ((isBatch || isGraphOfOthers) && isOpaque(space)) return jsonWidget(null, name);
  if (isBatch || isGraphOfOthers) return jsonWidget(plainOf(spaceOf(space).sample()), name);
  return MAKERS[space.type](space, name, makeWidget) ?? jsonWidget(initialOf(space), name);
}

function isGraphOfArrays({ node_space, edge_space }) {
  return ARRAYS.has(node_space.type) && (edge_space === null || ARRAYS.has(edge_space.type));
}

/** Convert a value of the client to plain lists, objects, numbers and strings. */
export function plainOf(value) {
  return withoutFloats(plainTree(value));
}

function withoutFloats(tree) {
  if (tree instanceof Float) return Number(tree.value);
  if (Array.isArray(tree)) return tree.map(withoutFloats);
  if (typeof tree !== "object" || tree === null) return tree;
  return Object.fromEntries(Object.entries(tree).map(([key, each]) => [key, withoutFloats(each)]));
}
