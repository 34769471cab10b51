/** A WebSocket over the upgrade of `node:http`, where there is none: Node before 22. */

import { createHash, randomBytes, randomFillSync } from "node:crypto";
import http from "node:http";
import https from "node:https";

import { ProtocolError } from "./errors.js";
import { MessageReader, Opcode, closeOf, encodeMessage } from "./websocket_frames.js";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MAX_REFUSAL = 1024 * 1024;

/** Give the Sec-WebSocket-Accept that answers a key. */
export function acceptOf(key) {
  return createHash("sha1").update(key + GUID).digest("base64");
}

/** The handshake was answered otherwise. */
export class NoStream extends Error {
  constructor(answer) {
    super(`the handshake was answered with status ${answer.status}`);
    this.answer = answer;
  }
}

/**
 * Open a WebSocket.
 *
 * @param {string} url With http: or https:.
 * @param {object} how
 * @returns {Promise<NodeSocket>}
 * @throws {NoStream} There is a server, but no stream.
 */
export function openSocket(url, { protocol, headers, signal, maxMessage }) {
  const key = randomBytes(16).toString("base64");
  const request = (url.startsWith("https:") ? https : http).request(url, {
    signal,
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
  return new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => refusalOf(response).then(reject, reject));
    request.on("upgrade", ({ headers: answered }, line, early) => {
      const accepted = answered["sec-websocket-accept"] === acceptOf(key);
      if (accepted && answered["sec-websocket-protocol"] === protocol) {
        resolve(new NodeSocket(line, early, maxMessage));
      } else {
        line.destroy();
        reject(new ProtocolError(`the answer to the handshake does not speak ${protocol}`));
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
    if (size > MAX_REFUSAL) throw new ProtocolError("the refusal of a stream is too long");
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.headers)) headers.set(name, String(value));
  return new NoStream({ status: response.statusCode, headers, body: Buffer.concat(parts) });
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
  #line;
  #masks = new Masks();

  constructor(line, early, maxMessage) {
    this.#line = line;
    this.onmessage = (_bytes) => {};
    this.onclose = (_error) => {};
    const reader = new MessageReader(maxMessage, (opcode, payload) => this.#take(opcode, payload));
    const feed = (bytes) => this.#feed(reader, bytes);
    line.setNoDelay(true);
    line.setTimeout(0);
    // A process may end without a word; while a call waits, its time limit holds it.
    line.unref();
    line.on("data", feed);
    line.on("error", (error) => this.#end(error));
    line.on("close", () => this.#end(new Error("the stream ended")));
    if (early.length) queueMicrotask(() => feed(early));
  }

  send(bytes) {
    this.#line.write(encodeMessage(Opcode.BINARY, bytes, this.#masks.next()));
  }

  close() {
    this.onclose = () => {};
    this.#line.destroy();
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
    else if (opcode === Opcode.PING) this.#line.write(encodeMessage(Opcode.PONG, payload, this.#masks.next()));
    else if (opcode === Opcode.CLOSE) this.#end(new Error(closeOf(payload).reason || "the stream was closed"));
    else if (opcode === Opcode.TEXT) this.#end(new ProtocolError("a message is text"));
  }

  #end(error) {
    this.#line.destroy();
    this.onclose(error);
    this.onclose = () => {};
  }
}
