/**
 * Learns to cross the slippery lake of FrozenLake-v1, from a table of what happened.
 *
 * It counts where each action led, takes what it has not tried for the goal itself, and
 * plans on that anew after each episode. In the end it plays 100 episodes without
 * learning. Its mean return has to be 0.6 at least (the best policy has 0.74), else it
 * exits with 1.
 *
 *     node frozen_lake.mjs [URL]
 */

import { make } from "gym-http-client";

const [url = "http://127.0.0.1:5000"] = process.argv.slice(2);
const EPISODES = 200;
const TRIES = 10;
const DISCOUNT = 0.99;
const WANTED = 0.6;

/** A generator of numbers from 0 to 1 with a seed, mulberry32; Math.random has none. */
function generator(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const env = await make("FrozenLake-v1", { url });
const [states, actions] = [env.observationSpace.n, env.actionSpace.n];
const random = generator(1);
// By state and action: how often it was tried, what it earned, and where it led.
const table = Array.from({ length: states }, () =>
  Array.from({ length: actions }, () => ({ tries: 0, earned: 0, led: new Map() })),
);
const values = new Float64Array(states);

function worth({ tries, earned, led }) {
  if (tries < TRIES) return 1;
  let sum = earned;
  for (const [state, times] of led) sum += times * DISCOUNT * values[state];
  return sum / tries;
}

function plan() {
  for (let sweep = 0; sweep < 50; sweep++) {
    for (let state = 0; state < states; state++) values[state] = Math.max(...table[state].map(worth));
  }
}

function choose(state) {
  const worths = table[state].map(worth);
  const best = Math.max(...worths);
  const equal = worths.flatMap((each, action) => (each === best ? [action] : []));
  return equal[Math.floor(random() * equal.length)];
}

async function play(seed, learn) {
  let { observation: state } = await env.reset({ seed });
  for (let total = 0; ; ) {
    const action = choose(state);
    const { observation, reward, terminated, truncated } = await env.step(action);
    total += reward;
    if (learn) {
      const cell = table[state][action];
      cell.tries += 1;
      cell.earned += reward;
      if (!terminated) cell.led.set(observation, (cell.led.get(observation) ?? 0) + 1);
    }
    if (terminated || truncated) return total;
    state = observation;
  }
}

let mean = 0;
try {
  for (let episode = 0; episode < EPISODES; episode++) {
    await play(episode ? undefined : 1, true);
    plan();
  }
  for (let episode = 0; episode < 100; episode++) mean += (await play(undefined, false)) / 100;
} finally {
  await env.close();
}
console.log(`mean return ${mean.toFixed(2)} of 100 episodes, after ${EPISODES} to learn`);
process.exitCode = mean >= WANTED ? 0 : 1;
