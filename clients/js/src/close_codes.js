/** Ends of streams: what a client makes of the status of a close frame. */

const TOO_LARGE = 1009;
/**
 * The kernel takes smaller messages whole, so that the reason for the end of the stream
 * can be read. In the midst of larger ones, sending just fails.
 */
const SURELY_READ = 64 * 1024;

/** The server closed the stream because a message was too large for it. */
class TooLarge extends Error {}

/** Make the error of a stream that was closed with a status. */
export function closedWith(code, words) {
  return code === TOO_LARGE ? new TooLarge(words) : new Error(words);
}

/**
 * Whether a stream may have ended because a message was too large. By REST the server
 * says so, and what its limit is.
 *
 * @param {Error} error Of the stream.
 * @param {import("./request_bodies.js").Body} body Of the request.
 */
export function mayBeTooLarge(error, body) {
  return error instanceof TooLarge || body.byRest().length > SURELY_READ;
}
