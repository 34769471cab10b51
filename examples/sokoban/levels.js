/**
 * Levels from numbers: the same number gives the same level, and each can be solved.
 *
 * A layout is drawn, and played backwards from its end, where all crates are on goals:
 * what can be reached by pulling can be solved by pushing. So the number of steps that
 * each position needs is known, and a position is drawn that is neither easy nor long.
 */

import { MOVES, SIZE } from "./rules.js";

const FIELDS = SIZE * SIZE;
const LEAST_STEPS = 5;
/** The most, for levels of one crate and of two. */
const MOST_STEPS = [18, 30];
export const MOST_CRATES = MOST_STEPS.length;

/** A random generator with a seed (mulberry32); it returns integers of 32 bits. */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

/**
 * Make a level.
 *
 * @param {number} number From 0 to 2^32 - 1.
 * @param {number} crates 1 or 2.
 * @returns {import("./rules.js").Level}
 */
export function makeLevel(number, crates = 1) {
  const random = generator(number);
  for (;;) {
    const { walls, goals } = layout(random, crates);
    const fair = positions(walls, goals).filter(
      ({ steps }) => steps >= LEAST_STEPS && steps <= MOST_STEPS[crates - 1],
    );
    if (fair.length) {
      const { player, crates: places } = fair[random() % fair.length];
      return { walls, goals, player, crates: places };
    }
  }
}

function layout(random, crates) {
  const inside = shuffled(random, [...Array(FIELDS).keys()].filter((field) => !isBorder(field)));
  const blocks = random() % 3;
  const border = [...Array(FIELDS).keys()].filter(isBorder);
  return {
    walls: new Set([...border, ...inside.slice(0, blocks)]),
    goals: new Set(inside.slice(blocks, blocks + crates)),
  };
}

function isBorder(field) {
  const [row, column] = [Math.floor(field / SIZE), field % SIZE];
  return row === 0 || column === 0 || row === SIZE - 1 || column === SIZE - 1;
}

function shuffled(random, items) {
  for (let last = items.length - 1; last > 0; last--) {
    const other = random() % (last + 1);
    [items[last], items[other]] = [items[other], items[last]];
  }
  return items;
}

/** Return all positions from which the goals can be reached, nearest first. */
function positions(walls, goals) {
  const found = [];
  const seen = new Set();
  const add = (player, crates, steps) => {
    const key = `${player}:${crates}`;
    if (seen.has(key)) return;
    seen.add(key);
    found.push({ player, crates, steps });
  };
  const end = sorted([...goals]);
  for (let field = 0; field < FIELDS; field++) {
    if (!walls.has(field) && !goals.has(field)) add(field, end, 0);
  }
  for (let at = 0; at < found.length; at++) {
    const { player, crates, steps } = found[at];
    for (const by of MOVES) {
      const from = player - by;
      if (walls.has(from) || crates.includes(from)) continue;
      add(from, crates, steps + 1);
      const ahead = player + by;
      if (crates.includes(ahead)) {
        const pulled = crates.map((crate) => (crate === ahead ? player : crate));
        add(from, sorted(pulled), steps + 1);
      }
    }
  }
  return found;
}

function sorted(fields) {
  return fields.sort((one, other) => one - other);
}
