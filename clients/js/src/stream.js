/** A stream: one WebSocket to one instance, with its numbered signatures. */

import { jsonOf } from "./answers.js";
import { ProtocolError } from "./errors.js";
import { HEADER_SIZE, MAX_HEAD, decodeFrame } from "./frames.js";
import { hasWebSocket, openSocket as openPageSocket } from "./page_websocket.js";
import { Announced } from "./signatures.js";

const PROTOCOL = "gym-http.v1";

/** One request at a time, each answered in its turn. */
export class Stream {
  #socket;
  #waiting = null;
  #over = null;

  constructor(socket) {
    this.announced = new Announced();
    /** @type {Map<string, number>} The signatures that this side has sent. */
    this.numbers = new Map();
    this.#socket = socket;
    socket.onmessage = (bytes) => this.#take(bytes);
    socket.onclose = (error) => this.#end(error);
  }

  /**
   * Open a stream at the address of a server.
   *
   * @param {import("./requester.js").Requester} requester
   * @param {string} path Of the stream, with its query.
   * @param {import("./deadlines.js").Deadline} deadline
   */
  static async open(requester, path, deadline) {
    const { token, url, maxBody } = requester;
    if (!hasWebSocket()) return Stream.at(url + path, maxBody, deadline, token);
    // No page can put a header on a WebSocket, and no address holds a token.
    const ticket = token ? `&ticket=${await ticketOf(requester, deadline)}` : "";
    return Stream.at(url + path + ticket, maxBody, deadline);
  }

  /**
   * Open a stream at a URL.
   *
   * @param {string} url With http: or https:.
   * @param {number} maxBody Bytes that an answer may have.
   * @param {import("./deadlines.js").Deadline} deadline
   * @param {string} [token] Sent in a header, where there is no built-in WebSocket.
   */
  static async at(url, maxBody, deadline, token) {
    const how = { protocol: PROTOCOL, signal: deadline.signal, maxMessage: maxBody + MAX_HEAD + HEADER_SIZE };
    if (hasWebSocket()) return new Stream(await deadline.race(openPageSocket(url, how)));
    const { openSocket } = await import("./node_websocket.js");
    const headers = { Accept: "application/problem+json" };
    if (token) headers.Authorization = `Bearer ${token}`;
    return new Stream(await deadline.race(openSocket(url, { ...how, headers })));
  }

  /** Send a request; return the frame of its answer. */
  exchange(number, bytes) {
    if (this.#over) return Promise.reject(this.#over);
    return new Promise((resolve, reject) => {
      this.#waiting = { number, resolve, reject };
      this.#socket.send(bytes);
    });
  }

  close() {
    this.#over ??= new Error("the stream was closed");
    this.#socket.close();
  }

  #take(bytes) {
    const waiting = this.#waiting;
    if (waiting === null) return;
    this.#waiting = null;
    try {
      const frame = decodeFrame(bytes);
      if (frame.number !== waiting.number || frame.operation !== 0) {
        throw new ProtocolError(`answer ${frame.number} arrived instead of answer ${waiting.number}`);
      }
      waiting.resolve(frame);
    } catch (error) {
      waiting.reject(error);
    }
  }

  #end(error) {
    this.#over ??= error;
    this.#waiting?.reject(error);
    this.#waiting = null;
  }
}

async function ticketOf(requester, deadline) {
  const answer = await requester.request("POST", "/v1/tickets/", deadline);
  return encodeURIComponent(jsonOf(answer, `${requester.url}/v1/tickets/`).ticket);
}
