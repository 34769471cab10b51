/** The handshake of a WebSocket over `node:http`, for Node before 22, which has no WebSocket. */

import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

import { ProtocolError } from "./errors.js";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MAX_REFUSAL = 1024 * 1024;

/** Compute the Sec-WebSocket-Accept for a key. */
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
 * Begin a WebSocket.
 *
 * @param {string} url With http: or https:.
 * @param {{ protocol: string, headers: Record<string, string>, signal: AbortSignal }} how
 *     Its signal ends the handshake, and nothing after it.
 * @returns {Promise<{ socket: import("node:net").Socket, early: Uint8Array, protocol: string | undefined }>}
 *     The socket, the bytes after the answer's head, and the protocol that the server chose.
 * @throws {NoStream} The server answers, but opens no WebSocket.
 */
export function upgraded(url, { protocol, headers, signal }) {
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
  const abandon = () => request.destroy(signal.reason);
  signal?.addEventListener("abort", abandon, { once: true });
  return new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => refusalOf(response).then(reject, reject));
    request.on("upgrade", ({ headers: answered }, socket, early) => {
      signal?.removeEventListener("abort", abandon);
      if (answered["sec-websocket-accept"] === acceptOf(key)) {
        socket.setNoDelay(true);
        socket.setTimeout(0);
        resolve({ socket, early, protocol: answered["sec-websocket-protocol"] });
      } else {
        socket.destroy();
        reject(new ProtocolError("the handshake is answered by something else than a WebSocket"));
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
