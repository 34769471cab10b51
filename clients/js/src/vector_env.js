/** `VectorEnv`: many environments on a server that step as one. */

import { Remote } from "./remote.js";

/** Many environments that step as one; `makeVec` makes one. */
export class VectorEnv extends Remote {
  toString() {
    return `<VectorEnv ${this.envId} ${this.instanceId} of ${this.numEnvs}>`;
  }
}
