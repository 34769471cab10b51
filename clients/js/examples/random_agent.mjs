/**
 * Plays an environment at random, and prints the results.
 *
 *     node random_agent.mjs [URL] [ENV_ID] [EPISODES]
 */

import { make } from "gym-http-client";

const [url = "http://127.0.0.1:5000", envId = "CartPole-v1", episodes = "3"] = process.argv.slice(2);

const env = await make(envId, { url });
try {
  for (let episode = 1; episode <= Number(episodes); episode++) {
    await env.reset({ seed: episode });
    let [total, steps, done] = [0, 0, false];
    while (!done) {
      const { reward, terminated, truncated } = await env.step(env.actionSpace.sample());
      total += reward;
      steps += 1;
      done = terminated || truncated;
    }
    console.log(`episode ${episode}: return ${total}, ${steps} steps`);
  }
} finally {
  await env.close();
}
