/**
 * The rules: a player pushes crates onto goals, one at a time, and never pulls.
 *
 * A level is fields of `SIZE` x `SIZE`, row by row. Positions are indices of fields.
 */

export const SIZE = 6;
export const MAX_STEPS = 120;

/** How far each action goes: up, down, left, right. */
export const MOVES = [-SIZE, SIZE, -1, 1];

/** What a field looks like, and its number in observations. */
export const Tile = Object.freeze({
  FLOOR: 0,
  WALL: 1,
  GOAL: 2,
  CRATE: 3,
  CRATE_ON_GOAL: 4,
  PLAYER: 5,
  PLAYER_ON_GOAL: 6,
});
export const TILES = Object.keys(Tile).length;

/** Each step costs a little, so that short ways are worth more. */
const COST = -0.1;
const CRATE_ON_GOAL = 1;
const SOLVED = 10;

/**
 * @typedef {object} Level
 * @property {Set<number>} walls
 * @property {Set<number>} goals
 * @property {number[]} crates
 * @property {number} player
 */

/** A game of one level. */
export class Game {
  /** @param {Level} level */
  constructor({ walls, goals, crates, player }) {
    [this.walls, this.goals, this.player] = [walls, goals, player];
    this.crates = new Set(crates);
    this.steps = 0;
  }

  /** How many crates are on goals. */
  get placed() {
    return [...this.crates].filter((crate) => this.goals.has(crate)).length;
  }

  get solved() {
    return this.placed === this.crates.size;
  }

  /** Whether there have been more steps than are good. */
  get late() {
    return !this.solved && this.steps >= MAX_STEPS;
  }

  /** Take a step; return its reward. */
  step(action) {
    const before = this.placed;
    this.steps++;
    this.#move(MOVES[action]);
    return COST + CRATE_ON_GOAL * (this.placed - before) + (this.solved ? SOLVED : 0);
  }

  #move(by) {
    const to = this.player + by;
    if (this.crates.has(to)) {
      if (!this.#isFree(to + by)) return;
      this.crates.delete(to);
      this.crates.add(to + by);
    }
    if (this.#isFree(to)) this.player = to;
  }

  #isFree(field) {
    return !this.walls.has(field) && !this.crates.has(field);
  }

  /** Return the number of each field's tile. */
  tiles() {
    return Uint8Array.from({ length: SIZE * SIZE }, (_, field) => this.#tile(field));
  }

  #tile(field) {
    const onGoal = this.goals.has(field);
    if (this.walls.has(field)) return Tile.WALL;
    if (this.crates.has(field)) return onGoal ? Tile.CRATE_ON_GOAL : Tile.CRATE;
    if (this.player === field) return onGoal ? Tile.PLAYER_ON_GOAL : Tile.PLAYER;
    return onGoal ? Tile.GOAL : Tile.FLOOR;
  }
}
