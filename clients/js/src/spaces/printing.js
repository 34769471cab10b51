/** Spaces as text, as Gymnasium prints them; arrays have commas. */

/** How many numbers of an array are shown. */
const SHOWN = 8;

const PRINTERS = {
  Box: ({ low, high, shape, dtype }) =>
    `Box(${numbers(low, dtype)}, ${numbers(high, dtype)}, ${tuple(shape)}, ${dtype})`,
  Discrete: ({ n, start, dtype }) =>
    `Discrete(${n}${start === 0 ? "" : `, start=${start}`}${dtype === "int64" ? "" : `, dtype=${dtype}`})`,
  MultiBinary: ({ n }) => `MultiBinary(${Array.isArray(n) ? tuple(n) : n})`,
  MultiDiscrete: ({ nvec, start, shape }) =>
    `MultiDiscrete(${filled(nvec, shape)}${start === 0 || start.length === 0 ? "" : `, start=${filled(start, shape)}`})`,
  Text: ({ min_length, max_length, charset }) => `Text(${min_length}, ${max_length}, charset=${charset})`,
  Dict: ({ spaces }) => `Dict(${spaces.map(([key, space]) => `${keyText(key)}: ${spaceText(space)}`).join(", ")})`,
  Tuple: ({ spaces }) => `Tuple(${spaces.map(spaceText).join(", ")})`,
  OneOf: ({ spaces }) => `OneOf(${spaces.map(spaceText).join(", ")})`,
  Sequence: ({ space, stack }) => `Sequence(${spaceText(space)}, stack=${pythonFlag(stack)})`,
  Graph: ({ node_space, edge_space }) =>
    `Graph(${spaceText(node_space)}, ${edge_space ? spaceText(edge_space) : "None"})`,
  Opaque: (space) => space.repr ?? space.class,
};

/** Print the space of a description, as `toJSON` of spaces returns it. */
export function spaceText(description) {
  return PRINTERS[description.type](description);
}

function numbers(reply, dtype) {
  return Array.isArray(reply) ? list(reply.map((each) => numberText(each, dtype))) : numberText(reply, dtype);
}

/** An array of which the description may have only the one number that is everywhere. */
function filled(reply, shape) {
  const size = shape.reduce((product, each) => product * each, 1);
  return list(Array.isArray(reply) ? reply : new Array(Math.min(size, SHOWN + 1)).fill(reply));
}

function list(items) {
  const more = items.length > SHOWN ? ", …" : "";
  return `[${items.slice(0, SHOWN).join(", ")}${more}]`;
}

function tuple(sizes) {
  return sizes.length === 1 ? `(${sizes[0]},)` : `(${sizes.join(", ")})`;
}

function numberText(reply, dtype) {
  if (typeof reply === "boolean") return pythonFlag(reply);
  if (typeof reply !== "number" || !dtype.includes("f")) return String(reply);
  const size = Math.abs(reply);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return reply.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return `${Object.is(reply, -0) ? "-0" : reply}${Number.isInteger(reply) ? ".0" : ""}`;
}

function pythonFlag(flag) {
  return flag ? "True" : "False";
}

function keyText(key) {
  return typeof key === "string" ? `'${key.replace(/[\\']/g, "\\$&")}'` : String(key);
}
