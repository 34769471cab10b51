/**
 * What a call can fail with.
 *
 *     GymHttpError
 *      ├─ TransportError   no answer: nobody there, cut off, or not in time
 *      ├─ ApiError         the server refuses, in words of its own
 *      └─ ProtocolError    what came is not what the protocol says
 *
 * Misuse of the client, as an argument that can be none, is a TypeError or RangeError.
 */

/** Whatever went wrong between this client and a server. */
export class GymHttpError extends Error {
  /**
   * @param {string} message What was wrong, in words; the server's own, if it has any.
   * @param {object} [about]
   */
  constructor(message, { status = null, code = null, url = null, body = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.url = url;
    this.body = body;
  }

  /** The traceback of the environment's exception on the server; null without one. */
  get traceback() {
    const traceback = this.body?.traceback;
    return typeof traceback === "string" ? traceback : null;
  }

  get name() {
    return this.constructor.name;
  }
}

/** There was no answer, so it is unknown whether the server did its work. */
export class TransportError extends GymHttpError {
  get kind() {
    return "transport";
  }
}

/** The server answered that it will not, or could not. */
export class ApiError extends GymHttpError {
  get kind() {
    return "api";
  }
}

/** Something answered, but not as a server of this protocol does. */
export class ProtocolError extends GymHttpError {
  get kind() {
    return "protocol";
  }
}
