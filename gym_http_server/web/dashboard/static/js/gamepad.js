/** Gamepads: which keys of an environment they hold, and where their sticks are. No DOM. */

/** Beyond this, a stick means a direction; below the other, it rests. */
const HALF = 0.5;
const REST = 0.15;
/** The keys for a direction, of which the first that an environment has is meant. */
const KEYS = {
  up: ["ArrowUp", "KeyW"],
  down: ["ArrowDown", "KeyS"],
  left: ["ArrowLeft", "KeyA"],
  right: ["ArrowRight", "KeyD"],
};
/** Buttons of the directional pad in the standard mapping; all others are for other keys. */
const CROSS = { up: 12, down: 13, left: 14, right: 15 };
const OTHERS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/** What the controls of a gamepad mean, in place of keys. */
export class GamepadMap {
  // A key for each button of the cross, and for each other button.
  #cross;
  #others;

  /** @param {string[]} codes The keys that an environment has. */
  constructor(codes) {
    const found = (direction) => KEYS[direction].find((code) => codes.includes(code));
    this.#cross = Object.fromEntries(Object.keys(KEYS).map((each) => [each, found(each)]));
    const used = Object.values(this.#cross);
    const rest = codes.filter((code) => !used.includes(code));
    this.#others = OTHERS.map((_, i) => rest[i]);
  }

  /** Follow a change of keys, as of `KeyMap.replace`. */
  replace(code, other) {
    const swapped = (each) => (each === code ? other : each === other ? code : each);
    for (const direction of Object.keys(this.#cross)) this.#cross[direction] = swapped(this.#cross[direction]);
    this.#others = this.#others.map(swapped);
  }

  /**
   * Find the keys that a gamepad holds.
   *
   * @param {Gamepad} pad
   * @param {(codes: string[]) => boolean} isBound Whether keys have an action together.
   * @returns {Set<string>}
   */
  held(pad, isBound) {
    const isPressed = (button) => Boolean(pad.buttons[button]?.pressed);
    const codes = OTHERS.filter(isPressed).map((button) => this.#others[button]);
    for (const [direction, button] of Object.entries(CROSS)) {
      if (isPressed(button)) codes.push(this.#cross[direction]);
    }
    return new Set([...codes, ...this.#ofStick(pad, isBound)].filter(Boolean));
  }

  #ofStick({ axes: [x = 0, y = 0] }, isBound) {
    const sideways = this.#cross[x < 0 ? "left" : "right"];
    const upright = this.#cross[y < 0 ? "up" : "down"];
    const meant = [];
    if (Math.abs(x) > HALF && sideways) meant.push(sideways);
    if (Math.abs(y) > HALF && upright) meant.push(upright);
    if (meant.length < 2 || isBound(meant)) return meant;
    return [Math.abs(x) > Math.abs(y) ? sideways : upright];
  }
}

/**
 * Find where the sticks of a gamepad are.
 *
 * @param {Gamepad} pad
 * @returns {number[] | null} From -1 to 1, to the right and upwards; null while all rest.
 */
export function sticksOf({ axes }) {
  const values = [...axes].slice(0, 4).map((each, i) => (Math.abs(each) > REST ? (i % 2 ? -each : each) : 0));
  return values.some(Boolean) ? values : null;
}
