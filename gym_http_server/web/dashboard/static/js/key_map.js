/** Which keys mean which action. No DOM. */

/**
 * The keys of an environment, by `KeyboardEvent.code`.
 *
 * As in Gymnasium's `play`, the sorted keys that are held select the action. A combination
 * without an action selects the no-op.
 */
export class KeyMap {
  #bindings;
  #noop;

  /**
   * @param {{ keys: string[], action: unknown }[]} bindings
   * @param {unknown} noop The action of no key; undefined if there is none.
   */
  constructor(bindings, noop) {
    this.#bindings = bindings.map(({ keys, action }) => ({ keys: [...keys].sort(), action }));
    this.#noop = noop;
  }

  /** Copies of all bindings, in their order. */
  get bindings() {
    return this.#bindings.map(({ keys, action }) => ({ keys: [...keys], action }));
  }

  /** All keys that are in a binding, in their order. */
  get codes() {
    return [...new Set(this.#bindings.flatMap(({ keys }) => keys))];
  }

  /** The action of no key. */
  get noop() {
    return this.#noop;
  }

  has(code) {
    return this.#bindings.some(({ keys }) => keys.includes(code));
  }

  /**
   * Find the action of the keys that are held; the no-op if they have none.
   *
   * @param {Iterable<string>} held
   */
  action(held) {
    return this.bound(held) ? this.bound(held).action : this.#noop;
  }

  /** Find the binding of the keys that are held; undefined if there is none. */
  bound(held) {
    const name = [...held].sort().join(" ");
    return this.#bindings.find(({ keys }) => keys.join(" ") === name);
  }

  /** Use another key in place of one; if it has a meaning, both change places. */
  replace(code, other) {
    const swap = new Map([[code, other], [other, code]]);
    this.#bindings = this.#bindings.map(({ keys, action }) => ({
      keys: keys.map((each) => swap.get(each) ?? each).sort(),
      action,
    }));
  }
}

/** The keys that are held at present, of those that a map has. */
export class HeldKeys {
  #codes = new Set();

  constructor(map) {
    this.map = map;
  }

  /** Note that a key went down; returns whether it has a meaning. */
  press(code) {
    if (!this.map.has(code)) return false;
    this.#codes.add(code);
    return true;
  }

  release(code) {
    this.#codes.delete(code);
  }

  releaseAll() {
    this.#codes.clear();
  }

  [Symbol.iterator]() {
    return this.#codes[Symbol.iterator]();
  }
}

const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

/** A short name of a key: `A` of `KeyA`, `1` of `Digit1`. */
export function keyName(code) {
  return NAMES[code] ?? code.replace(/^(Key|Digit)(?=.$)/, "");
}
