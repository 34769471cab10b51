/** Requests to the server that this page was loaded from, and to no other. */

import { token } from "./session.js";

/** A problem with which the server answered; status 0: it did not answer. */
export class ServerError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Called when the server refuses the token. */
export const refusals = new EventTarget();

/** Send a request with the token, and return the response. */
export async function request(method, path, { body, signal } = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const data = body === undefined ? undefined : JSON.stringify(body);
  const response = await fetch(path, { method, headers, signal, body: data });
  if (response.status === 401) refusals.dispatchEvent(new Event("refused"));
  return response;
}

/** Send a request, and return the object of its answer. */
export async function call(method, path, body) {
  let response;
  try {
    response = await request(method, path, { body });
  } catch (error) {
    throw new ServerError(0, "unreachable", `The server does not answer: ${error.message}`);
  }
  const text = await response.text();
  let value = {};
  try {
    value = text ? JSON.parse(text) : {};
  } catch {
    if (response.ok) throw new ServerError(response.status, "malformed", `${path} is no JSON: ${text.slice(0, 200)}`);
  }
  if (!response.ok) throw new ServerError(response.status, value.code, value.message ?? text.slice(0, 500));
  return value;
}

/** Open a stream in the JSON dialect, with a ticket where there is a token. */
export async function openStream(path, params) {
  const query = new URLSearchParams(params);
  if (token()) query.set("ticket", (await call("POST", "/v1/tickets/", {})).ticket);
  const url = new URL(`${path}?${query}`, location.href.replace(/^http/, "ws"));
  url.hash = "";
  return new WebSocket(url, "gym-http.v1.json");
}
