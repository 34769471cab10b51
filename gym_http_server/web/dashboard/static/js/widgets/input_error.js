/** Input that does not fit a space. */

/** What somebody entered is no element of the space. */
export class InputError extends Error {
  /**
   * @param {string} name The control's name, such as `action.left[2]`.
   * @param {unknown} value What was entered.
   * @param {string} expected What would fit.
   */
  constructor(name, value, expected) {
    super(`${name} is ${typeof value === "string" ? JSON.stringify(value) : value}: expected ${expected}`);
    this.name = "InputError";
  }
}
