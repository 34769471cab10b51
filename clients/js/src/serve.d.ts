/** Environments of this page or process, provided to a server. */

import type { NdArray, Space, Value } from "./index.js";

export { NdArray, array } from "./index.js";

/** Something, at once or later. */
export type Soon<T> = T | Promise<T>;

/** The beginning of an episode. */
export interface Beginning {
  /**
   * An element of the observation space, or a value that is cast to one: a typed array with
   * all elements in C order, nested lists, a number, an object.
   */
  observation: Value;
  info?: Record<string, Value>;
}

/** The result of a step. */
export interface Outcome extends Beginning {
  /** A finite number; a list of them if there are `rewardChannels`. */
  reward: number | number[];
  /** Whether the episode has ended; false by default. */
  terminated?: boolean;
  /** Whether it is truncated; false by default. */
  truncated?: boolean;
}

/** The arguments of an instance. */
export interface Making {
  /** The agent's keyword arguments, as for `gymnasium.make`. */
  kwargs: Record<string, any>;
  renderMode: string | null;
}

/** The state of a random generator, in any form that its author chooses. */
export interface Generator {
  /** Returns the state. */
  state(): Soon<Value>;
  /** Restores a state that `state` returned. */
  setState(state: any): Soon<void>;
}

/**
 * An environment: its description, and the handlers of agents' requests.
 *
 * Handlers run one after the other. The agent receives a handler's error. If the error has
 * the `code` "bad-parameter", "invalid-action", "no-attribute", "reset-needed" or
 * "unsupported", nothing has changed, and the agent may continue; otherwise it must reset.
 */
export interface Lending {
  /** The server's URL, by default `http://127.0.0.1:5000`. */
  url?: string;
  /** Its token; in a page it is shown only to get a ticket. */
  token?: string;
  /** Agents find it as `external/NAME`: a letter or digit, then up to 63 of `A-Za-z0-9_.-`. */
  name: string;
  /** A space, or its description, such as `{ type: "Discrete", n: 5 }`. */
  observationSpace: Space | object;
  actionSpace: Space | object;
  /** Abilities beyond the handlers: "seed", "options", "pause". */
  capabilities?: ("seed" | "options" | "pause")[];
  /** The modes of `render`: "rgb_array", "ansi". */
  renderModes?: string[];
  /** Names, if rewards are lists of numbers. */
  rewardChannels?: string[];
  metadata?: Record<string, unknown>;
  /** The rate of its time, if that does not wait for steps. */
  realtime?: { hz: number };
  /**
   * Whether this program, once it was started again, takes the place that it had in a running
   * instance, whose episode ends then. The default is true in pages, which people reload, and
   * false in Node.
   */
  replace?: boolean;
  /**
   * An object for agents: they read and set its members, and call its methods. Keyword
   * arguments of an agent are one object, the last argument. Names that begin with an
   * underscore are private, and so are the members of every object.
   */
  attributes?: object;
  /** With `attributes`, the environment's spec, as of Gymnasium's `EnvSpec.to_json`. */
  spec?: object;
  /** With `attributes`, lets agents keep and set the state of the random generator. */
  generator?: Generator;
  /**
   * "json", which people can read; "typed", which is lossless JSON; or "binary", in which
   * frames are arrays. The default is "binary" if
   * observations have more than 256 elements, if frames are colours, and with
   * `attributes`; otherwise "json".
   */
  dialect?: "json" | "typed" | "binary";
  /** "websocket" by default, or "http" for networks that block WebSockets, which is slower. */
  transport?: "websocket" | "http";
  /** More than one has `Lendings`. */
  n?: 1;
  /** Ends it. */
  signal?: AbortSignal;
  /** Called with a line for each event; by default `console.log`. */
  log?(line: string): void;
  /** Called when an agent takes the environment. */
  onAgent?(): void;
  /** Called when it goes, or the server forgot it. */
  onAgentGone?(): void;
  /** Makes an instance; may answer with other spaces for it. */
  init?(making: Making): Soon<void | { observationSpace?: Space | object; actionSpace?: Space | object }>;
  /** Begins an episode. */
  reset?(how: { seed: number | bigint | null; options: Record<string, any> }): Soon<Beginning>;
  /** Instead of `reset`, if no episode can be begun: returns the present observation. */
  observe?(): Soon<Value>;
  /** Does an action: a number, an `NdArray`, or another element of the action space. */
  step(action: any): Soon<Outcome>;
  /** Returns a frame: text, an `ImageData`, or an array of height, width and three colours. */
  render?(): Soon<string | NdArray | { width: number; height: number; data: ArrayLike<number> }>;
  /** Called when the agent has closed the instance. */
  close?(): Soon<void>;
}

/** Several environments of one name, which different agents may have at the same time. */
export interface Lendings extends Omit<Partial<Lending>, "n"> {
  name: string;
  /** How many; each has a connection of its own. */
  n?: number;
  /**
   * Makes one, from 0 on: its members are for that one, the members beside
   * `factory` for all. Handlers of one run one after the other, those of several do not.
   */
  factory(index: number): Soon<Omit<Partial<Lending>, "url" | "token" | "transport" | "n" | "signal">>;
}

/**
 * Provide an environment to a server, or several, until the signal ends it.
 *
 * A lost connection is opened again, and resumes, as long as this
 * page or process lives.
 *
 * @throws ApiError The server refuses this environment, with the reason.
 * @throws RangeError There are several, and no factory.
 * @throws TypeError A required member is missing.
 */
export function serveEnv(lending: Lending | Lendings): Promise<void>;
