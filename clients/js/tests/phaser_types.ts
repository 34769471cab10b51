/** Uses the declarations of `phaser.d.ts`; `tsc --strict` checks it, nothing runs it. */

import { NdArray, array, serveScene } from "gym-http-client/phaser";
import type { SceneLending, SceneOfGame } from "gym-http-client/phaser";

const scene: SceneOfGame = { game: {} };
const lending: SceneLending = {
  name: "catch",
  scene,
  observationSpace: { type: "Box", low: 0, high: 1, shape: [4] },
  actionSpace: { type: "Discrete", n: 3 },
  updates: 4,
  fps: 60,
  drawn: () => false,
  begin: ({ seed, options }) => console.log(seed, options),
  act: async (action: number) => console.log(action),
  outcome: () => ({ observation: Float32Array.of(0, 0, 0, 0), reward: 1, terminated: true }),
  render: (): NdArray => array([[[0, 0, 0]]], { dtype: "uint8" }),
};
const served: Promise<void> = serveScene(lending);
// @ts-expect-error a scene is driven by its clock, and has no steps of its own
void serveScene({ ...lending, step: () => ({ observation: 0, reward: 0 }) });
void served;
