/** A connection by HTTP long polling: requests are fetched, and answers are posted. */

import { errorOf, problemIn } from "../answers.js";
import { readUtf8, writeText } from "../text.js";

const PATH = "/v1/external/";
const TEXT = "application/json";
const BYTES = "application/octet-stream";
const LONGEST_WAIT_S = 20;
const CALL = 30_000;
const FAULT = 52;

/** A connection with the interface of the others, for networks that block WebSockets. */
export class PollingConnection {
  #requester;
  #path = "";
  #waitS = LONGEST_WAIT_S;
  #ended = new AbortController();
  // Answers go out one after the other.
  #posting = Promise.resolve();
  #answered = () => {};

  /** @param {import("../requester.js").Requester} requester */
  constructor(requester) {
    this.#requester = requester;
    this.onmessage = (_message) => {};
    this.onclose = (_error) => {};
    this.onbytes = () => {};
  }

  /** Send a message; after the end, nothing happens. */
  send(message) {
    this.#posting = this.#posting.then(() => this.#post(message)).catch((error) => this.#end(error));
  }

  close() {
    this.onmessage = this.onclose = this.onbytes = () => {};
    this.#ended.abort();
  }

  async #post(message) {
    if (this.#ended.signal.aborted) return;
    const [body, contentType] = typeof message === "string" ? [writeText(message), TEXT] : [message, BYTES];
    const answer = await this.#call("POST", this.#path ? `${this.#path}answer/` : PATH, { body, contentType });
    if (!this.#path) return this.#processReply(answer);
    if (answer.status !== 204) throw errorOf(answer, this.#requester.url);
    return this.#answered();
  }

  #processReply(answer) {
    const text = readUtf8(answer.body);
    if (answer.status === 200) {
      const { connection, heartbeat_s: seconds } = JSON.parse(text);
      this.#path = `${PATH}${connection}/`;
      this.#waitS = Math.min(seconds, LONGEST_WAIT_S);
      this.onmessage(text);
      void this.#fetch().catch((error) => this.#end(error));
    } else if (answer.status === 400) {
      const { code, message } = problemIn(answer.body) ?? { code: "bad-hello", message: text };
      this.onmessage(JSON.stringify({ type: "refused", code, message }));
    } else {
      throw errorOf(answer, this.#requester.url);
    }
  }

  /** Fetch requests until the connection ends. */
  async #fetch() {
    while (!this.#ended.signal.aborted) {
      const answer = await this.#call("GET", `${this.#path}request/?wait_s=${this.#waitS}`);
      this.onbytes();
      if (answer.status === 204) continue;
      if (answer.status !== 200) throw errorOf(answer, this.#requester.url);
      const isText = answer.headers.get("content-type")?.startsWith(TEXT);
      const message = isText ? readUtf8(answer.body) : answer.body;
      const isFault = isText ? JSON.parse(message).type === "fault" : message[10] === FAULT;
      // The server would repeat an unanswered request at once.
      const answered = isFault ? undefined : new Promise((resolve) => (this.#answered = resolve));
      this.onmessage(message);
      await answered;
    }
  }

  async #call(method, path, what) {
    return this.#requester.within({ timeout: CALL, signal: this.#ended.signal }, (deadline) =>
      this.#requester.request(method, path, deadline, what),
    );
  }

  #end(error) {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.onclose(error);
  }
}
