/** Which requests are sent again, when, and for how long. */

import { problemIn } from "./answers.js";

/** Statuses of requests that were not executed, and may succeed later. */
const REPEATED = new Set([408, 429, 503]);
/** Codes that are final for a create: the server has already waited for `waitS`. */
const FINAL_OF_CREATION = new Set(["external-away"]);

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const FIRST_CONTACT = 5000;
const MAX_DOUBLINGS = 30;

/** The cause of a missing answer: connection refused, or lost. */
export const Lost = Object.freeze({ ABSENT: "absent", CUT: "cut" });

/**
 * Return whether the request may succeed later, by its answer.
 *
 * @param {{ status: number, body?: Uint8Array }} answer
 * @param {boolean} [creates] Whether an instance was to be made.
 */
export function isRepeated({ status, body }, creates = false) {
  return REPEATED.has(status) && !(creates && FINAL_OF_CREATION.has(problemIn(body)?.code));
}

/**
 * The attempts of one request.
 *
 * A request is sent again, with the same bytes and key, if there is no whole
 * answer, and after 408, 429 and 503, unless an answer to a create is final. Pauses double, up to 5 s, and their lengths are
 * random, so that many clients do not return at the same moment.
 */
export class Tries {
  /**
   * @param {import("./deadlines.js").Deadline} deadline Of the call.
   * @param {boolean} met Whether the server has answered before.
   * @param {boolean} [creates] Whether an instance is to be made.
   */
  constructor(deadline, met, creates = false) {
    this.deadline = deadline;
    this.met = met;
    this.creates = creates;
    /** The failure of the last attempt, as text. */
    this.lastFailure = "";
    this.count = 1;
    this.began = performance.now();
  }

  /**
   * Pause before another attempt; return whether there is one.
   *
   * @param {{ status?: number, headers?: Headers, body?: Uint8Array, lost?: string, message?: string }} outcome
   */
  async again(outcome) {
    if (outcome.lost === undefined && !isRepeated(outcome, this.creates)) return false;
    if (outcome.lost !== Lost.ABSENT) this.met = true;
    const pause = retryAfter(outcome) + this.#drawn();
    const left = this.met ? Infinity : this.began + FIRST_CONTACT - performance.now();
    if (pause >= Math.min(left, this.deadline.left())) return false;
    this.lastFailure = wordsOf(outcome);
    await this.deadline.sleep(pause);
    this.count++;
    return true;
  }

  #drawn() {
    const bound = FIRST_PAUSE * 2 ** Math.min(this.count - 1, MAX_DOUBLINGS);
    return Math.random() * Math.min(bound, LONGEST_PAUSE);
  }
}

function wordsOf({ status, body, lost, message }) {
  if (lost !== undefined) return message ?? "";
  const reply = problemIn(body);
  return reply ? `${reply.message} (${status})` : `status ${status}`;
}

/** Milliseconds that a server requires to wait; 0 for dates. */
function retryAfter({ headers }) {
  const requested = headers?.get("retry-after") ?? "";
  return /^[0-9]{1,9}$/.test(requested) ? Number(requested) * 1000 : 0;
}

/** A unique name: of a session, or as a prefix of keys. */
export function newName() {
  const bytes = new Uint8Array(12);
  // Node 18 has no `crypto` of its own accord; and a name is no secret.
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
}
