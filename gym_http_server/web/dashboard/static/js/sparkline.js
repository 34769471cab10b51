/** A line without axes, for a figure that stands beside it. */

import { svg } from "./elements.js";

const [WIDTH, HEIGHT] = [300, 56];

/** Make a sparkline; `show` draws values, the newest last. */
export function sparkline(label) {
  const area = svg("path", { class: "spark-area" });
  const line = svg("path", { class: "spark-line", "vector-effect": "non-scaling-stroke" });
  const element = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, area, line);
  element.setAttribute("aria-label", label);
  const show = (values, room) => {
    const most = Math.max(...values, 1e-9);
    const across = WIDTH / (room - 1);
    const places = values.map((value, index) => {
      const x = WIDTH - (values.length - 1 - index) * across;
      return `${x.toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1)}`;
    });
    const isLine = places.length > 1;
    line.setAttribute("d", isLine ? `M${places.join("L")}` : "");
    const left = WIDTH - (values.length - 1) * across;
    area.setAttribute("d", isLine ? `M${left.toFixed(1)} ${HEIGHT}L${places.join("L")}L${WIDTH} ${HEIGHT}Z` : "");
  };
  return { element, show };
}
