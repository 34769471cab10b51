/** `Opaque`: a space of a class that Gymnasium does not have. */

import { Fields } from "./fields.js";
import { Space } from "./space.js";

/** A space of a class that Gymnasium does not have. Only the server knows its elements. */
export class Opaque extends Space {
  /**
   * @param {object} description As `{class: "minigrid.core.mission:MissionSpace"}`.
   * @param {(description: object) => Space} [spaceOf] Makes the space of its `base`, which
   *   is left out without it.
   */
  constructor(description, spaceOf = () => null) {
    super();
    const fields = description instanceof Fields ? description : new Fields(description);
    this.class = fields.text("class");
    this.repr = fields.get("repr", null) === null ? null : fields.text("repr");
    const base = fields.get("base", null);
    this.base = base === null ? null : spaceOf(fields.inner("base", base));
    this.arguments = fields.get("arguments", null);
  }

  contains(_value) {
    throw this.#unknown("test elements of", "POST …/action_space/contains or …/observation_space/contains");
  }

  sample(_random = Math.random) {
    throw this.#unknown("sample", "GET …/action_space/sample or …/observation_space/sample");
  }

  #unknown(verb, request) {
    const words = `only the server can ${verb} ${this.class}, which is no class of Gymnasium's`;
    return new TypeError(`${words}: send ${request}`);
  }

  toJSON() {
    const base = this.base?.toJSON() ?? null;
    const made = this.arguments === null ? {} : { arguments: this.arguments };
    return { type: "Opaque", class: this.class, repr: this.repr, base, ...made };
  }

  fromPlain(plain) {
    return plain;
  }
}
