/** Playing the episodes of the vectors on a live server. */

import { make } from "../src/index.js";
import { matches, shown } from "./models.mjs";

/** Play an episode, and return the first difference. */
export async function playTranscript({ create, seed, reset, actions, steps }, url, transport) {
  const { env_id: envId, render_mode: renderMode, max_episode_steps: maxEpisodeSteps, ...rest } = create;
  const options = { ...rest, renderMode, maxEpisodeSteps };
  const env = await make(envId, { ...options, url, stream: transport === "stream" });
  try {
    const problem = unlike(reset, await env.reset({ seed }));
    if (problem) return `reset: ${problem}`;
    for (const [i, action] of actions.entries()) {
      const different = unlike(steps[i], await env.step(action));
      if (different) return `step ${i}: ${different}`;
    }
    return env.transport === transport ? null : `expected ${transport}, actual ${env.transport}`;
  } finally {
    await env.close();
  }
}

function unlike(expected, actual) {
  for (const [name, model] of Object.entries(expected)) {
    const value = actual[name];
    const isSame = typeof model === "object" ? matches(model, value) : model === value;
    if (!isSame) return `${name}: expected ${JSON.stringify(model).slice(0, 300)}, actual ${shown(value)}`;
  }
  return null;
}
