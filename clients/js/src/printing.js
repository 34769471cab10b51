/** Arrays as text, for people. */

import { dtypeNamed } from "./dtypes.js";
import { shortest } from "./shortest_decimals.js";
import { shown, writeHex } from "./text.js";

/** How many elements are shown. */
const SHOWN = 8;

/** Show an array's dtype, shape and first elements, in C order. */
export function arrayText(array) {
  const dtype = dtypeNamed(array.dtype);
  const count = Math.min(array.size, SHOWN);
  const first = Array.from({ length: count }, (_, at) => elementText(array.element(at), dtype));
  if (array.size > SHOWN) first.push("…");
  return `NdArray(${array.dtype}, [${array.shape.join(", ")}]: ${first.join(", ") || "empty"})`;
}

function elementText(element, dtype) {
  if (typeof element === "number") return String(dtype?.kind === "f" ? shortest(element, dtype) : element);
  if (element instanceof Uint8Array) return writeHex(element);
  return typeof element === "string" ? shown(element) : String(element);
}
