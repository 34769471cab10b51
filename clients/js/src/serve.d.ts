/** Environments of this page or process, lent to a server. */

import type { NdArray, Space, Value } from "./index.js";

export { NdArray, array } from "./index.js";

/** Something, at once or later. */
export type Soon<T> = T | Promise<T>;

/** What an episode begins with. */
export interface Beginning {
  /**
   * An element of the observation space, or what stands for one: a typed array with all
   * elements in C order, nested lists, a number, an object.
   */
  observation: Value;
  info?: Record<string, Value>;
}

/** What comes of a step. */
export interface Outcome extends Beginning {
  /** A finite number; a list of them if there are `rewardChannels`. */
  reward: number | number[];
  /** Whether the episode has ended; false unless told. */
  terminated?: boolean;
  /** Whether it is broken off; false unless told. */
  truncated?: boolean;
}

/** What an instance is made with. */
export interface Making {
  /** What the agent gives, as to `gymnasium.make`. */
  kwargs: Record<string, any>;
  renderMode: string | null;
}

/** The state of a random generator, in whatever form its author has it. */
export interface Generator {
  /** Tells the state. */
  state(): Soon<Value>;
  /** Goes on from one that `state` told. */
  setState(state: any): Soon<void>;
}

/**
 * An environment: what it is, and the handlers that do what agents ask.
 *
 * Handlers run one after the other. What one throws is told to the agent. If the error has
 * the `code` "bad-parameter", "invalid-action", "no-attribute", "reset-needed" or
 * "unsupported", nothing has been done, and the agent may go on; else it has to reset.
 */
export interface Lending {
  /** The server's address, `http://127.0.0.1:5000` unless told. */
  url?: string;
  /** Its token; in a page it is shown only to get a ticket. */
  token?: string;
  /** Agents find it as `external/NAME`: a letter or digit, then up to 63 of `A-Za-z0-9_.-`. */
  name: string;
  /** A space, or its description, such as `{ type: "Discrete", n: 5 }`. */
  observationSpace: Space | object;
  actionSpace: Space | object;
  /** What it can do beyond its handlers: "seed", "options", "pause". */
  capabilities?: ("seed" | "options" | "pause")[];
  /** What it can be made with, if there is `render`: "rgb_array", "ansi". */
  renderModes?: string[];
  /** Names, if rewards are lists of numbers. */
  rewardChannels?: string[];
  metadata?: Record<string, unknown>;
  /** How often it goes on by itself, if it does not wait for steps. */
  realtime?: { hz: number };
  /**
   * Lets agents at an object: they get and set its members, and call its methods, where
   * what an agent gives by name comes last, as one object. Names that begin with an
   * underscore are private, and so is what every object has.
   */
  attributes?: object;
  /** With `attributes`, the environment's spec, as Gymnasium's `EnvSpec.to_json` tells it. */
  spec?: object;
  /** With `attributes`, lets agents keep and set the state of the random generator. */
  generator?: Generator;
  /**
   * "json", which people can read; "typed", which they can, too, and in which values lose
   * nothing; or "binary", in which frames are arrays. Unless told, it is "binary" where
   * observations have more than 256 elements, where frames are colours, and with
   * `attributes`; else "json".
   */
  dialect?: "json" | "typed" | "binary";
  /** "websocket" unless told, or "http" where nothing else gets out, which is slower. */
  transport?: "websocket" | "http";
  /** More than one has `Lendings`. */
  n?: 1;
  /** Ends it. */
  signal?: AbortSignal;
  /** Takes a line for each thing that happens; `console.log` unless told. */
  log?(line: string): void;
  /** Called when an agent comes. */
  onAgent?(): void;
  /** Called when it goes, or the server forgot it. */
  onAgentGone?(): void;
  /** Makes an instance; may answer with other spaces for it. */
  init?(making: Making): Soon<void | { observationSpace?: Space | object; actionSpace?: Space | object }>;
  /** Begins an episode. */
  reset?(how: { seed: number | bigint | null; options: Record<string, any> }): Soon<Beginning>;
  /** In the place of `reset`, where no episode can be begun: gives the present observation. */
  observe?(): Soon<Value>;
  /** Does an action: a number, an `NdArray`, or what else the action space has. */
  step(action: any): Soon<Outcome>;
  /** Gives a frame: text, an `ImageData`, or an array of height, width and three colours. */
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
   * Makes one, from 0 on: what it gives counts for that one alone, what stands beside
   * `factory` for all. Handlers of one run one after the other, those of several do not.
   */
  factory(index: number): Soon<Omit<Partial<Lending>, "url" | "token" | "transport" | "n" | "signal">>;
}

/**
 * Lend an environment to a server, or several, until the signal ends it.
 *
 * A connection that is lost is opened again, and goes on where it stopped, as long as this
 * page or process lives.
 *
 * @throws ApiError The server does not take this environment, and says why.
 * @throws RangeError There are several, and no factory.
 * @throws TypeError Something that it needs is missing.
 */
export function serveEnv(lending: Lending | Lendings): Promise<void>;
