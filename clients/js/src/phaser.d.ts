/** Scenes of Phaser 3, provided to a server. */

import type { Beginning, Lending, Outcome, Soon } from "./serve.js";

export { NdArray, array } from "./index.js";

/** The members that a scene needs: any `Phaser.Scene` that was started. */
export interface SceneOfGame {
  game: object;
}

/**
 * A scene as an environment: like `Lending`, but an agent's steps advance the game's time.
 *
 * Without an agent, the game runs by itself. With an agent it stands still between steps,
 * and each step advances it by some updates of the same length: physics, timers, tweens and
 * animations all follow them, and not the clock.
 */
export interface SceneLending extends Omit<Lending, "reset" | "step" | "observe"> {
  scene: SceneOfGame;
  /** Number of updates in a step, by default 1. */
  updates?: number;
  /** Number of updates in a second of the game, by default 60. */
  fps?: number;
  /**
   * Whether people are to see the next update, and it waits for a frame of the screen;
   * else nothing is drawn and nothing is waited for, as is always so in a hidden page.
   */
  drawn?(): boolean;
  /** Begins an episode; may restart the scene. The game then makes one update. */
  begin(how: { seed: number | bigint | null; options: Record<string, any> }): Soon<void>;
  /** Does an action, before the updates of its step. */
  act(action: any): Soon<void>;
  /** Returns the result of the updates; for a reset, observation and info. */
  outcome(): Soon<Outcome | Beginning>;
}

/**
 * Provide a scene to a server, until the signal ends it.
 *
 * With `renderModes` of `["rgb_array"]` and no `render`, frames are what the game draws.
 *
 * @throws ApiError The server refuses this environment, with the reason.
 * @throws TypeError A required member is missing.
 */
export function serveScene(lending: SceneLending): Promise<void>;
