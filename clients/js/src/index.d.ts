/**
 * Gymnasium environments on a gym_http_server, from browsers and Node.
 *
 * {@link make} makes an environment, and {@link makeVec} many that step as one.
 *
 * @packageDocumentation
 */

/// <reference lib="esnext.disposable" />

/** Any value that a server returns or accepts. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | ArrayBufferView
  | Float
  | Complex
  | Scalar
  | NdArray
  | GraphInstance
  | Space
  | AutoresetMode
  | Unsent
  | Value[]
  | Map<any, any>
  | { [key: string]: any };

/** A generator of random numbers from 0 to 1, without 1, as `Math.random` is. */
export type Random = () => number;

/** Options of every call. */
export interface CallOptions {
  /** Milliseconds for the call with its retries; by default those of the client. */
  timeout?: number;
  /** Ends the call when it is aborted; the server may execute the request all the same. */
  signal?: AbortSignal;
}

/** Where a server is and how requests reach it. */
export interface ServerOptions {
  /** Its URL, by default `http://127.0.0.1:5000`. */
  url?: string;
  /** Its token; else the one in the address, else the environment's `GHS_TOKEN`. */
  token?: string;
  /** Milliseconds for each call with its retries, by default 60,000. */
  timeout?: number;
  /** Bytes that an answer may have, by default 256 MiB. */
  maxBody?: number;
  /** Whether to step over a stream, which is faster; true by default. */
  stream?: boolean;
  /** Called with each warning of the server and the environment; else `console.warn` is. */
  onWarning?: (warning: ServerWarning) => void;
}

/** A warning that a local user of the environment would see. */
export interface ServerWarning {
  /** Its class in Python, as "UserWarning" or "DeprecationWarning". */
  category: string;
  message: string;
}

/** How an environment is made. */
export interface MakeOptions {
  /** The environment's own arguments. */
  kwargs?: Record<string, unknown>;
  /** Seed of the first reset, if that has no seed itself. */
  seed?: number | bigint;
  /** As for `gymnasium.make`, but not "human". */
  renderMode?: string;
  /** Steps after which an episode is truncated; -1 for no limit. */
  maxEpisodeSteps?: number;
  /** As for `gymnasium.make`. */
  disableEnvChecker?: boolean;
  /** Of several agents: whether they act at the same time or one after another. */
  api?: "parallel" | "aec";
  /** Gymnasium's wrappers, the innermost first. */
  wrappers?: (string | { name: string; kwargs?: Record<string, unknown> })[];
  /** Seconds that the server waits for external environments, on top of `timeout`. */
  waitS?: number;
  /** Up to 64 printable characters, which lists of instances show. */
  label?: string;
  /** A clock that does not wait for the agent, as `{ mode: "elastic", hz: 20 }`. */
  realtime?: Record<string, unknown>;
}

/** The time of an observation, in nanoseconds since the clock began. */
export interface Timing {
  /** Number of the update, tick and episode. */
  update: number;
  tick: number;
  episode: number;
  /** The action in force when the observation was captured; `asked` if it was limited. */
  action: {
    number: number;
    value: any;
    priority: number;
    asked?: any;
    limited?: ("clip" | "rate")[];
  } | null;
  capture_ns: number;
  /** How late the capture was. */
  late_ns: number;
  /** The age of the observation when it was answered. */
  age_ns: number;
  now_ns: number;
  timed_out: boolean;
  /** Ticks that were skipped directly before. */
  skipped: number;
  /** Actions that wait for their tick, or for the end of a takeover. */
  queued: number;
  /** Earlier updates whose rewards are added in this one. */
  merged: number;
}

/** What is new in a world, as of a step. */
export interface Update<Observation = any> extends StepResult<Observation> {
  realtime: Timing;
  /** True if all episodes have ended. */
  last?: boolean;
  /** Set after the agent was silent for too long. */
  agent_lost?: any;
}

/** Options of an action. */
export interface ActOptions extends CallOptions {
  /** A chunk in the place of the action: one for each tick. */
  actions?: Value[] | NdArray;
  /** Tick of the chunk's first action; by default the next one. */
  at?: number;
  /** Weight of the chunk where it overlaps an earlier one, for a Box. */
  blend?: number;
  /** Number of the update that this answers, by default the last that arrived. */
  update?: number;
  /** Seconds after which the action expires. */
  validS?: number;
  /** The valid action with the highest priority is applied. */
  priority?: number;
}

/** The answer to an action. */
export interface Acted {
  tick: number;
  now_ns: number;
  sequence?: number;
  /** Actions that wait for their tick, or for the end of a takeover. */
  queued: number;
  repeated?: boolean;
}

/** Settings of a clock that can be changed. */
export interface TimingSettings extends CallOptions {
  hz?: number;
  periodS?: number;
  captureS?: number;
  elasticity?: number;
  defaultAction?: Value;
  agentTimeoutS?: number | null;
}

/** The updates of a world, for `for await`. */
export interface Updates<Observation = any> extends AsyncIterableIterator<Update<Observation>> {
  /** Number of updates so far that the server's buffer could not hold. */
  readonly lost: number;
  /** Close the connection; there are no more updates. */
  close(): void;
}

/** How a vector of environments is made. */
export interface MakeVecOptions extends MakeOptions {
  /** Number of environments, by default one. */
  numEnvs?: number;
  /** "sync", "async" or "vector_entry_point". */
  vectorizationMode?: string;
  /** Further arguments of Gymnasium's vector. */
  vectorKwargs?: Record<string, unknown>;
  /** The behaviour at the end of an episode. */
  autoresetMode?: AutoresetMode | "next_step" | "same_step" | "disabled";
  /** Number of processes over which a "sync" vector is spread; the server's choice. */
  hosts?: number | "auto";
}

/** How an episode begins. */
export interface ResetOptions<Seed = number | bigint> extends CallOptions {
  /** Seed of the environment's random generator; without one, it is not seeded. */
  seed?: Seed;
  /** Options of the environment. */
  options?: Record<string, unknown>;
}

/** The beginning of an episode. */
export interface ResetResult<Observation = any> {
  observation: Observation;
  info: any;
  /** Of an environment with a clock. */
  realtime?: Timing;
  /** Of each channel, NaN without one; of a world with several. */
  rewards?: NdArray;
}

/** A step. */
export interface StepResult<Observation = any, Reward = number, Flag = boolean> {
  observation: Observation;
  reward: Reward;
  terminated: Flag;
  truncated: Flag;
  info: any;
  /** Of an environment with a clock. */
  realtime?: Timing;
  /** Of each channel, NaN without one; of a world with several. */
  rewards?: NdArray;
}

/** Several steps, in columns with an item for each step. */
export interface StepsResult {
  /** An array with one axis more in front, or an Array. */
  observations: any;
  rewards: any;
  terminated: any;
  truncated: any;
  infos: any;
  /** Number of steps taken. */
  steps: number;
  /** Why no more were: null if all were, "episode", "time" or "answer-size". */
  stopped: string | null;
  /** The columns in which an array stands for scalars of NumPy's. */
  scalars: string[];
}

/** Options of a rollout. */
export interface RolloutOptions extends CallOptions {
  /** Number of episodes, by default one. */
  episodes?: number;
  /** "random", which is done without `actions`. */
  policy?: string;
  /** The actions of each episode. */
  actions?: Value[][];
  /** Seed of the first reset, and of the action space if it is drawn from. */
  seed?: number | bigint;
  /** Options of each reset. */
  options?: Record<string, unknown>;
  /** Steps after which an episode is over. */
  maxSteps?: number;
}

/** The episodes of a rollout. */
export interface RolloutResult {
  /** Columns as of {@link StepsResult}, with `actions`, `return` and `length`. */
  episodes: any;
  /** The number of all steps. */
  steps: number;
  stopped: string | null;
}

/** How an environment is closed. */
export interface CloseOptions extends CallOptions {
  /** Have the browser send it even if the page is left. */
  keepalive?: boolean;
}

/** The common members of {@link Env} and {@link VectorEnv}. */
declare class Remote {
  protected constructor();
  /** The server's address, without a token. */
  readonly url: string;
  /** Its name on the server, by which {@link attach} finds it. */
  readonly instanceId: string;
  readonly envId: string;
  /** The action space; null if it cannot be described. */
  readonly actionSpace: any;
  /** The observation space; null if it cannot be described. */
  readonly observationSpace: any;
  readonly renderMode: string | null;
  /** Gymnasium's specification, as an object. */
  readonly spec: any;
  readonly metadata: any;
  /** The transport of calls at present. */
  readonly transport: "stream" | "rest";
  /** Play whole episodes on the server. */
  rollout(options?: RolloutOptions): Promise<RolloutResult>;
  /** Render the present frame: an array, text, or another value of the render mode. */
  render(options?: CallOptions): Promise<any>;
  /** Describe the instance as it is now. */
  describe(options?: CallOptions): Promise<any>;
  /** Return the last episodes, whichever way their steps arrived. */
  episodes(options?: EpisodesOptions & CallOptions): Promise<EpisodeList>;
  /** Return the keys with which a person plays the environment. */
  keys(options?: CallOptions): Promise<Keys>;
  /** End the instance. Closing again does nothing. */
  close(options?: CloseOptions): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** An environment on a server; {@link make} makes one. */
export class Env<Observation = any> extends Remote {
  /** Begin an episode. */
  reset(options?: ResetOptions): Promise<ResetResult<Observation>>;
  /**
   * Make a step.
   *
   * The server casts plain numbers and lists to the action space. Arrays of
   * {@link array} and all other exact values reach the environment unchanged.
   */
  step(action: Value, options?: CallOptions): Promise<StepResult<Observation>>;
  /** Make one step after the other, until the episode ends. */
  stepMany(actions: Value[] | NdArray, options?: CallOptions): Promise<StepsResult>;
  /**
   * Set the action of the next ticks of an environment with a clock, and do not wait.
   * Without an action or a chunk, only report that the agent lives.
   */
  act(action?: Value, options?: ActOptions): Promise<Acted>;
  /**
   * Iterate over the updates of a world with a clock: `for await (const update of …)`.
   * "latest", the default, merges updates that were missed; "all" delivers each.
   */
  updates(options?: { after?: number; deliver?: "latest" | "all"; most?: number }): Updates<Observation>;
  /** Return the clock's settings, state and statistics. */
  timing(options?: CallOptions): Promise<any>;
  /** Change settings of the clock from the next time step on. */
  setTiming(settings: TimingSettings): Promise<any>;
  /** Pause the clock at the end of the time step. */
  pause(options?: CallOptions): Promise<{ state: string; now_ns: number }>;
  /** Continue a paused clock. */
  resume(options?: CallOptions): Promise<{ state: string; now_ns: number }>;
  /** Return the clock's last events, in a form that Perfetto opens, or as "json". */
  trace(options?: { last?: number; format?: "chrome" | "json" } & CallOptions): Promise<any>;
}

/** Many environments on a server that step as one; {@link makeVec} makes one. */
export class VectorEnv extends Remote {
  readonly numEnvs: number;
  readonly singleActionSpace: any;
  readonly singleObservationSpace: any;
  /** Begin an episode in each environment; a seed for each, or one to count on from. */
  reset(options?: ResetOptions<number | bigint | (number | bigint | null)[]>): Promise<ResetResult>;
  /** Make a step in each environment, with an action for each. */
  step(actions: Value, options?: CallOptions): Promise<StepResult<any, NdArray, NdArray>>;
  /** Make one step after the other in each environment. */
  stepMany(actions: Value[] | NdArray, options?: CallOptions): Promise<StepsResult>;
}

/** A server, with its instances and environments. */
export class Client {
  /** @throws TypeError The URL or the token is invalid. */
  constructor(options?: ServerOptions);
  /** The server's address, without a token. */
  readonly url: string;
  /** Make an environment. */
  make<Observation = any>(envId: string, options?: MakeOptions & CallOptions): Promise<Env<Observation>>;
  /** Make many environments that step as one. */
  makeVec(envId: string, options?: MakeVecOptions & CallOptions): Promise<VectorEnv>;
  /** Use an existing instance. */
  attach(instanceId: string, options?: CallOptions): Promise<Env | VectorEnv>;
  /** Show an instance: its newest state a few times a second, until it is closed. */
  show(instanceId: string, options?: ShowOptions): Promise<Showing>;
  /** Return the name of each instance's environment, by instance ID. */
  list(options?: CallOptions): Promise<Record<string, string>>;
  /** List the instances with their figures, and the last that ended. */
  instances(options?: InstancesOptions & CallOptions): Promise<InstanceList>;
  /** List the environments that can be made. */
  registry(options?: RegistryOptions & CallOptions): Promise<RegistryEntry[]>;
  /** Return the server's version, capabilities and limits. */
  info(options?: CallOptions): Promise<any>;
  /**
   * Send any request of the API, as for training runs; it is sent again like all others.
   *
   * @param path As `/v1/runs/`, with its query.
   * @throws ApiError The server refuses.
   */
  request(method: "GET" | "POST" | "PUT" | "DELETE", path: string, options?: RequestOptions): Promise<Answer>;
}

/** Options of a request. */
export interface RequestOptions extends CallOptions {
  /** Bytes or text, sent as they are; any other value is sent as JSON. */
  body?: Uint8Array | string | Value;
  /** Media type of the body, by default `application/octet-stream` for bytes and text. */
  contentType?: string;
  headers?: Record<string, string | number>;
}

/** The answer to a request. */
export interface Answer {
  status: number;
  headers: { get(name: string): string | null };
  body: Uint8Array;
  /** The value of JSON; null for other answers. */
  value: any;
}

/** What to show of an instance. */
export interface ShowOptions {
  /** States a second at most, 1 to 60; 10 by default. */
  fps?: number;
  /** Part of the host's time that drawing may take, 0.01 to 1; 0.1 by default. */
  share?: number;
  /** Pixels that the longer side of a picture may have, 16 to 2048; 640 by default. */
  size?: number;
  /** Ends the handshake. */
  signal?: AbortSignal;
}

/** The state of an instance at a moment. */
export interface Shown {
  /** What happened last and what was counted, as docs/streams.md has it. */
  state: Record<string, any>;
  /** A JPEG file, or null; `state.why` says why there is none. */
  picture: Uint8Array | null;
}

/** Iterates over states until the instance is closed; a slow reader gets the newest. */
export interface Showing extends AsyncIterableIterator<Shown> {
  /** Stop watching. */
  close(): void;
}

/** Which instances of a server to list. */
export interface InstancesOptions {
  /** Only those with this text, in any case, in their env ID, instance ID, label or owner. */
  search?: string;
  /** Only those in this state; `busy` are those in a call, `idle` those between two. */
  state?: ListedInstance["state"] | "ended" | "busy" | "idle";
}

/** The instances of a server. */
export interface InstanceList {
  /** The present ones, the oldest first. */
  instances: ListedInstance[];
  /** The last 100 that ended, the newest first. */
  ended: EndedInstance[];
  /** How many instances the server has, and may have. */
  slots: { taken: number; of: number };
}

/** An instance, with its figures. */
export interface ListedInstance {
  instance_id: string;
  env_id: string;
  label: string | null;
  /** Name of the token that owns it, on a server with several. */
  owner: string | null;
  /** What it does: `stuck` is in a call for longer than usual, `waiting` for clients. */
  state: "making" | "running" | "waiting" | "stuck" | "paused" | "ending";
  age_s: number;
  /** Seconds since the present call began. */
  busy_s: number | null;
  /** Seconds since the last call ended. */
  idle_s: number | null;
  steps: number;
  episodes: number;
  /** Return of the episode that ended last; null before the first. */
  last_return: number | null;
  last_length: number | null;
  /** Milliseconds of steps in the host; the quantiles are upper bounds. */
  step_ms: { mean: number; p50: number; p99: number } | null;
  /** Number of environments of a vector. */
  num_envs: number | null;
  recording: Recording | null;
  render_mode: string | null;
  /** Of an instance with a clock; lateness is in milliseconds. */
  realtime: {
    hz: number;
    ticks: number;
    lateness_ms: { mean: number; p50: number; p99: number } | null;
    /** The same, with ticks that were left out. */
    lateness_all_ms: { mean: number; p50: number; p99: number } | null;
    /** The longest time without a tick. */
    stall_ms: number;
  } | null;
  streams: number;
  watchers: number;
  memory_bytes: number;
}

/** What is recorded of an instance. */
export interface Recording {
  steps: boolean;
  video: boolean;
  bytes: number;
  frames_written: number;
  frames_dropped: number;
  /** Whether it ended early, as of a full disk. */
  failed: boolean;
}

/** Which episodes to return. */
export interface EpisodesOptions {
  /** How many at most, 1 to 1000. */
  last?: number;
  /** Number of the first one; the first episode of an instance has number 0. */
  from?: number;
}

/** The episodes of an instance. */
export interface EpisodeList {
  /** The last that ended, the oldest first. */
  episodes: EndedEpisode[];
  /** Those that run, one for each environment of a vector. */
  current: Episode[];
  /** Number of those that ended. */
  total: number;
}

/** An episode. */
export interface Episode {
  /** Index in a vector. */
  env: number | null;
  /** Null if it is not finite. */
  return: number | null;
  length: number;
  seconds: number;
  seed: any;
}

/** An episode that has ended. */
export interface EndedEpisode extends Episode {
  number: number;
  terminated: boolean;
  truncated: boolean;
  end: string;
  /** Unix time in seconds. */
  ended_at: number;
}

/** With which keys a person plays an environment. */
export interface Keys {
  /** Names of keys held together, as `KeyboardEvent.code`, and their actions. */
  keys: { keys: string[]; action: any }[] | null;
  /** The action without a key. */
  noop: any;
  /** Whether to wait for a key. */
  wait: boolean;
  /** Steps a second. */
  fps: number;
}

/** An instance that has ended. */
export interface EndedInstance {
  instance_id: string;
  env_id: string;
  label: string | null;
  owner: string | null;
  /** Why it ended, as "closed" or "crashed". */
  reason: string;
  detail: string | null;
  signal: string | null;
  exit_status: number | null;
  age_s: number;
  ended_s_ago: number;
  steps: number;
  episodes: number;
}

/** Which environments of a server to list. */
export interface RegistryOptions {
  /** Only those with this text in their name. */
  search?: string;
  /** Only those that can, or cannot, be made there. */
  available?: boolean;
}

/** An environment that a server knows. */
export interface RegistryEntry {
  env_id: string;
  available: boolean;
  reason: string | null;
  entry_point: string | null;
  max_episode_steps: number | null;
}

/** Make an environment on a server. */
export function make<Observation = any>(
  envId: string,
  options?: ServerOptions & MakeOptions & CallOptions,
): Promise<Env<Observation>>;

/** Make many environments on a server that step as one. */
export function makeVec(envId: string, options?: ServerOptions & MakeVecOptions & CallOptions): Promise<VectorEnv>;

/** Use an existing instance. */
export function attach(instanceId: string, options?: ServerOptions & CallOptions): Promise<Env | VectorEnv>;

/** Return the name of each instance's environment, by instance ID. */
export function list(options?: ServerOptions & CallOptions): Promise<Record<string, string>>;

/** List the instances with their figures, and the last that ended. */
export function instances(options?: ServerOptions & InstancesOptions & CallOptions): Promise<InstanceList>;

/** List the environments that can be made. */
export function registry(options?: ServerOptions & RegistryOptions & CallOptions): Promise<RegistryEntry[]>;

/** Any failure between this client and a server. */
export class GymHttpError extends Error {
  /** "transport", "api" or "protocol". */
  readonly kind: "transport" | "api" | "protocol";
  /** HTTP status of the answer, if there was one. */
  readonly status: number | null;
  /** The server's short name of the problem, such as "unknown-env". */
  readonly code: string | null;
  /** Where the request went. */
  readonly url: string | null;
  /** All members of the server's problem. */
  readonly body: any;
  /** The traceback of the environment's exception on the server; null without one. */
  readonly traceback: string | null;
}

/** There was no answer, so it is unknown whether the server did its work. */
export class TransportError extends GymHttpError {}

/** The server answered that it will not, or could not. */
export class ApiError extends GymHttpError {}

/** Something answered, but not as a server of this protocol does. */
export class ProtocolError extends GymHttpError {}

/** An array of any number of axes, flat in C order. */
export class NdArray<Data extends ArrayLike<unknown> = any> {
  constructor(data: Data, shape: number[], dtype: string);
  /**
   * The elements: a typed array of the dtype, over the memory that was received; for
   * bool a Uint8Array of 0 and 1, for float16 a Float32Array, for "object" an Array, and
   * for dtypes that JavaScript has no array of a Uint8Array of their bytes.
   */
  readonly data: Data;
  readonly shape: number[];
  /** As "float32"; as NumPy's `dtype.str` where that has no such name. */
  readonly dtype: string;
  /** How many elements there are. */
  readonly size: number;
  /** How many rows the first axis has. */
  readonly length: number;
  /** The element at these indices, one for each axis. */
  get(...indices: number[]): any;
  /** A row of the first axis, over the same memory; an element of a one-dimensional array. */
  row(index: number): any;
  /** The element at a position in C order. */
  element(at: number): any;
  /** Nested arrays of the elements. */
  toArray(): any;
  /** Nested arrays for `JSON.stringify`, with BigInts as decimal strings. */
  toJSON(): any;
  /** Dtype, shape and the first elements: `NdArray(float32, [2]: 0.5, 1)`. */
  toString(): string;
  [Symbol.iterator](): IterableIterator<any>;
}

/** Make an array of nested or flat elements, to be sent as exactly that. */
export function array(
  elements: ArrayLike<any> | number | bigint | boolean,
  options?: { shape?: number[]; dtype?: string },
): NdArray;

/** A float, where a bare number could be taken for an integer, or has bits to keep. */
export class Float {
  constructor(value: number, bits?: bigint);
  readonly value: number;
  readonly bits: bigint;
  valueOf(): number;
}

/** Make a float from a number, or from a BigInt with its 64 bits. */
export function float(value: number | bigint): Float;

/** Make an integer of any size. */
export function int(value: number | bigint | string): bigint;

/** An array that goes as Python's tuple. */
export class Tuple<Item = any> extends Array<Item> {}

/** Make a tuple of items. */
export function tuple<Item = any>(items?: Iterable<Item>): Tuple<Item>;

/** Make a dict with keys of any kind, in this order. */
export function dict<Key = any, Item = any>(pairs?: Iterable<readonly [Key, Item]>): Map<Key, Item>;

/** A NumPy scalar of a dtype that JavaScript does not have, or to be sent as such. */
export class Scalar {
  constructor(dtype: string, bytes: Uint8Array);
  readonly dtype: string;
  /** As they are on the wire. */
  readonly bytes: Uint8Array;
}

/** Make a NumPy scalar to be sent as exactly that. */
export function scalar(value: number | bigint | boolean | string | Uint8Array, dtype: string): Scalar;

/** An element of a Graph space. */
export class GraphInstance {
  constructor(nodes: Value, edges?: Value, edgeLinks?: Value);
  nodes: any;
  edges: any;
  edgeLinks: any;
}

/** Python's complex number. */
export class Complex {
  constructor(re: number, im: number);
  readonly re: number;
  readonly im: number;
}

/** What stands for a value of an info that cannot be sent. */
export class Unsent {
  constructor(repr: string, type: string);
  /** The beginning of what Python prints for the value. */
  readonly repr: string;
  /** The name of its class, such as "set" or "datetime.date". */
  readonly type: string;
}

/** A vector's behaviour at the end of an episode. */
export class AutoresetMode {
  private constructor();
  static readonly NEXT_STEP: AutoresetMode;
  static readonly SAME_STEP: AutoresetMode;
  static readonly DISABLED: AutoresetMode;
  /** As Gymnasium's, such as "NextStep". */
  readonly value: string;
  /** As in {@link MakeVecOptions}, such as "next_step". */
  readonly option: string;
}

/** A set of values, such as the actions of an environment. */
export abstract class Space<Element = any> {
  /** Whether a value is in the space. */
  contains(value: unknown): boolean;
  /** Draw an element, as Gymnasium distributes them. */
  sample(random?: Random): Element;
  /** The description of which {@link spaceOf} makes an equal space. */
  toJSON(): any;
  /** As Gymnasium prints it: `Box(-1.0, 1.0, (2,), float32)`. */
  toString(): string;
  /** Make an element from plain JSON. */
  fromPlain(plain: any): Element;
}

/** Arrays of a shape and dtype, each element between a low and a high bound. */
export class Box extends Space<NdArray> {
  /** @param description As `{low: -1, high: 1, shape: [2]}`. */
  constructor(description: object);
  readonly dtype: string;
  readonly shape: number[];
  readonly low: any;
  readonly high: any;
  readonly boundedBelow: Uint8Array;
  readonly boundedAbove: Uint8Array;
}

/** The integers from `start` on, of which there are `n`. */
export class Discrete extends Space<number | bigint> {
  /** @param description As `{n: 3, start: 0}`. */
  constructor(description: object);
  readonly n: number | bigint;
  readonly start: number | bigint;
  readonly dtype: string;
}

/** Arrays of integers, each one of as many as its count. */
export class MultiDiscrete extends Space<NdArray> {
  /** @param description As `{nvec: [5, 2]}`. */
  constructor(description: object);
  readonly dtype: string;
  readonly shape: number[];
  readonly nvec: any;
  readonly start: any;
}

/** Arrays of zeros and ones. */
export class MultiBinary extends Space<NdArray> {
  /** @param description As `{n: 4}` or `{n: [2, 3]}`. */
  constructor(description: object);
  readonly n: number | number[];
  readonly shape: number[];
  readonly dtype: string;
}

/** Strings of a length between two, of characters (code points) of a set. */
export class Text extends Space<string> {
  /** @param description As `{max_length: 8, charset: "ab"}`. */
  constructor(description: object);
  readonly minLength: number;
  readonly maxLength: number;
  readonly charset: string;
}

/** Objects with a value of a space of its own under each key. */
export class DictSpace extends Space<any> {
  /** @param description As `{spaces: [["go", {type: "Discrete", n: 2}]]}`. */
  constructor(description: object);
  readonly spaces: Map<string | number, Space>;
  readonly sortKeys: boolean;
}

/** Tuples with an item of a space of its own in each place. */
export class TupleSpace extends Space<Tuple> {
  /** @param description As `{spaces: [{type: "Discrete", n: 2}]}`. */
  constructor(description: object);
  readonly spaces: Space[];
}

/** Pairs of the number of one of several spaces, and an element of that. */
export class OneOf extends Space<Tuple> {
  /** @param description As `{spaces: [{type: "Discrete", n: 2}]}`. */
  constructor(description: object);
  readonly spaces: Space[];
}

/** Tuples of any length of elements of one space; or one batch of them, if stacked. */
export class Sequence extends Space<any> {
  /** @param description As `{space: {type: "Discrete", n: 2}, stack: false}`. */
  constructor(description: object);
  readonly space: Space;
  readonly stacked: boolean;
}

/** Graphs whose nodes, and edges if they have any, are elements of a space each. */
export class Graph extends Space<GraphInstance> {
  /** @param description As `{node_space: {type: "Discrete", n: 2}, edge_space: null}`. */
  constructor(description: object);
  readonly nodeSpace: Space;
  readonly edgeSpace: Space | null;
}

/**
 * A space of a class that Gymnasium does not have. Its values are sent as they are: only
 * the server can draw them and test them.
 */
export class Opaque extends Space<any> {
  /**
   * @param description As `{class: "minigrid.core.mission:MissionSpace"}`.
   * @param makeSpace Makes the space of its `base`: {@link spaceOf}.
   */
  constructor(description: object, makeSpace?: (description: object) => Space);
  /** The class, as `module:Class`. */
  readonly class: string;
  /** As Python prints it; null if that fails. */
  readonly repr: string | null;
  /** The nearest space of Gymnasium's, whose elements may differ; or null. */
  readonly base: Space | null;
  /** Arguments of which the class makes the space; null if they are not known. */
  readonly arguments: object | null;
}

/** Make a space from a server's description. */
export function spaceOf(description: object): Space;

/** Read a value in the binary form; its arrays stay in this memory. */
export function decodeBinary(bytes: Uint8Array): any;

/** Write a value in the binary form. */
export function encodeBinary(value: Value): Uint8Array;

/** Read a value in typed JSON. */
export function decodeTyped(text: string): any;

/** Write a value in typed JSON. */
export function encodeTyped(value: Value): string;

// Without this, `Remote` would be exported as well.
export {};
