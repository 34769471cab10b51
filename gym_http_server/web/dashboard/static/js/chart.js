/**
 * Charts: lines that are smoothed, zoomed, read by pointer or keys, and listed as a table.
 *
 * A `ChartGroup` has the charts of a view, which share their x and the strength of smoothing:
 *
 *     const group = new ChartGroup(["episode", "step", "time"]);
 *     const returns = group.chart({ label: "Return" });
 *     returns.series("dqn, seed 1").add({ episode: 0, step: 21, time: 0.4, y: 21 });
 *     view.append(group.controls, h("div", { class: "charts" }, returns.element));
 */

import {
  decimated,
  exactTime,
  firstFrom,
  nearest,
  numberText,
  rangeOf,
  scaled,
  smoothed,
  tickText,
  ticksOf,
  timeText,
  timeTicksOf,
} from "./chart_scale.js";
import { action, h, svg } from "./elements.js";
import { keep, kept } from "./preferences.js";

/** What x can be: how its axis is named, and how its values are printed. */
const AXES = {
  episode: { name: "Episode", print: numberText },
  step: { name: "Step", print: numberText },
  version: { name: "Version", print: numberText },
  time: { name: "Time", print: exactTime },
};
const HEIGHT = 190;
const MARGIN = { left: 48, right: 10, top: 14, bottom: 24 };
/** Points that a series keeps at least; the oldest are left out in portions. */
const KEPT = 20_000;
const PORTION = 2000;
/** Series that have a colour of their own. */
const COLOURS = 8;
/** Rows of the table of values, at most. */
const ROWS = 100;
/** Pixels by which a pointer is dragged at least to zoom. */
const DRAGGED = 6;
/** Keys, and by how many points each of them moves. */
const MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
/** The strengths to choose, which the slider of smoothing has as positions. */
const STRENGTHS = [0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];

/**
 * A point of a series.
 *
 * @typedef {{ y: number, episode?: number, step?: number, time?: number, version?: number }} Point
 *   With an x for each of the chart's axes, ascending; `time` is in seconds.
 */

/** The charts of a view: they have the same x and the same smoothing. */
export class ChartGroup {
  #charts = [];
  #along;
  #weight;

  /**
   * @param {(keyof AXES)[]} along What x can be, the first by default; the choice is kept.
   */
  constructor(along = ["episode", "step", "time"]) {
    const before = kept("charts.along", "");
    this.#along = along.includes(before) ? before : along[0];
    this.#weight = kept("charts.smoothing", 0.8);
    this.controls = h("div", { class: "chart-controls" }, ...this.#axes(along), this.#smoothing());
  }

  /**
   * Make a chart.
   *
   * @param {{ label: string, unit?: string, along?: (keyof AXES)[], empty?: string }} names What
   *   the values are, their unit, the axes if not those of the group, and what is shown while
   *   there are no values.
   * @returns {Chart}
   */
  chart(names) {
    const made = new Chart({ unit: "", along: null, empty: "Nothing yet", ...names });
    made.shape(this.#along, this.#weight);
    this.#charts.push(made);
    return made;
  }

  #axes(along) {
    if (along.length < 2) return [];
    const choose = (event) => {
      this.#along = event.target.value;
      keep("charts.along", this.#along);
      this.#shape();
    };
    const options = along.map((each) => h("option", { value: each }, AXES[each].name.toLowerCase()));
    const select = h("select", {}, ...options);
    select.value = this.#along;
    select.addEventListener("change", choose);
    return [h("label", {}, h("span", {}, "By"), select)];
  }

  #smoothing() {
    const at = Math.max(0, STRENGTHS.indexOf(this.#weight));
    const slider = h("input", { type: "range", min: "0", max: String(STRENGTHS.length - 1), step: "1", value: String(at) });
    const output = h("output", {});
    const print = () => {
      const words = this.#weight ? String(this.#weight) : "off";
      output.textContent = words;
      slider.setAttribute("aria-valuetext", words);
    };
    slider.addEventListener("input", () => {
      this.#weight = STRENGTHS[Number(slider.value)];
      keep("charts.smoothing", this.#weight);
      print();
      this.#shape();
    });
    print();
    return h("label", {}, h("span", {}, "Smoothing"), slider, output);
  }

  #shape() {
    for (const each of this.#charts) each.shape(this.#along, this.#weight);
  }
}

/** A line of a chart. */
class Series {
  points = [];
  isShown = true;
  // Of the axis and the smoothing for which it was last drawn.
  xs = [];
  ys = [];
  smooth = [];

  constructor(label, index, onChange) {
    this.label = label;
    this.ink = `series-${(index % COLOURS) + 1}`;
    this.onChange = onChange;
  }

  /** Append a point; one that is not finite is left out. */
  add(point) {
    if (!Number.isFinite(point.y)) return;
    this.points.push(point);
    if (this.points.length > KEPT + PORTION) this.points.splice(0, PORTION);
    this.onChange();
  }

  /** Replace all points. */
  set(points) {
    this.points = points.filter(({ y }) => Number.isFinite(y)).slice(-KEPT);
    this.onChange();
  }

  prepare(along, weight) {
    const known = this.points.filter((each) => Number.isFinite(each[along]));
    this.xs = known.map((each) => each[along]);
    this.ys = known.map(({ y }) => y);
    this.smooth = smoothed(this.ys, weight);
  }
}

/** One plot; made by a `ChartGroup`. */
class Chart {
  #names;
  #series = [];
  #along = "episode";
  #weight = 0;
  #zoom = null;
  // The x that a person points at or has chosen by keys.
  #chosen = null;
  #dragged = null;
  #isDue = false;
  #width = 0;
  #later = 0;
  #listed = -Infinity;
  #ranges = { xs: [0, 1], ys: [0, 1] };
  #output = h("output", { class: "curve-value", "aria-live": "off" });
  #legend = h("ul", { class: "chart-legend", hidden: "" });
  #whole = action("Whole range", () => this.#zoomTo(null), { class: "quiet chart-whole", hidden: "" });
  #axes = svg("g", { class: "curve-axes" });
  #lines = svg("svg", { class: "chart-lines" });
  #cross = svg("line", { class: "chart-cross", visibility: "hidden" });
  #marks = svg("g", {});
  #selection = svg("rect", { class: "chart-selection", visibility: "hidden" });
  #slider = svg("svg", { class: "curve-plot", tabindex: 0, role: "slider", height: HEIGHT });
  #tip = h("div", { class: "chart-tip", "aria-hidden": "true", hidden: "" });
  #empty;
  #body = h("div", { class: "table" });
  #table = h("details", { class: "chart-table" }, h("summary", {}, "Values"), this.#body);

  constructor(names) {
    this.#names = names;
    this.#empty = h("p", { class: "chart-empty soft" }, names.empty);
    this.#slider.append(this.#axes, this.#lines, this.#selection, this.#cross, this.#marks);
    const title = h("span", { class: "curve-title" }, names.label);
    this.element = h(
      "figure",
      { class: "curve" },
      h("figcaption", {}, title, this.#output, this.#whole),
      h("div", { class: "chart-stage" }, this.#slider, this.#empty, this.#tip),
      this.#legend,
      this.#table,
    );
    this.#listen();
    this.series("");
    this.#show();
  }

  /**
   * Find a series by its label, or make it.
   *
   * @returns {Series} With `add(point)` and `set(points)`.
   */
  series(label) {
    const found = this.#series.find((each) => each.label === label);
    if (found) return found;
    // The first series has no name until there is another.
    const first = this.#series[0];
    if (first && first.label === "" && !first.points.length) {
      first.label = label;
      this.#drawLegend();
      return first;
    }
    const made = new Series(label, this.#series.length, () => this.#soon());
    this.#series.push(made);
    this.#drawLegend();
    return made;
  }

  /** Append a point to the first series, of a chart that has one. */
  add(point) {
    this.#series[0].add(point);
  }

  /** Remove all series. */
  clear() {
    this.#series = [];
    this.series("");
    this.#zoom = this.#chosen = null;
    this.#soon();
  }

  /** The points as they are shown: the label, the x and the lines. */
  get shown() {
    const lines = this.#shown().map(({ label, points }) => ({ label, points }));
    return { label: this.#names.label, unit: this.#names.unit, along: this.#along, lines };
  }

  /** Take another x, if the chart has it, and another strength of smoothing. */
  shape(along, weight) {
    const own = this.#names.along;
    const next = own && !own.includes(along) ? own[0] : along;
    if (next !== this.#along) this.#zoom = this.#chosen = null;
    this.#along = next;
    this.#weight = weight;
    this.#slider.setAttribute("aria-label", `${this.#names.label}, by ${AXES[next].name.toLowerCase()}`);
    this.#soon();
  }

  #shown() {
    return this.#series.filter((each) => each.isShown);
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
    for (const each of this.#series) each.prepare(this.#along, this.#weight);
    const shown = this.#shown().filter(({ xs }) => xs.length);
    const isEmpty = !shown.length;
    this.#empty.hidden = !isEmpty;
    this.#slider.classList.toggle("is-empty", isEmpty);
    this.#whole.hidden = !this.#zoom;
    const xs = this.#zoom ?? rangeOf(shown.flatMap((each) => [each.xs[0], each.xs.at(-1)]));
    const parts = shown.map((each) => {
      // With a neighbour on each side, so that lines reach the edges.
      const first = Math.max(0, firstFrom(each.xs, xs[0]) - 1);
      const end = Math.min(each.xs.length, firstFrom(each.xs, xs[1]) + 1);
      return { each, first, end };
    });
    const ys = rangeOf(parts.flatMap(({ each, first, end }) => rangeIn(each.ys, first, end)));
    this.#ranges = { xs, ys };
    if (this.#width && !isEmpty) {
      this.#axes.replaceChildren(...this.#across(ys), ...this.#below(xs));
      this.#lines.replaceChildren(...parts.flatMap(({ each, first, end }) => this.#paths(each, first, end)));
    } else {
      this.#axes.replaceChildren();
      this.#lines.replaceChildren();
    }
    this.#show();
    if (this.#table.open) this.#list();
  }

  get #plot() {
    return { left: MARGIN.left, right: this.#width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  }

  #x(value) {
    const { left, right } = this.#plot;
    return scaled(value, this.#ranges.xs, [left, right]);
  }

  #y(value) {
    const { top, bottom } = this.#plot;
    return scaled(value, this.#ranges.ys, [bottom - 6, top + 6]);
  }

  /** The line of a series and, where that is smoothed, the raw one below it. */
  #paths(each, first, end) {
    const { left, right } = this.#plot;
    const path = (ys, name) => {
      const kept = decimated(each.xs, ys, first, end, Math.max(1, right - left));
      const places = kept.map((index) => `${(this.#x(each.xs[index]) - left).toFixed(1)} ${this.#y(ys[index]).toFixed(1)}`);
      // A line of one point has no length.
      const d = places.length === 1 ? `M${places[0]}h0.01` : `M${places.join("L")}`;
      return svg("path", { class: `${name} ${each.ink}${places.length === 1 ? " chart-point" : ""}`, d });
    };
    return this.#weight ? [path(each.ys, "chart-raw"), path(each.smooth, "curve-line")] : [path(each.ys, "curve-line")];
  }

  #across(range) {
    const { left, right } = this.#plot;
    const unit = svg("text", { class: "chart-unit", x: 2, y: 10 });
    unit.textContent = this.#names.unit;
    return [
      unit,
      ...ticksOf(...range, 5).flatMap((value) => {
        const y = Math.round(this.#y(value)) + 0.5;
        const text = svg("text", { x: left - 8, y: y + 3.5, "text-anchor": "end" });
        text.textContent = tickText(value);
        return [svg("line", { x1: left, x2: right, y1: y, y2: y }), text];
      }),
    ];
  }

  #below(range) {
    const { left, right } = this.#plot;
    const isTime = this.#along === "time";
    const count = Math.max(4, Math.floor((right - left) / 80));
    const ticks = isTime ? timeTicksOf(...range, count) : ticksOf(...range, count).filter(Number.isInteger);
    const name = svg("text", { class: "chart-unit", x: right, y: HEIGHT - 5, "text-anchor": "end" });
    name.textContent = AXES[this.#along].name.toLowerCase();
    const room = name.textContent.length * 7 + 12;
    const texts = ticks
      .filter((value) => this.#x(value) < right - room)
      .map((value) => {
        const text = svg("text", { x: this.#x(value), y: HEIGHT - 5, "text-anchor": "middle" });
        text.textContent = isTime ? timeText(value) : tickText(value);
        return text;
      });
    return [...texts, name];
  }

  #listen() {
    const plot = this.#slider;
    new ResizeObserver(([{ contentRect }]) => this.#resize(contentRect.width)).observe(plot.parentNode);
    plot.addEventListener("pointerdown", (event) => this.#press(event));
    plot.addEventListener("pointermove", (event) => this.#point(event));
    plot.addEventListener("pointerup", (event) => this.#release(event));
    plot.addEventListener("pointercancel", () => this.#endDrag());
    plot.addEventListener("pointerleave", () => this.#choose(null));
    plot.addEventListener("blur", () => this.#choose(null));
    plot.addEventListener("dblclick", () => this.#zoomTo(null));
    plot.addEventListener("keydown", (event) => this.#strike(event));
    this.#table.addEventListener("toggle", () => {
      this.#listed = -Infinity;
      this.#soon();
    });
  }

  #resize(width) {
    if (width === this.#width) return;
    this.#width = width;
    const { left, right, top, bottom } = this.#plot;
    this.#slider.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const places = { x: left, y: 0, width: Math.max(0, right - left), height: HEIGHT };
    for (const [name, value] of Object.entries(places)) this.#lines.setAttribute(name, String(value));
    for (const each of [this.#selection, this.#cross]) each.setAttribute("y", String(top));
    this.#selection.setAttribute("height", String(bottom - top));
    this.#cross.setAttribute("y1", String(top));
    this.#cross.setAttribute("y2", String(bottom));
    this.#draw();
  }

  /** The x that is under a pointer. */
  #under({ clientX }) {
    const { left, right } = this.#plot;
    const place = clientX - this.#slider.getBoundingClientRect().left;
    return scaled(Math.min(right, Math.max(left, place)), [left, right], this.#ranges.xs);
  }

  #press(event) {
    // A finger reads values; on a narrow screen it would zoom by accident.
    if (event.button !== 0 || event.pointerType === "touch" || !this.#lead) return;
    this.#slider.setPointerCapture(event.pointerId);
    this.#dragged = { from: this.#under(event), at: event.clientX };
  }

  #point(event) {
    if (!this.#lead) return;
    this.#choose(this.#under(event));
    if (!this.#dragged) return;
    const [first, last] = [this.#x(this.#dragged.from), this.#x(this.#under(event))];
    this.#selection.setAttribute("visibility", "visible");
    this.#selection.setAttribute("x", String(Math.min(first, last)));
    this.#selection.setAttribute("width", String(Math.abs(last - first)));
  }

  #release(event) {
    if (!this.#dragged) return;
    const { from, at } = this.#dragged;
    this.#endDrag();
    const to = this.#under(event);
    if (Math.abs(event.clientX - at) >= DRAGGED && from !== to) this.#zoomTo([Math.min(from, to), Math.max(from, to)]);
  }

  #endDrag() {
    this.#dragged = null;
    this.#selection.setAttribute("visibility", "hidden");
  }

  #zoomTo(range) {
    // The button that shows the whole range disappears with the focus.
    if (!range && document.activeElement === this.#whole) this.#slider.focus();
    this.#zoom = range;
    this.#draw();
  }

  /** The series along whose points keys move: the longest one. */
  get #lead() {
    return this.#shown().reduce((most, each) => (each.xs.length > (most?.xs.length ?? 0) ? each : most), null);
  }

  #strike(event) {
    const lead = this.#lead;
    if (!lead || event.ctrlKey || event.altKey || event.metaKey) return;
    const last = lead.xs.length - 1;
    const from = this.#chosen === null ? last : nearest(lead.xs, this.#chosen);
    if (event.key === "Home") this.#choose(lead.xs[0]);
    else if (event.key === "End") this.#choose(lead.xs[last]);
    else if (Object.hasOwn(MOVES, event.key)) this.#choose(lead.xs[Math.min(last, Math.max(0, from + MOVES[event.key]))]);
    else if (event.key === "+") this.#zoomAround(lead.xs[from], 0.5);
    else if (event.key === "-") this.#zoomAround(lead.xs[from], 2);
    else if (event.key === "Escape" && this.#zoom) this.#zoomTo(null);
    else return;
    event.preventDefault();
  }

  #zoomAround(x, factor) {
    const { xs, ys } = this.#ranges;
    const whole = rangeOf(this.#shown().flatMap((each) => [each.xs[0], each.xs.at(-1)]));
    const half = ((xs[1] - xs[0]) / 2) * factor;
    const range = [Math.max(whole[0], x - half), Math.min(whole[1], x + half)];
    const isWhole = range[0] <= whole[0] && range[1] >= whole[1];
    if (isWhole || (ys && range[1] > range[0])) this.#zoomTo(isWhole ? null : range);
  }

  #choose(x) {
    this.#chosen = x;
    this.#show();
  }

  /** Print the values at the chosen x, or the last ones. */
  #show() {
    const lead = this.#lead;
    const { label, unit } = this.#names;
    const last = lead ? lead.xs.length - 1 : -1;
    const index = this.#chosen === null ? last : nearest(lead?.xs ?? [], this.#chosen);
    const x = lead?.xs[index];
    const shown = this.#shown().filter(({ xs }) => xs.length);
    const found = lead ? shown.map((each) => ({ each, at: nearest(each.xs, x) })) : [];
    const where = lead ? this.#where(x) : "";
    const printed = ({ each, at }) => `${each.label && shown.length > 1 ? `${each.label} ` : ""}${numberText(each.ys[at])}`;
    const suffix = unit ? ` ${unit}` : "";
    const text = lead ? `${where}: ${found.map(printed).join(", ")}${suffix}` : "no values";
    this.#output.textContent = shown.length > 1 ? where : text;
    this.#mark(found, x, where);
    const plot = this.#slider;
    plot.setAttribute("aria-valuemin", "0");
    plot.setAttribute("aria-valuemax", String(Math.max(0, last)));
    plot.setAttribute("aria-valuenow", String(Math.max(0, index)));
    plot.setAttribute("aria-valuetext", `${label}, ${text}`);
  }

  #where(x) {
    const { name, print } = AXES[this.#along];
    return this.#along === "time" ? print(x) : `${name.toLowerCase()} ${print(x)}`;
  }

  /** Draw what marks the chosen x: a line, a dot on each series, and a note beside them. */
  #mark(found, x, where) {
    const isMarked = this.#chosen !== null && found.length > 0 && this.#width > 0;
    const [low, high] = this.#ranges.xs;
    const isInside = isMarked && x >= low && x <= high;
    this.#tip.hidden = !isInside;
    this.#cross.setAttribute("visibility", isInside ? "visible" : "hidden");
    this.#marks.replaceChildren();
    if (!isInside) return;
    const place = this.#x(x);
    for (const name of ["x1", "x2"]) this.#cross.setAttribute(name, String(place));
    const dot = ({ each, at }) => svg("circle", { class: `curve-mark ${each.ink}`, r: 3.5, cx: this.#x(each.xs[at]), cy: this.#y(each.ys[at]) });
    this.#marks.replaceChildren(...found.map(dot));
    this.#tip.replaceChildren(h("strong", {}, where), ...found.map((each) => this.#note(each)));
    const isLeft = place > this.#width / 2;
    this.#tip.style.left = isLeft ? "" : `${place + 10}px`;
    this.#tip.style.right = isLeft ? `${this.#width - place + 10}px` : "";
  }

  #note({ each, at }) {
    const unit = this.#names.unit ? ` ${this.#names.unit}` : "";
    const mean = this.#weight ? h("span", { class: "soft" }, ` ~ ${numberText(each.smooth[at])}`) : "";
    const value = h("b", {}, `${numberText(each.ys[at])}${unit}`);
    return h("span", { class: "chart-note" }, swatch(each), each.label ? `${each.label} ` : "", value, mean);
  }

  #drawLegend() {
    const named = this.#series.filter(({ label }) => label);
    this.#legend.hidden = named.length < 2;
    this.#legend.replaceChildren(
      ...named.map((each) => {
        const button = h("button", { type: "button", class: "quiet", "aria-pressed": String(each.isShown) }, swatch(each), each.label);
        button.addEventListener("click", () => {
          each.isShown = !each.isShown;
          button.setAttribute("aria-pressed", String(each.isShown));
          this.#soon();
        });
        return h("li", {}, button);
      }),
    );
  }

  /** Fill in the table, once a second at most. */
  #list() {
    const now = performance.now();
    const lead = this.#lead;
    if (!lead) return;
    if (now - this.#listed < 1000) {
      clearTimeout(this.#later);
      this.#later = setTimeout(() => this.#soon(), 1000);
      return;
    }
    this.#listed = now;
    const count = lead.xs.length;
    const rows = Math.min(ROWS, count);
    const chosen = Array.from({ length: rows }, (_, row) => (rows === 1 ? 0 : Math.round((row * (count - 1)) / (rows - 1))));
    const shown = this.#shown().filter(({ xs }) => xs.length);
    const { label, unit } = this.#names;
    const heads = [AXES[this.#along].name, ...shown.map((each) => each.label || label)];
    const words = `${label}${unit ? ` (${unit})` : ""}${rows < count ? `, ${rows} of ${count} points` : ""}`;
    const cells = chosen.map((index) => {
      const x = lead.xs[index];
      const values = shown.map((each) => numberText(each.ys[nearest(each.xs, x)]));
      const texts = [AXES[this.#along].print(x), ...values].map((each) => h("td", { class: "number" }, each));
      return h("tr", {}, ...texts);
    });
    const head = h("tr", {}, ...heads.map((each) => h("th", { scope: "col", class: "number" }, each)));
    this.#body.replaceChildren(h("table", {}, h("caption", {}, words), h("thead", {}, head), h("tbody", {}, ...cells)));
  }
}

function rangeIn(values, first, end) {
  let [low, high] = [Infinity, -Infinity];
  for (let index = first; index < end; index++) {
    low = Math.min(low, values[index]);
    high = Math.max(high, values[index]);
  }
  return [low, high];
}

function swatch({ ink }) {
  return h("i", { class: `swatch ${ink}` });
}
