/** Points of charts, of the episodes of one instance. */

/** Adds up the steps and the time of an instance's episodes, each of which counts once. */
export class EpisodePoints {
  /** The number of the first episode that has not been added. */
  next = 0;
  #steps = 0;
  #firstBegan = null;

  /**
   * Make the points of episodes, in the order of their numbers.
   *
   * @param {object[]} episodes As the server describes them.
   * @returns {{ episode: number, step: number, time: number, length: number, total: any }[]}
   */
  add(episodes) {
    const points = [];
    for (const { number, return: total, length, seconds, ended_at } of episodes) {
      if (number < this.next) continue;
      this.next = number + 1;
      this.#steps += length;
      this.#firstBegan ??= ended_at - seconds;
      points.push({ episode: number, step: this.#steps, time: ended_at - this.#firstBegan, length, total });
    }
    return points;
  }
}
