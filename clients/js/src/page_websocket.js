/** The built-in WebSocket of browsers, and of Node from 22 on. */

import { ProtocolError } from "./errors.js";
import { closedWith } from "./close_codes.js";

/** Whether there is a built-in WebSocket. */
export function hasWebSocket() {
  return typeof globalThis.WebSocket === "function";
}

/**
 * Open a WebSocket. Browsers do not expose the reason of a failure.
 *
 * @param {string} url With http: or https:.
 * @param {{ protocol: string, signal: AbortSignal, maxMessage: number }} how
 * @returns {Promise<PageSocket>}
 */
export function openSocket(url, { protocol, signal, maxMessage }) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"), [protocol]);
    const abandon = () => socket.close();
    signal.addEventListener("abort", abandon, { once: true });
    socket.binaryType = "arraybuffer";
    // Node reports a refusal by this event only.
    socket.onerror = socket.onclose = () => reject(new Error("no stream could be opened"));
    socket.onopen = () => {
      signal.removeEventListener("abort", abandon);
      if (socket.protocol === protocol) {
        resolve(new PageSocket(socket, maxMessage));
      } else {
        socket.close();
        reject(new ProtocolError(`the answer to the handshake lacks the subprotocol ${protocol}`));
      }
    };
  });
}

/** An open WebSocket: binary messages in, binary messages out. */
class PageSocket {
  #socket;

  constructor(socket, maxMessage) {
    this.#socket = socket;
    this.onmessage = (_bytes) => {};
    this.onclose = (_error) => {};
    socket.onmessage = ({ data }) => this.#take(data, maxMessage);
    socket.onerror = () => this.#end(new Error("the stream was cut"));
    socket.onclose = ({ code, reason }) => this.#end(closedWith(code, reason || "the stream ended"));
  }

  send(bytes) {
    this.#socket.send(bytes);
  }

  close() {
    this.onclose = () => {};
    this.#socket.close();
  }

  #take(data, maxMessage) {
    if (typeof data === "string") this.#end(new ProtocolError("a message is text"));
    else if (data.byteLength > maxMessage) {
      this.#end(new ProtocolError(`a message has more than ${maxMessage} bytes`));
    } else this.onmessage(new Uint8Array(data));
  }

  #end(error) {
    this.#socket.close();
    this.onclose(error);
    this.onclose = () => {};
  }
}
