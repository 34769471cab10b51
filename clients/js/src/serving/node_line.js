/** A line over the upgrade of `node:http`, where there is no WebSocket: Node before 22. */

import { randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

import { problemIn } from "../answers.js";
import { acceptOf } from "../node_websocket.js";
import { readUtf8, writeText } from "../text.js";
import { MessageReader, Opcode, closeOf, encodeMessage } from "../websocket_frames.js";

const MAX_MESSAGE = 64 * 1024 * 1024;
const MAX_REFUSAL = 64 * 1024;

/**
 * Open a line.
 *
 * @param {string} url With http: or https:.
 * @param {string} protocol The WebSocket's.
 * @param {Record<string, string>} headers
 * @param {AbortSignal} signal Ends the handshake.
 */
export function openNodeLine(url, protocol, headers, signal) {
  const key = randomBytes(16).toString("base64");
  const request = (url.startsWith("https:") ? https : http).request(url, {
    agent: false,
    headers: {
      ...headers,
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Protocol": protocol,
      "Sec-WebSocket-Key": key,
    },
  });
  const abandon = () => request.destroy();
  signal.addEventListener("abort", abandon, { once: true });
  return new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => refusalOf(response).then(reject, reject));
    request.on("upgrade", (answer, socket, early) => {
      signal.removeEventListener("abort", abandon);
      if (answer.headers["sec-websocket-accept"] === acceptOf(key)) {
        resolve(new NodeLine(socket, early));
      } else {
        socket.destroy();
        reject(new Error("the handshake is answered by something else than a WebSocket"));
      }
    });
    request.end();
  });
}

async function refusalOf(response) {
  const parts = [];
  let size = 0;
  for await (const part of response) {
    parts.push(part);
    size += part.length;
    if (size > MAX_REFUSAL) break;
  }
  const told = problemIn(Buffer.concat(parts));
  return new Error(`the server refuses: ${told?.message ?? `status ${response.statusCode}`}`);
}

/** A line over a socket after its handshake. */
class NodeLine {
  #socket;

  constructor(socket, early) {
    this.#socket = socket;
    this.onmessage = (_message) => {};
    this.onclose = (_error) => {};
    const reader = new MessageReader(MAX_MESSAGE, (opcode, payload) => this.#take(opcode, payload));
    const feed = (bytes) => this.#feed(reader, bytes);
    socket.setNoDelay(true);
    socket.setTimeout(0);
    socket.on("data", feed);
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end(new Error("the connection was lost")));
    if (early.length) queueMicrotask(() => feed(early));
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
    else if (opcode === Opcode.CLOSE) this.#end(new Error(closeOf(payload).reason || "the server ended the connection"));
  }

  #end(error) {
    this.#socket.destroy();
    this.onclose(error);
    this.onclose = () => {};
  }
}
