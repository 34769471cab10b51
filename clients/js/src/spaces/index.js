/** All spaces. */

export { Box } from "./box.js";
export { DictSpace, Graph, OneOf, Sequence, TupleSpace, spaceOf } from "./containers.js";
export { Discrete, MultiBinary, MultiDiscrete } from "./discrete.js";
export { Opaque } from "./opaque.js";
export { Space } from "./space.js";
export { Text } from "./text.js";
