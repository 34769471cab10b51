/** The panel to play an instance: by keyboard, gamepad, fingers and sliders. */

import { AxesPanel, hasAxes } from "./axes_panel.js";
import { h } from "./elements.js";
import { GamepadMap, sticksOf } from "./gamepad.js";
import { KeyMap, keyName } from "./key_map.js";
import { Play } from "./play.js";
import { isDone } from "./stepper.js";
import { touchKeys } from "./touch_keys.js";
import { button } from "./widgets/containers.js";

/** Milliseconds between two prints of the pace. */
const PRINTED = 250;

/** Whether an instance can be played: by keys that it has, or by the numbers of its actions. */
export function isPlayable({ keys }, space) {
  return Boolean(keys) || hasAxes(space);
}

/** Starts and stops a `Play`, passes keys to it, and assigns other keys. */
export class PlayPanel {
  #stepper;
  #mayStep;
  #stage;
  #map;
  #play = null;
  #remapped = null;
  #printer = null;
  #axes = null;
  #gamepad;
  #padHeld = new Set();
  #poll = 0;
  #fps = h("input", { type: "number", min: "1", max: "240", step: "any" });
  #wait = h("input", { type: "checkbox" });
  #start = button("Play", "Play by keyboard", () => this.#toggle());
  #pace = h("output", { class: "pace" });
  #error = h("p", { class: "error", role: "alert" });
  #keys = h("ul", { class: "keys" });
  #touch = h("div", {});
  #events = new AbortController();

  /**
   * @param {{ keys: object[] | null, noop: unknown, wait: boolean, fps: number }} answer Of `keys/`.
   * @param {object} space Of the actions.
   * @param {import("./stepper.js").Stepper} stepper
   * @param {() => Promise<boolean>} mayStep Asks if others step the instance.
   * @param {HTMLElement} stage Gets the focus while somebody plays.
   */
  constructor(answer, space, stepper, mayStep, stage) {
    this.#stepper = stepper;
    this.#mayStep = mayStep;
    this.#stage = stage;
    this.#map = new KeyMap(answer.keys ?? [], answer.noop ?? undefined);
    this.#gamepad = new GamepadMap(this.#map.codes);
    if (hasAxes(space)) this.#axes = new AxesPanel(space, answer.noop ?? undefined);
    this.#fps.value = String(answer.fps);
    this.#wait.checked = answer.wait;
    this.#listen();
    this.#printKeys();
    const controls = h(
      "div",
      { class: "row" },
      this.#start,
      h("label", {}, h("span", {}, "Steps a second"), this.#fps),
      h("label", { class: "switch" }, this.#wait, h("span", {}, "Wait for a key")),
      this.#pace,
    );
    const assigning = this.#map.codes.length ? " Press a key below to assign another one." : "";
    const hint = h("p", { class: "hint" }, `Escape ends. A gamepad plays, too.${assigning}`);
    const axes = this.#axes ? [this.#axes.element] : [];
    this.element = h("div", { class: "play" }, controls, this.#error, this.#touch, ...axes, hint, this.#keys);
  }

  dispose() {
    this.#play?.stop();
    this.#events.abort();
  }

  #listen() {
    const { signal } = this.#events;
    addEventListener("keydown", (event) => this.#press(event), { signal, capture: true });
    addEventListener("keyup", (event) => this.#release(event), { signal, capture: true });
    addEventListener("blur", () => this.#play?.releaseAll(), { signal });
    document.addEventListener("visibilitychange", () => this.#play?.releaseAll(), { signal });
  }

  #press(event) {
    if (this.#remapped !== null) this.#assign(event);
    // Sliders and fields have keys, too.
    else if (event.code !== "Escape" && event.target.closest?.("input, select, textarea")) return;
    else if (!event.ctrlKey && !event.altKey && !event.metaKey && this.#play?.press(event.code, event.repeat)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  #release(event) {
    if (!this.#play) return;
    this.#play.release(event.code);
    // A button would take the end of a key as a click.
    if (this.#map.has(event.code)) event.preventDefault();
  }

  async #toggle() {
    if (this.#play) {
      this.#play.stop();
      return;
    }
    this.#error.textContent = "";
    const fps = Number(this.#fps.value);
    if (!(fps >= 1 && fps <= 240)) {
      this.#error.textContent = `steps a second is ${this.#fps.value}: expected a number from 1 to 240`;
      return;
    }
    if (!(await this.#mayStep()) || this.#play || this.#events.signal.aborted) return;
    this.#begin(fps);
  }

  #begin(fps) {
    const env = {
      reset: () => this.#stepper.reset(),
      step: async (action) => {
        let answer = await this.#stepper.step(action);
        while (this.#stepper.mustPass) answer = await this.#stepper.step(null);
        return { done: isDone(answer) };
      },
    };
    const onEnd = (error) => this.#ended(error);
    const analog = () => this.#axes?.action();
    this.#play = new Play(env, this.#map, { fps, wait: this.#wait.checked, analog, onEnd });
    this.#start.textContent = "Stop";
    this.#start.setAttribute("aria-label", "Stop playing");
    this.#printer = setInterval(() => this.#printPace(), PRINTED);
    this.#followGamepad();
    this.#stage.focus();
    this.#stage.scrollIntoView({ block: "nearest" });
    this.#play.start();
  }

  #ended(error) {
    clearInterval(this.#printer);
    cancelAnimationFrame(this.#poll);
    this.#padHeld.clear();
    this.#printPace();
    this.#play = null;
    this.#start.textContent = "Play";
    this.#start.setAttribute("aria-label", "Play by keyboard");
    if (this.#events.signal.aborted) return;
    this.#start.focus();
    if (error) this.#error.textContent = error.message;
  }

  #printPace() {
    const { pace, steps, episodes } = this.#play;
    const kept = pace.perSecond === null ? "" : `${pace.perSecond.toFixed(1)} steps/s · `;
    this.#pace.textContent = `${kept}${steps} steps · ${episodes} episodes`;
  }

  /** Look at the gamepad once a frame: it tells nobody of what is pressed. */
  #followGamepad() {
    this.#poll = requestAnimationFrame(() => this.#followGamepad());
    const pad = navigator.getGamepads().find((each) => each?.connected);
    if (!pad) return;
    this.#axes?.setSticks(sticksOf(pad));
    // Where a stick sets numbers, it holds no keys.
    const read = this.#axes ? { buttons: pad.buttons, axes: [] } : pad;
    const held = this.#gamepad.held(read, (codes) => Boolean(this.#map.bound(codes)));
    const before = this.#padHeld;
    this.#padHeld = held;
    for (const code of before) if (!held.has(code)) this.#play?.release(code);
    for (const code of held) if (!before.has(code)) this.#play?.press(code);
  }

  #printKeys() {
    const press = (code) => this.#play?.press(code);
    this.#touch.replaceChildren(touchKeys(this.#map.codes, press, (code) => this.#play?.release(code)));
    const rows = this.#map.bindings.map(({ keys, action }) => {
      const buttons = keys.map((code) => this.#keyButton(code));
      return h("li", {}, ...buttons, h("span", {}, ` action ${JSON.stringify(action)}`));
    });
    this.#keys.replaceChildren(...rows);
  }

  #keyButton(code) {
    const made = button(keyName(code), `Key ${code}: assign another`, () => {
      this.#remapped = code;
      made.textContent = "Press a key …";
    });
    made.addEventListener("blur", () => {
      if (this.#remapped !== code) return;
      this.#remapped = null;
      made.textContent = keyName(code);
    });
    return made;
  }

  #assign(event) {
    const code = this.#remapped;
    // With the tab key somebody leaves the button, which ends the assignment.
    if (event.code === "Tab" || event.repeat) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.code !== "Escape") {
      this.#map.replace(code, event.code);
      this.#gamepad.replace(code, event.code);
    }
    this.#stopAssigning();
  }

  #stopAssigning() {
    const index = [...this.#keys.querySelectorAll("button")].indexOf(document.activeElement);
    this.#remapped = null;
    this.#printKeys();
    this.#keys.querySelectorAll("button")[index]?.focus();
  }
}
