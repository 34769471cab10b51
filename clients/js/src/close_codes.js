/** Errors made from the status of a stream's close frame. */

const TOO_LARGE = 1009;
/**
 * The kernel accepts smaller messages whole, so that the reason for the end of the stream
 * can be read. While a larger one is sent, sending fails.
 */
const SURELY_READ = 64 * 1024;

/** The server closed the stream because a message was too large for it. */
class TooLarge extends Error {}

/** Make the error of a stream that was closed with a status. */
export function closedWith(code, words) {
  return code === TOO_LARGE ? new TooLarge(words) : new Error(words);
}

/**
 * Whether a stream may have ended because a message was too large. Over REST the server
 * returns this error with its limit.
 *
 * @param {Error} error Of the stream.
 * @param {import("./request_bodies.js").Body} body Of the request.
 */
export function mayBeTooLarge(error, body) {
  return error instanceof TooLarge || body.byRest().length > SURELY_READ;
}
