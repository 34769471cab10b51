/** Sliders and pads by which a person who plays sets the numbers of a Box action. */

import { h } from "./elements.js";
import { flatten, limitsOf, nest, placeOf, shapeOf, startOf } from "./widgets/plan.js";

/** Up to this many numbers there are sliders. */
const MOST = 24;
/** Pads of two numbers each, as a gamepad has sticks. */
const PADS = 2;
/** Steps of a slider. */
const STEPS = 200;

/** Whether the actions of a space are numbers that sliders can set. */
export function hasAxes(space) {
  if (space?.type !== "Box") return false;
  const limits = limitsOf(space);
  return limits !== null && limits.length >= 1 && limits.length <= MOST && !limits[0].isFlag;
}

/** Keeps an action; pads and sticks replace some of its numbers while they are held. */
export class AxesPanel {
  #shape;
  #limits;
  #rest;
  #values;
  // By number: what a pad or a stick holds.
  #held = [];
  #hasStick = false;
  #sliders;
  #knobs = [];

  /**
   * @param {object} space Of the actions: one with axes.
   * @param {unknown} noop The action of no key; undefined if there is none.
   */
  constructor(space, noop) {
    this.#shape = shapeOf(space);
    this.#limits = limitsOf(space).map(bounded);
    const first = noop === undefined ? this.#limits.map(startOf) : flatten(noop);
    this.#rest = first.map(Number);
    this.#values = [...this.#rest];
    this.#sliders = this.#limits.map((limits, i) => this.#slider(limits, `action${placeOf(i, this.#shape)}`, i));
    const pads = Math.min(PADS, Math.floor(this.#limits.length / 2));
    this.element = h(
      "div",
      { class: "axes" },
      ...Array.from({ length: pads }, (_, i) => this.#pad(2 * i)),
      h("div", { class: "axes-sliders" }, ...this.#sliders.map(({ element }) => element)),
    );
  }

  /** The action at present, as nested lists. */
  action() {
    const flat = this.#values.map((value, i) => this.#held[i] ?? value);
    return nest(flat.map((value, i) => (this.#limits[i].isInteger ? Math.round(value) : value)), this.#shape);
  }

  /** Follow the sticks of a gamepad, from -1 to 1; null while they rest. */
  setSticks(sticks) {
    if (!sticks && !this.#hasStick) return;
    this.#hasStick = sticks !== null;
    this.#limits.slice(0, 4).forEach((_, i) => this.#hold(i, sticks ? (sticks[i] ?? 0) : null));
  }

  #slider(limits, name, index) {
    const { low, high, isInteger } = limits;
    const step = isInteger ? 1 : (high - low) / STEPS;
    const slider = h("input", { type: "range", min: String(low), max: String(high), step: String(step) });
    const shown = h("output", {});
    const set = (value) => {
      slider.value = String(value);
      shown.textContent = String(Number(Number(value).toPrecision(3)));
    };
    slider.addEventListener("input", () => {
      this.#values[index] = slider.valueAsNumber;
      set(this.#values[index]);
    });
    set(this.#values[index]);
    return { element: h("label", {}, h("span", {}, name), slider, shown), set };
  }

  /** Hold a number at a place from -1 to 1 around its rest; null lets it go. */
  #hold(index, place) {
    const { low, high } = this.#limits[index];
    const rest = this.#rest[index];
    if (place === null) delete this.#held[index];
    else this.#held[index] = rest + place * (place < 0 ? rest - low : high - rest);
    this.#sliders[index].set(this.#held[index] ?? this.#values[index]);
    const knob = this.#knobs[index >> 1];
    knob?.style.setProperty(index % 2 ? "top" : "left", `${50 + (index % 2 ? -50 : 50) * (place ?? 0)}%`);
  }

  #pad(index) {
    const knob = h("span", { class: "axes-knob" });
    // The sliders have names and keys for those who cannot point.
    const pad = h("div", { class: "axes-pad", "aria-hidden": "true" }, knob);
    this.#knobs.push(knob);
    const follow = (event) => {
      if (!pad.hasPointerCapture(event.pointerId)) return;
      const { left, top, width, height } = pad.getBoundingClientRect();
      this.#hold(index, within((2 * (event.clientX - left)) / width - 1));
      this.#hold(index + 1, within(1 - (2 * (event.clientY - top)) / height));
    };
    const leave = () => [index, index + 1].forEach((each) => this.#hold(each, null));
    pad.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      pad.setPointerCapture(event.pointerId);
      follow(event);
    });
    pad.addEventListener("pointermove", follow);
    for (const kind of ["pointerup", "pointercancel"]) pad.addEventListener(kind, leave);
    return pad;
  }
}

function within(place) {
  return Math.min(1, Math.max(-1, place));
}

/** Limits that a slider can have: two wide where there are none. */
function bounded(limits) {
  let [low, high] = [Number(limits.low), Number(limits.high)];
  // The largest floats are no limits, either.
  const [isOpen, isAbove] = [low < -1e6, high > 1e6];
  if (isOpen) low = isAbove ? -1 : high - 2;
  if (isAbove) high = low + 2;
  return { ...limits, low, high };
}
