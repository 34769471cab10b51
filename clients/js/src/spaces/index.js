/** All spaces. */

export { Box } from "./box.js";
export { DictSpace, Graph, OneOf, Opaque, Sequence, TupleSpace, spaceOf } from "./containers.js";
export { Discrete, MultiBinary, MultiDiscrete } from "./discrete.js";
export { Space } from "./space.js";
export { Text } from "./text.js";
