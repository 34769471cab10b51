/** A program with the client, for a page and for Node: plays an episode. */

import { make } from "gym-http-client";
import { serveEnv } from "gym-http-client/serve";

async function play(url) {
  const env = await make("CartPole-v1", { url });
  await env.reset({ seed: 42 });
  let steps = 0;
  for (let done = false; !done; steps++) {
    const { terminated, truncated } = await env.step(steps % 2);
    done = terminated || truncated;
  }
  const { transport } = env;
  await env.close();
  return `${steps} steps over ${transport}, ${typeof serveEnv}`;
}

globalThis.play = play;
if (globalThis.process?.versions?.node) play(process.argv[2]).then(console.log);
