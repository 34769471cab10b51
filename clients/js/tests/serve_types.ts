/** Uses the declarations of `serve.d.ts`; `tsc --strict` checks it, nothing runs it. */

import { Discrete } from "gym-http-client";
import { NdArray, array, serveEnv } from "gym-http-client/serve";
import type { Beginning, Lending, Lendings, Making, Outcome, Soon } from "gym-http-client/serve";

const begin: Beginning = { observation: 0, info: { level: 7 } };
const outcome: Soon<Outcome> = { observation: Uint8Array.of(1, 2), reward: 1, terminated: true };
const lending: Lending = {
  url: "http://127.0.0.1:5000",
  name: "corridor",
  observationSpace: { type: "Discrete", n: 5 },
  actionSpace: new Discrete({ n: 2 }),
  capabilities: ["seed"],
  renderModes: ["rgb_array"],
  realtime: { hz: 60 },
  signal: AbortSignal.timeout(1000),
  log: (line) => console.log(line),
  onAgent: () => {},
  init: ({ kwargs, renderMode }: Making) => console.log(kwargs, renderMode),
  reset: async ({ seed, options }) => (console.log(seed, options), begin),
  step: (action: number) => (action ? outcome : Promise.resolve(outcome)),
  render: (): NdArray => array([[[0, 0, 0]]], { dtype: "uint8" }),
};
const served: Promise<void> = serveEnv(lending);
// @ts-expect-error an environment has a name
void serveEnv({ observationSpace: {}, actionSpace: {}, step: () => outcome });
const { observationSpace, actionSpace } = lending;
const several: Lendings = {
  name: "corridor",
  n: 3,
  observationSpace,
  actionSpace,
  factory: async (index: number) => ({ observe: () => index, step: () => outcome, dialect: "typed" }),
};
void serveEnv(several);
// @ts-expect-error several need a factory
void serveEnv({ ...lending, n: 3, name: "corridor" });
void served;
