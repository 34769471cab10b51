/** Lines: connections of an environment to a server, as messages of text and bytes. */

import { jsonOf } from "../answers.js";
import { hasWebSocket } from "../page_websocket.js";

const EXTERNAL = { path: "/v1/external/", protocol: "gym-http.external.v1" };
const HANDSHAKE = 10_000;
const DIAGNOSIS = 3000;

/**
 * Open a connection. It calls `onmessage` with each message, a string or bytes, and
 * `onclose` once with the reason of its end.
 *
 * @param {import("../requester.js").Requester} requester
 * @param {AbortSignal} [signal]
 * @param {{ path: string, protocol: string, instance?: string }} [to] Address and
 *     subprotocol; and the path of the instance, if it is about one.
 * @throws {Error} There is no server, or it refuses.
 */
export async function openConnection(requester, signal, to = EXTERNAL) {
  const deadline = requester.deadline({ timeout: HANDSHAKE, signal });
  try {
    if (hasWebSocket()) return await openPageConnection(requester, deadline, to);
    const { openNodeConnection } = await import("./node_connection.js");
    const headers = requester.token ? { Authorization: `Bearer ${requester.token}` } : {};
    return await deadline.race(openNodeConnection(requester.url + to.path, to.protocol, headers, deadline.signal));
  } finally {
    deadline.done();
  }
}

async function openPageConnection(requester, deadline, { path, protocol, instance = "/v1/" }) {
  let address = requester.url.replace(/^http/, "ws") + path;
  if (requester.token) {
    // No page can put a header on a WebSocket, and no address holds a token.
    address += `${path.includes("?") ? "&" : "?"}ticket=${await ticketOf(requester, deadline)}`;
  }
  try {
    return await deadline.race(dialled(address, protocol, deadline.signal));
  } catch (error) {
    throw (await diagnosis(requester, instance)) ?? error;
  }
}

async function ticketOf(requester, deadline) {
  const answer = await requester.request("POST", "/v1/tickets/", deadline);
  return encodeURIComponent(jsonOf(answer, `${requester.url}/v1/tickets/`).ticket);
}

/** Find out why a WebSocket fails, which browsers do not expose. */
async function diagnosis(requester, path) {
  try {
    await requester.within({ timeout: DIAGNOSIS }, async (deadline) =>
      jsonOf(await requester.request("GET", path, deadline), requester.url + path),
    );
    return undefined;
  } catch (error) {
    return error;
  }
}

function dialled(address, protocol, signal) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(address, [protocol]);
    const abandon = () => socket.close();
    signal.addEventListener("abort", abandon, { once: true });
    socket.binaryType = "arraybuffer";
    socket.onclose = () => reject(new Error("no connection could be opened"));
    socket.onopen = () => {
      signal.removeEventListener("abort", abandon);
      resolve(new PageLine(socket));
    };
  });
}

/** A connection over the built-in WebSocket. */
class PageLine {
  #socket;

  constructor(socket) {
    this.#socket = socket;
    this.onmessage = (_message) => {};
    this.onclose = (_error) => {};
    socket.onmessage = ({ data }) => {
      this.onmessage(typeof data === "string" ? data : new Uint8Array(data));
    };
    socket.onclose = ({ code, reason }) => {
      this.onclose(Object.assign(new Error(reason || "the connection was lost"), { closeCode: code }));
      this.onclose = () => {};
    };
  }

  /** Send a message; after the end, nothing happens. */
  send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(message);
  }

  close() {
    this.onmessage = this.onclose = () => {};
    this.#socket.close();
  }
}
