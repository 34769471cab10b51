/** Widgets of Dict, Tuple, OneOf and Sequence: widgets of widgets. */

import { h } from "../elements.js";
import { InputError } from "./input_error.js";
import { initialOf } from "./plan.js";

/** How an inner widget is made: `(space, name) => widget`. @typedef {Function} Make */

function group(name, ...children) {
  return h("fieldset", { class: "widget-group" }, h("legend", {}, name), ...children);
}

/** A button that submits nothing. */
export function button(text, name, onClick) {
  const made = h("button", { type: "button", class: "button" }, text);
  made.setAttribute("aria-label", name);
  made.addEventListener("click", onClick);
  return made;
}

/** Make the widget of a Dict space. @param {Make} make */
export function dictWidget(space, name, make) {
  const members = space.spaces.map(([key, inner]) => [String(key), make(inner, `${name}.${key}`)]);
  return {
    element: group(name, ...members.map(([, inner]) => inner.element)),
    value: () => Object.fromEntries(members.map(([key, inner]) => [key, inner.value()])),
    set: (value) => members.forEach(([key, inner]) => Object.hasOwn(value, key) && inner.set(value[key])),
  };
}

/** Make the widget of a Tuple space. @param {Make} make */
export function tupleWidget(space, name, make) {
  const items = space.spaces.map((inner, i) => make(inner, `${name}[${i}]`));
  return {
    element: group(name, ...items.map(({ element }) => element)),
    value: () => items.map((each) => each.value()),
    set: (value) => items.forEach((each, i) => i < value.length && each.set(value[i])),
  };
}

/** Make the widget of a OneOf space: a choice, and the widget of what is chosen. */
export function oneOfWidget(space, name, make) {
  const inner = space.spaces.map((each, i) => make(each, `${name}[1]`, i));
  const options = space.spaces.map((each, i) => h("option", { value: String(i) }, `${i}: ${each.type}`));
  const select = h("select", {}, ...options);
  const place = h("div", {});
  const show = () => place.replaceChildren(inner[Number(select.value)].element);
  select.addEventListener("change", show);
  show();
  return {
    element: group(name, h("label", { class: "widget-number" }, h("span", {}, `${name}[0]`), select), place),
    value: () => [Number(select.value), inner[Number(select.value)].value()],
    set: ([index, value]) => {
      select.value = String(index);
      inner[index].set(value);
      show();
    },
  };
}

/** A list of widgets that grows and shrinks. */
export class WidgetList {
  #items = [];
  #place = h("div", { class: "widget-items" });

  /**
   * @param {string} name
   * @param {(name: string) => object} makeItem Makes the widget of one item.
   * @param {() => void} [onChange] Called after the number of items has changed.
   */
  constructor(name, makeItem, onChange = () => {}) {
    this.name = name;
    this.makeItem = makeItem;
    this.onChange = onChange;
    const add = button("Add", `Add an item to ${name}`, () => this.add());
    this.element = group(name, this.#place, add);
  }

  get length() {
    return this.#items.length;
  }

  add(value) {
    const item = this.makeItem(`${this.name}[${this.#items.length}]`);
    if (value !== undefined) item.set(value);
    const remove = button("Remove", `Remove ${this.name}[${this.#items.length}]`, () => this.#remove(item));
    item.row = h("div", { class: "widget-item" }, item.element, remove);
    this.#items.push(item);
    this.#place.append(item.row);
    this.onChange();
  }

  #remove(item) {
    const kept = this.#items.filter((each) => each !== item);
    try {
      // Made anew, so that the names of those behind it are right.
      this.set(kept.map((each) => each.value()));
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      this.#items = kept;
      item.row.remove();
      this.onChange();
    }
  }

  value() {
    return this.#items.map((each) => each.value());
  }

  set(values) {
    this.#items = [];
    this.#place.replaceChildren();
    for (const value of values) this.add(value);
    this.onChange();
  }
}

/** Make the widget of a Sequence space. @param {Make} make */
export function sequenceWidget(space, name, make) {
  const list = new WidgetList(name, (itemName) => make(space.space, itemName));
  list.set(initialOf(space));
  return { element: list.element, value: () => list.value(), set: (value) => list.set(value) };
}
