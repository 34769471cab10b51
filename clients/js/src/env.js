/** `Env`: an environment on a server. */

import { Remote } from "./remote.js";
import { BinaryBody } from "./request_bodies.js";
import { Discrete } from "./spaces/index.js";

/** An environment on a server; `make` makes one. */
export class Env extends Remote {
  _stepBody(action) {
    // The server has less to do with an action that needs no cast.
    if (typeof action === "number" && this.actionSpace instanceof Discrete && this.actionSpace.contains(action)) {
      return new BinaryBody({ action });
    }
    return super._stepBody(action);
  }

  toString() {
    return `<Env ${this.envId} ${this.instanceId}>`;
  }
}
