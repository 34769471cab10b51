/** Widgets of Box, Discrete, MultiDiscrete and MultiBinary: a control for each number. */

import { h } from "../elements.js";
import { controlOf, countOf, flagOf, flatten, initialOf, limitsOf, nest, readNumber, placeOf, shapeOf } from "./plan.js";

const CONTROLS = { switch: switchOf, select: selectOf, slider: sliderOf, number: fieldOf };

/**
 * Make the widget of a space of numbers.
 *
 * @param {object} space Its description.
 * @param {string} name
 * @returns {object | null} null if it has too many elements for controls.
 */
export function arrayWidget(space, name) {
  const limits = limitsOf(space);
  if (limits === null) return null;
  const shape = shapeOf(space);
  const isChoice = space.type === "Discrete" || space.type === "MultiDiscrete";
  const controls = limits.map((each, i) =>
    CONTROLS[controlOf(each, isChoice)](each, name + placeOf(i, shape), space),
  );
  const set = (value) => flatten(value).forEach((each, i) => controls[i]?.set(each));
  set(initialOf(space));
  return {
    element: h("div", { class: "widget-array" }, ...controls.map(({ element }) => element)),
    value: () => nest(controls.map((each) => each.value()), shape),
    set,
  };
}

function labelled(name, ...controls) {
  return h("label", { class: "widget-number" }, h("span", {}, name), ...controls);
}

function switchOf(_limits, name, space) {
  const box = h("input", { type: "checkbox" });
  return {
    element: labelled(name, box),
    value: () => flagOf(space, box.checked),
    set: (value) => (box.checked = Boolean(value)),
  };
}

function selectOf(limits, name) {
  const choices = Array.from({ length: countOf(limits) }, (_, i) => String(BigInt(limits.low) + BigInt(i)));
  const select = h("select", {}, ...choices.map((each) => h("option", { value: each }, each)));
  return {
    element: labelled(name, select),
    value: () => readNumber(select.value, limits, name),
    set: (value) => (select.value = String(value)),
  };
}

function fieldOf(limits, name) {
  // Not of the type number: that has no text to show in an error, and rounds long ones.
  const field = h("input", { type: "text", inputmode: limits.isInteger ? "numeric" : "decimal", autocomplete: "off" });
  return {
    element: labelled(name, field),
    value: () => checked(field, () => readNumber(field.value, limits, name)),
    set: (value) => (field.value = String(value)),
  };
}

function sliderOf(limits, name) {
  const [low, high] = [String(limits.low), String(limits.high)];
  const slider = h("input", { type: "range", min: low, max: high, step: limits.isInteger ? "1" : "any" });
  const field = fieldOf(limits, name);
  const text = field.element.querySelector("input");
  slider.setAttribute("aria-label", `${name}, as a slider`);
  slider.addEventListener("input", () => (text.value = rounded(slider.valueAsNumber, limits)));
  text.addEventListener("input", () => (slider.value = text.value));
  return {
    element: h("div", { class: "widget-slider" }, field.element, slider),
    value: field.value,
    set: (value) => {
      field.set(value);
      slider.value = String(value);
    },
  };
}

/** Print a slider's position with three decimals of its range, within the limits. */
function rounded(value, { low, high, isInteger }) {
  if (isInteger) return String(value);
  const decimals = Math.max(0, 3 - Math.floor(Math.log10(high - low)));
  return String(Math.min(high, Math.max(low, Number(value.toFixed(Math.min(decimals, 20))))));
}

/** Mark a field that does not fit, for eyes and screen readers. */
export function checked(field, read) {
  try {
    const value = read();
    field.removeAttribute("aria-invalid");
    return value;
  } catch (error) {
    field.setAttribute("aria-invalid", "true");
    throw error;
  }
}
