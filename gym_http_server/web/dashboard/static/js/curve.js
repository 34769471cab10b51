/** Curves as SVG, with axes, and with the value under the pointer or chosen by keys. */

import { nearest, numberText, rangeOf, scaled, ticksOf } from "./chart_scale.js";
import { h } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [420, 160];
const PLOT = { left: 52, right: WIDTH - 8, top: 8, bottom: HEIGHT - 22 };
/** How many points a curve keeps. */
const KEPT = 2000;
/** Keys, and by how many points each of them moves. */
const MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

/** Make an element of SVG. */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Make a curve.
 *
 * @param {{ label: string, unit: string, along?: string }} names What the values are, their
 *   unit, and what they are drawn over.
 * @returns {{ element: Element, add(x: number, y: number): void,
 *   set(points: { x: number, y: number }[]): void }}
 */
export function curve({ label, unit, along = "episode" }) {
  const drawn = new Curve(label, unit, along);
  return {
    element: drawn.element,
    add: (x, y) => drawn.add(x, y),
    set: (points) => drawn.set(points),
  };
}

class Curve {
  #names;
  #points = [];
  #chosen = null;
  #ranges = { xs: [0, 1], ys: [0, 1] };
  #isDue = false;
  #output = h("output", { class: "curve-value" });
  #axes = svg("g", { class: "curve-axes" });
  #line = svg("polyline", { class: "curve-line", points: "" });
  #mark = svg("circle", { class: "curve-mark", r: 4, visibility: "hidden" });
  #slider;

  constructor(label, unit, along) {
    this.#names = { label, unit, along };
    this.#slider = svg(
      "svg",
      { class: "curve-plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "slider" },
      this.#axes,
      this.#line,
      this.#mark,
    );
    this.#slider.setAttribute("aria-label", `${label}, by ${along}`);
    this.#slider.addEventListener("pointermove", (event) => this.#point(event));
    this.#slider.addEventListener("pointerleave", () => this.#choose(null));
    this.#slider.addEventListener("keydown", (event) => this.#move(event));
    const title = h("span", { class: "curve-title" }, unit ? `${label} (${unit})` : label);
    this.element = h("figure", { class: "curve" }, h("figcaption", {}, title, this.#output), this.#slider);
    this.#draw();
  }

  add(x, y) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    this.#points.push({ x, y });
    if (this.#points.length > KEPT) {
      this.#points.shift();
      if (this.#chosen !== null) this.#chosen = Math.max(0, this.#chosen - 1);
    }
    this.#soon();
  }

  set(points) {
    const finite = points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
    this.#points = finite.slice(-KEPT);
    this.#chosen = null;
    this.#soon();
  }

  /** Draw once in the next frame, however many points arrive before. */
  #soon() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#draw();
    });
  }

  #draw() {
    const points = this.#points;
    const xs = rangeOf(points.length ? [points[0].x, points.at(-1).x] : []);
    const ys = rangeOf(points.map(({ y }) => y));
    this.#ranges = { xs, ys };
    this.#line.setAttribute("points", points.map((point) => this.#place(point).join(",")).join(" "));
    this.#axes.replaceChildren(...this.#across(ys), ...this.#below(xs));
    this.#show();
  }

  #place({ x, y }) {
    const { xs, ys } = this.#ranges;
    const across = scaled(x, xs, [PLOT.left, PLOT.right]);
    const down = scaled(y, ys, [PLOT.bottom, PLOT.top]);
    return [across.toFixed(1), down.toFixed(1)];
  }

  #across(range) {
    return ticksOf(...range, 4).flatMap((value) => {
      const y = scaled(value, range, [PLOT.bottom, PLOT.top]);
      const text = svg("text", { x: PLOT.left - 6, y: y + 3, "text-anchor": "end" });
      text.textContent = numberText(value);
      return [svg("line", { x1: PLOT.left, x2: PLOT.right, y1: y, y2: y }), text];
    });
  }

  #below(range) {
    return ticksOf(...range, 5).flatMap((value) => {
      const x = scaled(value, range, [PLOT.left, PLOT.right]);
      const text = svg("text", { x, y: HEIGHT - 6, "text-anchor": "middle" });
      text.textContent = numberText(value);
      return [svg("line", { x1: x, x2: x, y1: PLOT.bottom, y2: PLOT.bottom + 4 }), text];
    });
  }

  #point(event) {
    const box = this.#slider.getBoundingClientRect();
    const across = scaled(event.clientX, [box.left, box.right], [0, WIDTH]);
    const x = scaled(across, [PLOT.left, PLOT.right], this.#ranges.xs);
    this.#choose(this.#points.length ? nearest(this.#points, x) : null);
  }

  #move(event) {
    const last = this.#points.length - 1;
    if (last < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const from = this.#chosen ?? last;
    let to;
    if (event.key === "Home") to = 0;
    else if (event.key === "End") to = last;
    else if (Object.hasOwn(MOVES, event.key)) to = from + MOVES[event.key];
    else return;
    event.preventDefault();
    this.#choose(Math.min(last, Math.max(0, to)));
  }

  #choose(index) {
    this.#chosen = index;
    this.#show();
  }

  /** Print the chosen point, or the last one. */
  #show() {
    const { label, unit, along } = this.#names;
    const points = this.#points;
    const index = this.#chosen ?? points.length - 1;
    const point = points[index];
    const value = point && `${numberText(point.y)}${unit ? ` ${unit}` : ""}`;
    const text = point ? `${along} ${numberText(point.x)}: ${value}` : "nothing yet";
    this.#output.textContent = text;
    this.#mark.setAttribute("visibility", point && this.#chosen !== null ? "visible" : "hidden");
    if (point) {
      const [x, y] = this.#place(point);
      this.#mark.setAttribute("cx", x);
      this.#mark.setAttribute("cy", y);
    }
    this.#slider.setAttribute("aria-valuemin", "0");
    this.#slider.setAttribute("aria-valuemax", String(Math.max(0, points.length - 1)));
    this.#slider.setAttribute("aria-valuenow", String(Math.max(0, index)));
    this.#slider.setAttribute("aria-valuetext", `${label}, ${text}`);
  }
}
