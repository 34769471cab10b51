/** Buttons on the screen in place of keys, for devices without a keyboard. */

import { h } from "./elements.js";
import { keyName } from "./key_map.js";

/**
 * Make a button for each key. They are shown where somebody points by finger.
 *
 * @param {string[]} codes
 * @param {(code: string) => void} press
 * @param {(code: string) => void} release
 */
export function touchKeys(codes, press, release) {
  return h("div", { class: "touch-keys" }, ...[...codes].sort().map((code) => touchKey(code, press, release)));
}

function touchKey(code, press, release) {
  const made = h("button", { type: "button", class: `touch-key ${code}`, "aria-label": `Hold ${keyName(code)}` }, keyName(code));
  made.addEventListener("pointerdown", (event) => {
    // No click, no focus and no selection: the finger plays.
    event.preventDefault();
    made.setPointerCapture(event.pointerId);
    made.classList.add("held");
    press(code);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    made.addEventListener(kind, () => {
      made.classList.remove("held");
      release(code);
    });
  }
  // A long touch would open a menu.
  made.addEventListener("contextmenu", (event) => event.preventDefault());
  return made;
}
