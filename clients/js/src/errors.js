/**
 * The errors of calls.
 *
 *     GymHttpError
 *      ├─ TransportError   no answer: refused, cut off, or too late
 *      ├─ ApiError         the server refuses, with its own message
 *      └─ ProtocolError    the answer does not follow the protocol
 *
 * Wrong use of the client, such as an invalid argument, is a TypeError or RangeError.
 */

/** Any failure between this client and a server. */
export class GymHttpError extends Error {
  /**
   * @param {string} message The server's message, if it has one; otherwise the client's.
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
