/** HTTP by `fetch`, as pages have it. */

import { ArrivingBody } from "./arriving_body.js";
import { ProtocolError } from "./errors.js";

const INIT = { redirect: "manual", cache: "no-store", credentials: "omit" };

/**
 * Send a request once.
 *
 * @param {string} url
 * @param {RequestInit} init
 * @param {import("./deadlines.js").Deadline} deadline
 * @param {number} maxBody Bytes that the answer may have.
 * @returns {Promise<{ status: number, headers: Headers, body: Uint8Array }>}
 */
export async function exchange(url, init, deadline, maxBody) {
  const response = await fetch(url, { ...INIT, ...init, signal: deadline.signal });
  if (response.type === "opaqueredirect") {
    throw new ProtocolError(`${url} redirects: is it a gym_http_server?`, { url });
  }
  const { status, headers } = response;
  return { status, headers, body: await bodyOf(response, new ArrivingBody(maxBody, url, status)) };
}

async function bodyOf(response, body) {
  const announced = Number(response.headers.get("content-length") ?? NaN);
  const reader = response.body?.getReader();
  try {
    body.expect(announced);
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      body.add(value);
    }
    return body.whole();
  } catch (error) {
    await reader?.cancel().catch(() => {});
    throw error;
  }
}
