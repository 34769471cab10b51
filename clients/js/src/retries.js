/** Retries: what is sent again, when, and for how long. */

import { problemIn } from "./answers.js";

/** Statuses by which a server says that it has not done it, and may do it later. */
const REPEATED = new Set([408, 429, 503]);
/** Codes of a creation that it has done all for: it has waited as long as it was asked to. */
const FINAL_OF_CREATION = new Set(["external-away"]);

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const FIRST_CONTACT = 5000;
const MAX_DOUBLINGS = 30;

/** Why there is no answer: nobody is there, or it was lost on its way. */
export const Lost = Object.freeze({ ABSENT: "absent", CUT: "cut" });

/**
 * Tell whether an answer says that what was asked may be done later.
 *
 * @param {{ status: number, body?: Uint8Array }} answer
 * @param {boolean} [creates] Whether an instance was to be made.
 */
export function isRepeated({ status, body }, creates = false) {
  return REPEATED.has(status) && !(creates && FINAL_OF_CREATION.has(problemIn(body)?.code));
}

/**
 * The tries of one request.
 *
 * It is sent again, the same to the byte and under the same key, when there is no whole
 * answer, and after 408, 429 and 503, unless an answer to a creation is final. Pauses double, up to 5 s, and their lengths are
 * drawn, so that many clients do not come back at the same moment.
 */
export class Tries {
  /**
   * @param {import("./deadlines.js").Deadline} deadline Of the call.
   * @param {boolean} met Whether there has been somebody at the address before.
   * @param {boolean} [creates] Whether an instance is to be made.
   */
  constructor(deadline, met, creates = false) {
    this.deadline = deadline;
    this.met = met;
    this.creates = creates;
    /** What came of the last one, in words. */
    this.heard = "";
    this.count = 1;
    this.began = performance.now();
  }

  /**
   * Pause if there is to be another try; tell whether.
   *
   * @param {{ status?: number, headers?: Headers, body?: Uint8Array, lost?: string, message?: string }} outcome
   */
  async again(outcome) {
    if (outcome.lost === undefined && !isRepeated(outcome, this.creates)) return false;
    if (outcome.lost !== Lost.ABSENT) this.met = true;
    const pause = retryAfter(outcome) + this.#drawn();
    const left = this.met ? Infinity : this.began + FIRST_CONTACT - performance.now();
    if (pause >= Math.min(left, this.deadline.left())) return false;
    this.heard = wordsOf(outcome);
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
  const told = problemIn(body);
  return told ? `${told.message} (${status})` : `status ${status}`;
}

/** Milliseconds that a server asks to wait; dates count as none. */
function retryAfter({ headers }) {
  const asked = headers?.get("retry-after") ?? "";
  return /^[0-9]{1,9}$/.test(asked) ? Number(asked) * 1000 : 0;
}

/** A name that nobody else has: of a session, or to begin keys with. */
export function newName() {
  const bytes = new Uint8Array(12);
  // Node 18 has no `crypto` of its own accord; and a name is no secret.
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
}
