/** gym_http_client: environments on a gym_http_server, from JavaScript. */

export { Client, attach, instances, list, make, makeVec, registry } from "./client.js";
export { Env } from "./env.js";
export { VectorEnv } from "./vector_env.js";
export { ApiError, GymHttpError, ProtocolError, TransportError } from "./errors.js";
export { NdArray, array } from "./arrays.js";
export {
  AutoresetMode,
  Complex,
  Float,
  GraphInstance,
  Scalar,
  Tuple,
  Unsent,
  dict,
  float,
  int,
  tuple,
} from "./scalars.js";
export { scalar } from "./numpy_scalars.js";
export { decodeBinary } from "./binary_reader.js";
export { encodeBinary } from "./binary_writer.js";
export { decodeTyped } from "./typed_reader.js";
export { encodeTyped } from "./typed_writer.js";
export {
  Box,
  DictSpace,
  Discrete,
  Graph,
  MultiBinary,
  MultiDiscrete,
  OneOf,
  Opaque,
  Sequence,
  Space,
  Text,
  TupleSpace,
  spaceOf,
} from "./spaces/index.js";
