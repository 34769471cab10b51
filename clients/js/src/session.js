/**
 * Sessions: numbered requests to one instance, over streams if possible.
 *
 * Request n of session S has the key `S-n` over every transport. So after a lost answer it is
 * sent again over another stream, or by REST, and is not executed twice.
 */

import { BINARY, JSON_TYPE, apiError, problemIn, valueOf } from "./answers.js";
import { Deadline } from "./deadlines.js";
import { ApiError, GymHttpError, ProtocolError, TransportError } from "./errors.js";
import { Form, encodeFrame } from "./frames.js";
import { NodeStreams } from "./node_streams.js";
import { lateError } from "./requester.js";
import { Lost, Tries, isRepeated, newName } from "./retries.js";
import { Stream } from "./stream.js";
import { mayBeTooLarge } from "./close_codes.js";

const HANDSHAKE = 10_000;
/**
 * Failed handshakes in a row after which streams rest: milliseconds without a handshake, twice as
 * many after each further one that fails.
 */
const FAILED_HANDSHAKES = 3;
const FIRST_REST = 500;
const LONGEST_REST = 300_000;
const SERVER_ERRORS = 500;
const MAX_NUMBER = 2 ** 32 - 1;
/** These codes mean that there are no streams; other problems concern the instance. */
const NO_STREAMS = new Set(["malformed-request", "method-not-allowed", "not-found", "upgrade-required"]);

/** Requests to one instance, one at a time, in the order in which they are made. */
export class Session {
  #requester;
  #path;
  #name;
  #number = 0;
  #stream = null;
  #streams;
  #failed = 0;
  #restsUntil = 0;
  // Up to this one, requests go by REST unless a later one opens a stream.
  #without = 0;
  #lostAt = null;
  #nodeStreams;
  #last = Promise.resolve();

  /**
   * @param {import("./requester.js").Requester} requester
   * @param {string} path Of the instance.
   * @param {boolean} streams Whether to try streams at all.
   */
  constructor(requester, path, streams) {
    this.#requester = requester;
    this.#path = path;
    this.#streams = streams;
    this.#nodeStreams = new NodeStreams(requester, path);
    this.#name = newName();
  }

  /** The name of the session; after some four billion requests there is another. */
  get name() {
    return this.#name;
  }

  /** The transport of requests. */
  get transport() {
    return this.#stream ? "stream" : "rest";
  }

  /**
   * Send a request, and return the value of the answer.
   *
   * @param {{ op: number, path: string, method?: string, query?: object }} operation A GET
   *   over HTTP has the query in place of the body.
   * @param {import("./request_bodies.js").Body} body
   * @param {{ timeout?: number, signal?: AbortSignal }} [options]
   */
  async sendRequest(operation, body, options) {
    const deadline = this.#requester.deadline(options);
    let release;
    const before = this.#last;
    this.#last = new Promise((resolve) => (release = resolve));
    try {
      await deadline.race(before);
      const value = await this.#outcome(operation, body, deadline);
      if (value?.warnings !== undefined) {
        this.#requester.warn(value.warnings);
        delete value.warnings;
      }
      return value;
    } catch (error) {
      throw lateError(error, this.#requester.url + this.#path + operation.path) ?? error;
    } finally {
      deadline.done();
      before.then(release);
    }
  }

  /** Close the stream; a later request opens another. */
  close() {
    this.#stream?.close();
    this.#stream = null;
  }

  async #outcome(operation, body, deadline) {
    const number = this.#next();
    let tries;
    while (this.#stream || (this.#streams && performance.now() >= this.#restsUntil)) {
      try {
        if (!this.#stream && number > this.#without) await this.#open(deadline);
        if (!this.#stream) break;
        return await this.#exchange(this.#stream, number, operation, body, deadline);
      } catch (error) {
        // It was not done, and may be later.
        if (error instanceof ApiError && isRepeated(error)) break;
        if (error instanceof ApiError) throw error;
        if (this.#stream) this.#lostAt = performance.now();
        this.close();
        const url = this.#requester.url + this.#path + operation.path;
        if (deadline.reason !== undefined) throw lateError(deadline.reason, url, tries) ?? deadline.reason;
        if (error instanceof GymHttpError) throw new ProtocolError(error.message, { url, cause: error });
        if (mayBeTooLarge(error, body)) break;
        tries ??= new Tries(deadline, true);
        if (!(await tries.again({ lost: Lost.CUT, message: error.message }))) {
          throw new TransportError(`no answer from ${url}: ${error.message}`, { url, cause: error });
        }
      }
    }
    return this.#byRest(number, operation, body, deadline);
  }

  #next() {
    if (this.#number === MAX_NUMBER) {
      this.close();
      [this.#name, this.#number, this.#without] = [newName(), 0, 0];
    }
    return ++this.#number;
  }

  async #exchange(stream, number, { op, path }, body, deadline) {
    const frame = encodeFrame({
      status: 1,
      operation: op,
      form: body.form,
      answerForm: Form.BINARY,
      number,
      body: body.onStream(stream.numbers),
    });
    const answer = await deadline.race(stream.exchange(number, frame));
    this.#lostAt = null;
    if (answer.status === 200 && answer.form === Form.BINARY) return stream.announced.read(answer.body);
    const reply = problemIn(answer.body);
    if (!reply) throw new ProtocolError(`the answer with status ${answer.status} is neither a value nor a problem`);
    this.#requester.warn(reply.extras?.warnings);
    throw apiError({ ...reply.extras, ...reply }, answer.status, this.#requester.url + this.#path + path);
  }

  /** Open a stream if possible; otherwise the request uses REST. */
  async #open(deadline) {
    const query = this.#streamQuery();
    const { maxBody } = this.#requester;
    const atNode = (url, limited) => Stream.at(url, maxBody, limited);
    this.#stream = await this.#nodeStreams.open(atNode, query, deadline);
    if (!this.#stream) await this.#openAtServer(`${this.#path}stream${query}`, deadline);
    if (this.#stream) this.#failed = 0;
  }

  async #openAtServer(path, deadline) {
    const limited = new Deadline(Math.min(HANDSHAKE, deadline.left()), deadline.signal);
    try {
      this.#stream = await Stream.open(this.#requester, path, limited);
    } catch (error) {
      if (deadline.reason !== undefined) throw deadline.reason;
      this.#refused(error);
    } finally {
      limited.done();
    }
  }

  #streamQuery() {
    // If the instance ended meanwhile, it did so in the call that waits.
    const lost = this.#lostAt === null ? "" : `&lost=${((performance.now() - this.#lostAt) / 1000).toFixed(3)}`;
    return `?session=${this.#name}${lost}`;
  }

  #refused(error) {
    const { answer } = error;
    const reply = answer && problemIn(answer.body);
    // What a proxy answers without its server passes.
    const passes = !answer || isRepeated(answer) || (answer.status >= SERVER_ERRORS && !reply?.code);
    if (!passes) {
      if (reply?.code && !NO_STREAMS.has(reply.code)) {
        throw apiError(reply, answer.status, `${this.#requester.url}${this.#path}stream`);
      }
      this.#streams = false;
      if (reply?.code === "upgrade-required") {
        // A proxy may be the cause, and its operator needs to know.
        const url = `${this.#requester.url}${this.#path}stream`;
        console.warn(`steps go over HTTP, which is slower than a stream: ${url} answered 426, ${reply.message}`);
      }
      return;
    }
    this.#without = this.#number;
    const further = ++this.#failed - FAILED_HANDSHAKES;
    if (further < 0) return;
    this.#restsUntil = performance.now() + Math.min(FIRST_REST * 2 ** Math.min(further, 10), LONGEST_REST);
  }

  async #byRest(number, operation, body, deadline) {
    const { method = "POST", query } = operation;
    const search = query ? `?${new URLSearchParams(query)}` : "";
    const path = this.#path + operation.path + search;
    if (method === "GET") {
      const answer = await this.#requester.request(method, path, deadline, { accept: BINARY });
      return valueOf(answer, this.#requester.url + path);
    }
    const answer = await this.#requester.request(method, path, deadline, {
      body: body.byRest(),
      contentType: body.form === Form.JSON ? JSON_TYPE : BINARY,
      accept: BINARY,
      key: `${this.#name}-${number}`,
    });
    this.#lostAt = null;
    return valueOf(answer, this.#requester.url + path);
  }
}
