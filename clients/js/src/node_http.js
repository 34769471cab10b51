/** HTTP by Node's own modules, which take a third of the time of its `fetch`. */

import http from "node:http";
import https from "node:https";

import { ArrivingBody } from "./arriving_body.js";
import { ProtocolError } from "./errors.js";

// Lines that wait for the next request keep no program alive.
const PLAIN = { module: http, agent: new http.Agent({ keepAlive: true }) };
const SECURE = { module: https, agent: new https.Agent({ keepAlive: true }) };

/**
 * Send a request once.
 *
 * @param {string} url
 * @param {RequestInit} init
 * @param {import("./deadlines.js").Deadline} deadline
 * @param {number} maxBody Bytes that the answer may have.
 * @returns {Promise<{ status: number, headers: { get(name: string): string | null }, body: Uint8Array }>}
 */
export function exchange(url, { method, headers, body }, deadline, maxBody) {
  const { module, agent } = url.startsWith("https:") ? SECURE : PLAIN;
  const content = typeof body === "string" ? Buffer.from(body) : body;
  const length = content ? { "Content-Length": content.length } : {};
  const request = module.request(url, { method, agent, headers: { ...headers, ...length } });
  const answered = new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => {
      collect(response, new ArrivingBody(maxBody, url, response.statusCode), resolve, reject);
    });
    request.on("upgrade", (response, socket) => {
      socket.destroy();
      const words = `${url} answers in another protocol: is it a gym_http_server?`;
      reject(new ProtocolError(words, { url, status: response.statusCode }));
    });
    request.end(content);
  });
  return deadline.race(answered, () => request.destroy());
}

function collect(response, body, resolve, reject) {
  const refuse = (error) => {
    response.destroy();
    reject(error);
  };
  const within = (look) => {
    try {
      look();
    } catch (error) {
      refuse(error);
    }
  };
  const { statusCode: status, headers } = response;
  response.on("error", reject);
  response.on("data", (part) => within(() => body.add(part)));
  response.on("end", () => {
    const get = (name) => headers[name.toLowerCase()] ?? null;
    resolve({ status, headers: { get }, body: body.whole() });
  });
  within(() => body.expect(Number(headers["content-length"] ?? NaN)));
}
