/** The base class of all spaces. */

import { Tuple } from "../scalars.js";
import { spaceText } from "./printing.js";

/**
 * A set of values, such as the actions of an environment.
 *
 * Spaces come from the server; each can be made from its description, too.
 */
export class Space {
  /** Whether a value is in the space. */
  contains(_value) {
    throw new TypeError("an abstract space contains nothing");
  }

  /**
   * Draw a value, uniformly.
   *
   * @param {() => number} [_random] Draws from 0 to 1, without 1, as Math.random does.
   */
  sample(_random = Math.random) {
    throw new TypeError("an abstract space has no samples");
  }

  /** The description of which `spaceOf` makes an equal space. */
  toJSON() {
    throw new TypeError("an abstract space has no description");
  }

  /** As Gymnasium prints it. */
  toString() {
    return spaceText(this.toJSON());
  }

  /** Make an element from plain JSON. */
  fromPlain(_plain) {
    throw new TypeError("an abstract space has no elements");
  }

  /** Make one batch of elements, as Graphs and stacked Sequences hold them. */
  stack(items) {
    return Tuple.from(items);
  }

  /** Split a batch into its elements; undefined if it is not a batch. */
  unstack(batch) {
    return Array.isArray(batch) ? [...batch] : undefined;
  }
}
