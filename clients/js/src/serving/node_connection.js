/** A connection over the upgrade of `node:http`, for Node before 22, which has no WebSocket. */

import { randomBytes } from "node:crypto";

import { problemIn } from "../answers.js";
import { NoStream, upgraded } from "../node_upgrade.js";
import { readUtf8, writeText } from "../text.js";
import { MessageReader, Opcode, closeOf, encodeMessage } from "../websocket_frames.js";

const MAX_MESSAGE = 64 * 1024 * 1024;

/**
 * Open a connection.
 *
 * @param {string} url With http: or https:.
 * @param {string} protocol The WebSocket's.
 * @param {Record<string, string>} headers
 * @param {AbortSignal} signal Ends the handshake.
 */
export async function openNodeConnection(url, protocol, headers, signal) {
  try {
    const { socket, early } = await upgraded(url, { protocol, headers, signal });
    return new NodeConnection(socket, early);
  } catch (error) {
    if (!(error instanceof NoStream)) throw error;
    const { body, status } = error.answer;
    throw new Error(`the server refuses: ${problemIn(body)?.message ?? `status ${status}`}`);
  }
}

/** A connection over a socket after its handshake. */
class NodeConnection {
  #socket;

  constructor(socket, early) {
    this.#socket = socket;
    this.onmessage = (_message) => {};
    this.onclose = (_error) => {};
    const reader = new MessageReader(MAX_MESSAGE, (opcode, payload) => this.#take(opcode, payload));
    const feed = (bytes) => this.#feed(reader, bytes);
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end(new Error("the connection was lost")));
    // A server may speak first, and before `onmessage` is set.
    setImmediate(() => {
      if (early.length) feed(early);
      socket.on("data", feed);
    });
  }

  /** Send a message; after the end, nothing happens. */
  send(message) {
    const text = typeof message === "string";
    this.#write(text ? Opcode.TEXT : Opcode.BINARY, text ? writeText(message) : message);
  }

  close() {
    this.onmessage = this.onclose = () => {};
    // Its code is 1000: the environment leaves.
    this.#write(Opcode.CLOSE, Uint8Array.of(3, 232));
    this.#socket.end();
  }

  #write(opcode, payload) {
    if (this.#socket.writable) this.#socket.write(encodeMessage(opcode, payload, randomBytes(4)));
  }

  #feed(reader, bytes) {
    try {
      reader.feed(bytes);
    } catch (error) {
      this.#end(error);
    }
  }

  #take(opcode, payload) {
    if (opcode === Opcode.TEXT) this.onmessage(readUtf8(payload));
    else if (opcode === Opcode.BINARY) this.onmessage(payload);
    else if (opcode === Opcode.PING) this.#write(Opcode.PONG, payload);
    else if (opcode === Opcode.CLOSE) this.#closed(closeOf(payload));
  }

  #closed({ code, reason }) {
    this.#end(Object.assign(new Error(reason || "the server ended the connection"), { closeCode: code }));
  }

  #end(error) {
    this.#socket.destroy();
    this.onclose(error);
    this.onclose = () => {};
  }
}
