/** Retries: what is sent again, when, and for how long. */

/** Statuses by which a server says that it has not done it, and may do it later. */
export const REPEATED = new Set([408, 429, 503]);

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;
const FIRST_CONTACT = 5000;
const MAX_DOUBLINGS = 30;

/** Why there is no answer: nobody is there, or it was lost on its way. */
export const Lost = Object.freeze({ ABSENT: "absent", CUT: "cut" });

/**
 * The tries of one request.
 *
 * It is sent again, the same to the byte and under the same key, when there is no whole
 * answer, and after 408, 429 and 503. Pauses double, up to 5 s, and their lengths are
 * drawn, so that many clients do not come back at the same moment.
 */
export class Tries {
  /**
   * @param {import("./deadlines.js").Deadline} deadline Of the call.
   * @param {boolean} met Whether there has been somebody at the address before.
   */
  constructor(deadline, met) {
    this.deadline = deadline;
    this.met = met;
    this.count = 1;
    this.began = performance.now();
  }

  /**
   * Pause if there is to be another try; tell whether.
   *
   * @param {{ status?: number, headers?: Headers, lost?: string }} outcome
   */
  async again(outcome) {
    if (outcome.lost === undefined && !REPEATED.has(outcome.status)) return false;
    if (outcome.lost !== Lost.ABSENT) this.met = true;
    const pause = retryAfter(outcome) + this.#drawn();
    const left = this.met ? Infinity : this.began + FIRST_CONTACT - performance.now();
    if (pause >= Math.min(left, this.deadline.left())) return false;
    await this.deadline.sleep(pause);
    this.count++;
    return true;
  }

  #drawn() {
    const bound = FIRST_PAUSE * 2 ** Math.min(this.count - 1, MAX_DOUBLINGS);
    return Math.random() * Math.min(bound, LONGEST_PAUSE);
  }
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
