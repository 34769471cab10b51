/** A WebSocket over the upgrade of `node:http`, for Node before 22, which has none. */

import { randomFillSync } from "node:crypto";

import { ProtocolError } from "./errors.js";
import { closedWith } from "./close_codes.js";
import { upgraded } from "./node_upgrade.js";
import { MessageReader, Opcode, closeOf, encodeMessage } from "./websocket_frames.js";

/**
 * Open a WebSocket.
 *
 * @param {string} url With http: or https:.
 * @param {object} how
 * @returns {Promise<NodeSocket>}
 * @throws {NoStream} The server answers, but opens no stream.
 */
export async function openSocket(url, { protocol, headers, signal, maxMessage }) {
  const { socket, early, protocol: selected } = await upgraded(url, { protocol, headers, signal });
  if (selected === protocol) return new NodeSocket(socket, early, maxMessage);
  socket.destroy();
  throw new ProtocolError(`the answer to the handshake lacks the subprotocol ${protocol}`);
}

/** Random masks, drawn many at a time. */
class Masks {
  #pool = new Uint8Array(4096);
  #at = 4096;

  next() {
    if (this.#at === this.#pool.length) {
      randomFillSync(this.#pool);
      this.#at = 0;
    }
    this.#at += 4;
    return this.#pool.subarray(this.#at - 4, this.#at);
  }
}

/** An open WebSocket: binary messages in, binary messages out. */
class NodeSocket {
  #socket;
  #masks = new Masks();

  constructor(socket, early, maxMessage) {
    this.#socket = socket;
    this.onmessage = (_bytes) => {};
    this.onclose = (_error) => {};
    const reader = new MessageReader(maxMessage, (opcode, payload) => this.#take(opcode, payload));
    const feed = (bytes) => this.#feed(reader, bytes);
    // An idle socket keeps no process alive; while a call waits, its time limit does.
    socket.unref();
    socket.on("data", feed);
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end(new Error("the stream ended")));
    if (early.length) queueMicrotask(() => feed(early));
  }

  send(bytes) {
    this.#socket.write(encodeMessage(Opcode.BINARY, bytes, this.#masks.next()));
  }

  close() {
    this.onclose = () => {};
    this.#socket.destroy();
  }

  #feed(reader, bytes) {
    try {
      reader.feed(bytes);
    } catch (error) {
      this.#end(error);
    }
  }

  #take(opcode, payload) {
    if (opcode === Opcode.BINARY) this.onmessage(payload);
    else if (opcode === Opcode.PING) this.#socket.write(encodeMessage(Opcode.PONG, payload, this.#masks.next()));
    else if (opcode === Opcode.CLOSE) this.#closed(closeOf(payload));
    else if (opcode === Opcode.TEXT) this.#end(new ProtocolError("a message is text"));
  }

  #closed({ code, reason }) {
    this.#end(closedWith(code, reason || "the stream was closed"));
  }

  #end(error) {
    this.#socket.destroy();
    this.onclose(error);
    this.onclose = () => {};
  }
}
