/** Uses every export as declared; `tsc --strict` checks it, nothing runs it. */

import {
  ApiError,
  AutoresetMode,
  Box,
  Client,
  Complex,
  DictSpace,
  Discrete,
  Env,
  Float,
  Graph,
  GraphInstance,
  GymHttpError,
  MultiBinary,
  MultiDiscrete,
  NdArray,
  OneOf,
  Opaque,
  ProtocolError,
  Scalar,
  Sequence,
  Space,
  Text,
  TransportError,
  Tuple,
  TupleSpace,
  Unsent,
  VectorEnv,
  array,
  attach,
  decodeBinary,
  decodeTyped,
  dict,
  encodeBinary,
  encodeTyped,
  float,
  instances,
  int,
  list,
  make,
  makeVec,
  registry,
  scalar,
  spaceOf,
  tuple,
} from "gym-http-client";
import type {
  ActOptions,
  Acted,
  Answer,
  CallOptions,
  CloseOptions,
  EndedEpisode,
  EndedInstance,
  Episode,
  EpisodeList,
  EpisodesOptions,
  InstanceList,
  InstancesOptions,
  Keys,
  ListedInstance,
  MakeOptions,
  MakeVecOptions,
  Random,
  Recording,
  RegistryEntry,
  RegistryOptions,
  RequestOptions,
  ResetOptions,
  ResetResult,
  RolloutOptions,
  RolloutResult,
  ServerOptions,
  ServerWarning,
  ShowOptions,
  Showing,
  Shown,
  StepResult,
  StepsResult,
  Timing,
  TimingSettings,
  Update,
  Updates,
  Value,
} from "gym-http-client";

const onWarning = (warning: ServerWarning): void => void warning.category.concat(warning.message);
const address = "http://127.0.0.1:5000";
const server: ServerOptions = { url: address, token: "t", timeout: 1000, maxBody: 1, stream: false, onWarning };
const call: CallOptions = { timeout: 1000, signal: new AbortController().signal };
const half: Random = () => 0.5;

async function environments(): Promise<number> {
  const options: MakeOptions = { kwargs: { a: 1 }, seed: 1n, renderMode: "ansi", wrappers: ["ClipReward"], waitS: 1, label: "x" };
  const env: Env<NdArray<Float32Array>> = await make("CartPole-v1", { ...server, ...options, ...call });
  const begin: ResetOptions = { seed: 42, options: { low: -0.1 } };
  const first: ResetResult<NdArray<Float32Array>> = await env.reset(begin);
  const step: StepResult<NdArray<Float32Array>> = await env.step(env.actionSpace.sample(half), call);
  const many: StepsResult = await env.stepMany([0, 1]);
  const play: RolloutOptions = { episodes: 2, policy: "random", maxSteps: 5 };
  const played: RolloutResult = await env.rollout(play);
  const frame: unknown = await env.render();
  const transport: "stream" | "rest" = env.transport;
  const closing: CloseOptions = { keepalive: true };
  await env.close(closing);
  console.log(first.info, many.stopped, frame, transport, await env.describe(), env.instanceId, env.spec);
  return step.observation.data[0]! + step.reward + played.steps;
}

async function clocks(): Promise<number> {
  const options: MakeOptions = { realtime: { mode: "free_running", hz: 50 } };
  const env: Env<NdArray> = await make("Pendulum-v1", { ...server, ...options });
  const { realtime } = await env.reset();
  const acting: ActOptions = { validS: 0.5, priority: 1, ...call };
  const acted: Acted = await env.act([0.5], acting);
  await env.act(undefined, { actions: [[0.5]], at: acted.tick });
  const updates: Updates<NdArray> = env.updates({ deliver: "all", most: 3 });
  for await (const update of updates) {
    const { observation, rewards, last }: Update<NdArray> = update;
    const timing: Timing = update.realtime;
    if (last || timing.tick > 9) updates.close();
    console.log(observation.data, rewards?.data, realtime?.late_ns);
  }
  const settings: TimingSettings = { hz: 25, agentTimeoutS: null };
  const { state } = await env.pause();
  console.log(await env.setTiming(settings), await env.timing(), state, await env.resume(), await env.trace({ last: 3 }));
  return updates.lost;
}

async function vectors(): Promise<boolean> {
  const options: MakeVecOptions = { numEnvs: 3, autoresetMode: AutoresetMode.SAME_STEP, hosts: 2 };
  const vector: VectorEnv = await makeVec("CartPole-v1", { ...server, ...options });
  await vector.reset({ seed: [1, null, 3n] });
  const { terminated } = await vector.step([0, 1, 0]);
  const again: Env | VectorEnv = await attach(vector.instanceId, server);
  await again[Symbol.asyncDispose]();
  return terminated.get(0) && vector.numEnvs === 3 && vector.singleActionSpace.contains(1);
}

async function servers(): Promise<string> {
  const client = new Client(server);
  const requested: RegistryOptions = { search: "taxi", available: true };
  const entries: RegistryEntry[] = await client.registry({ ...requested, ...call });
  const names: Record<string, string> = await list(server);
  const listed: InstanceList = await instances(server);
  const present: ListedInstance | undefined = listed.instances[0];
  const ended: EndedInstance | undefined = (await client.instances(call)).ended[0];
  console.log(present?.state === "stuck", present?.label, ended?.reason);
  await registry(server);
  await (await client.make<NdArray>("CartPole-v1")).close();
  await (await client.makeVec("CartPole-v1", { numEnvs: 2 })).close();
  await client.attach("c0ffee00");
  console.log(await client.list(), await client.info(), entries, names);
  const options: RequestOptions = { body: new Uint8Array(2), headers: { "If-None-Match": "*" }, ...call };
  const answer: Answer = await client.request("PUT", "/v1/runs/cart/weights/", options);
  console.log(answer.status, answer.headers.get("etag"), answer.body.length, answer.value);
  return client.url;
}

function errors(error: unknown): string {
  if (error instanceof TransportError || error instanceof ProtocolError) return error.kind;
  if (error instanceof ApiError) return `${error.status} ${error.code} ${error.body}`;
  return error instanceof GymHttpError ? `${error.url}: ${error.message}` : "";
}

function values(): Value[] {
  const exact: Float = float(1);
  const whole: bigint = int("9007199254740993");
  const pair: Tuple<number> = tuple([1, 2]);
  const keyed: Map<number, string> = dict([[1, "one"] as const]);
  const one: Scalar = scalar(1, "int64");
  const grid: NdArray = array([[1, 2]], { dtype: "float32" });
  const graph = new GraphInstance(grid, null, null);
  const bytes: Uint8Array = encodeBinary([exact, whole, pair, keyed, one, grid, graph]);
  const text: string = encodeTyped(null) + grid.toString() + JSON.stringify(grid.toJSON());
  const root: number = new Complex(0, 1).im;
  const unsent: string = new Unsent("{1, 2}", "set").type;
  return [decodeBinary(bytes), decodeTyped(text), root, unsent, exact.value, one.dtype, grid.row(0), AutoresetMode.DISABLED];
}

function spaces(): boolean[] {
  const go: Space = spaceOf({ type: "Discrete", n: 2 });
  const all: Space[] = [
    new Box({ low: -1, high: 1, shape: [2] }),
    new Discrete({ n: 2 }),
    new MultiBinary({ n: 2 }),
    new MultiDiscrete({ nvec: [2, 3] }),
    new Text({ max_length: 3 }),
    new DictSpace({ spaces: [["go", go.toJSON()]] }),
    new TupleSpace({ spaces: [] }),
    new OneOf({ spaces: [go.toJSON()] }),
    new Sequence({ space: go.toJSON() }),
    new Graph({ node_space: go.toJSON(), edge_space: null }),
    new Opaque({ class: "company.spaces:Even" }, spaceOf),
  ];
  const texts: string[] = all.map((space) => space.toString());
  const drawn: number | bigint = new Discrete({ n: 2 }).sample(half);
  return [go.contains(drawn), texts.length === all.length, ...all.map((space) => space.contains(space.sample()))];
}

async function shows(client: Client): Promise<number> {
  const how: ShowOptions = { fps: 5, size: 320 };
  const states: Showing = await client.show("3c657dbc", how);
  const first: Shown = (await states.next()).value;
  for await (const { state, picture } of states) {
    if (picture !== null) return picture.length + Number(state.steps);
  }
  states.close();
  return Number(first.state.steps);
}

// @ts-expect-error the common class of environments cannot be constructed
export type Common = import("gym-http-client").Remote;
// @ts-expect-error an environment is made by `make`
new Env();
// @ts-expect-error an unknown option
void make("CartPole-v1", { render_mode: "ansi" });
// @ts-expect-error a seed is an option
void make("CartPole-v1").then((env) => env.reset(42));
// @ts-expect-error a seed is a number
void make("CartPole-v1", { seed: "42" });

void [environments, clocks, vectors, servers, errors, values, spaces, shows];

export async function observed(env: Env): Promise<number> {
  const options: EpisodesOptions = { last: 10, from: 0 };
  const { episodes, current, total }: EpisodeList = await env.episodes(options);
  const ended: EndedEpisode | undefined = episodes[0];
  const running: Episode | undefined = current[0];
  const keys: Keys = await env.keys();
  const wanted: InstancesOptions = { search: "cart", state: "idle" };
  const { instances: listed, slots } = await instances(wanted);
  const recording: Recording | null | undefined = listed[0]?.recording;
  return (ended?.number ?? total) + (running?.length ?? 0) + keys.fps + slots.of + (recording?.bytes ?? 0);
}
