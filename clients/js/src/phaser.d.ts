/** Scenes of Phaser 3, lent to a server. */

import type { Beginning, Lending, Outcome, Soon } from "./serve.js";

export { NdArray, array } from "./index.js";

/** What a scene has to have: any `Phaser.Scene` that was started. */
export interface SceneOfGame {
  game: object;
}

/**
 * A scene as an environment: as `Lending`, but that an agent's steps drive the game's time.
 *
 * While no agent is there, the game runs by itself. While one is there it stands still
 * between steps, and each step advances it by some updates of the same length: physics,
 * timers, tweens and animations all go by them, and none by the clock on the wall.
 */
export interface SceneLending extends Omit<Lending, "reset" | "step" | "observe"> {
  scene: SceneOfGame;
  /** How many updates a step has; 1 unless told. */
  updates?: number;
  /** How many updates are a second of the game; 60 unless told. */
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
  /** Tells what came of the updates; of a reset, observation and info. */
  outcome(): Soon<Outcome | Beginning>;
}

/**
 * Lend a scene to a server, until the signal ends it.
 *
 * With `renderModes` of `["rgb_array"]` and no `render`, frames are what the game draws.
 *
 * @throws ApiError The server does not take this environment, and says why.
 * @throws TypeError Something that it needs is missing.
 */
export function serveScene(lending: SceneLending): Promise<void>;
