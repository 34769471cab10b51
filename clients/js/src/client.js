/** `Client`: a server, its instances and its environments. */

import { BINARY, JSON_TYPE, TYPED, errorOf, jsonOf, typedOf } from "./answers.js";
import { Env } from "./env.js";
import { ProtocolError } from "./errors.js";
import { Form } from "./frames.js";
import { Requester } from "./requester.js";
import { stringify } from "./json_writer.js";
import { checkOptions, withServer } from "./options.js";
import { pathOf } from "./remote.js";
import { bodyOf } from "./request_bodies.js";
import { openShowing } from "./show.js";
import { spaceOf } from "./spaces/index.js";
import { writeText } from "./text.js";
import { VectorEnv } from "./vector_env.js";

const METHODS = new Set(["GET", "POST", "PUT", "DELETE"]);
const NOTHING = new Uint8Array(0);

/** A server. Its methods also exist as functions, which accept its options as well. */
export class Client {
  #requester;
  #stream;

  constructor(options = {}) {
    checkOptions("Client", options);
    const { url, token, timeout, maxBody, stream, onWarning } = options;
    this.#requester = new Requester({ url, token, timeout, maxBody, onWarning });
    this.#stream = stream;
  }

  /** The server's address, without a token. */
  get url() {
    return this.#requester.url;
  }

  async make(envId, options = {}) {
    checkOptions("make", options);
    return this.#made({ env_id: envId, ...optionsOf(options) }, options);
  }

  async makeVec(envId, options = {}) {
    checkOptions("makeVec", options);
    const { numEnvs = 1, vectorizationMode, vectorKwargs, autoresetMode, hosts } = options;
    const requested = {
      env_id: envId,
      num_envs: numEnvs,
      vectorization_mode: vectorizationMode,
      vector_kwargs: vectorKwargs,
      autoreset_mode: autoresetMode === undefined ? undefined : String(autoresetMode),
      hosts,
      ...optionsOf(options),
    };
    return this.#made(requested, options);
  }

  async attach(instanceId, call) {
    checkOptions("attach", call);
    return this.#requester.within(call, (deadline) => this.#attached(instanceId, deadline));
  }

  async show(instanceId, options = {}) {
    checkOptions("show", options);
    return openShowing(this.#requester, pathOf(instanceId), options);
  }

  async list(call) {
    checkOptions("list", call);
    return (await this.#get("/v1/envs/", call)).all_envs;
  }

  async instances(options = {}) {
    checkOptions("instances", options);
    const { search, state, ...call } = options;
    const query = new URLSearchParams();
    if (search !== undefined) query.set("search", search);
    if (state !== undefined) query.set("state", state);
    return this.#get(String(query) ? `/v1/instances/?${query}` : "/v1/instances/", call);
  }

  async registry(options = {}) {
    checkOptions("registry", options);
    const { search, available, ...call } = options;
    const query = new URLSearchParams();
    if (search !== undefined) query.set("search", search);
    if (available !== undefined) query.set("available", String(available));
    return (await this.#get(`/v1/registry/?${query}`, call)).envs;
  }

  async info(call) {
    checkOptions("info", call);
    return this.#get("/v1/", call);
  }

  async request(method, path, options = {}) {
    checkOptions("request", options);
    if (!METHODS.has(method)) throw new TypeError(`a method is GET, POST, PUT or DELETE; got ${method}`);
    if (typeof path !== "string" || !path.startsWith("/")) throw new TypeError(`a path is as /v1/runs/; got ${path}`);
    const { body, contentType, headers = {}, ...call } = options;
    const isBytes = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const what = {
      body: isBytes ? body : writeText(stringify(body)),
      contentType: contentType ?? (isBytes ? "application/octet-stream" : JSON_TYPE),
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
    };
    const url = this.#requester.url + path;
    return this.#requester.within(call, async (deadline) => {
      const answer = await this.#requester.request(method, path, deadline, what);
      const isJson = answer.headers.get("content-type")?.split(";")[0] === JSON_TYPE;
      if (answer.status === 304) return { ...answer, value: null };
      const value = jsonOf(isJson ? answer : { ...answer, body: answer.status < 300 ? NOTHING : answer.body }, url);
      return { ...answer, value };
    });
  }

  async #get(path, call) {
    return this.#requester.within(call, async (deadline) =>
      jsonOf(await this.#requester.request("GET", path, deadline), this.#requester.url + path),
    );
  }

  async #made(requested, call) {
    const given = Object.entries(requested).filter(([, value]) => value !== undefined);
    const body = bodyOf(Object.fromEntries(given));
    const contentType = body.form === Form.BINARY ? BINARY : JSON_TYPE;
    const make = async (deadline) => {
      const how = { body: body.byRest(), contentType, creates: true };
      const answer = await this.#requester.request("POST", "/v1/envs/", deadline, how);
      const { instance_id: id } = jsonOf(answer, `${this.#requester.url}/v1/envs/`) ?? {};
      if (typeof id !== "string") throw errorOf(answer, `${this.#requester.url}/v1/envs/`);
      try {
        return await this.#attached(id, deadline);
      } catch (error) {
        // No other caller knows its name.
        this.#abandon(id);
        throw error;
      }
    };
    return this.#requester.within(call, make, waitOf(requested));
  }

  #abandon(id) {
    const call = { timeout: 5000 };
    const close = (deadline) => this.#requester.request("POST", `${pathOf(id)}close/`, deadline);
    this.#requester.within(call, close).catch(() => {});
  }

  async #attached(id, deadline) {
    const url = this.#requester.url + pathOf(id);
    const answer = await this.#requester.request("GET", pathOf(id), deadline, { accept: TYPED });
    const reply = typedOf(answer, url);
    try {
      const kind = reply.num_envs === undefined ? Env : VectorEnv;
      return new kind(this.#requester, described(reply), { stream: this.#stream });
    } catch (error) {
      const words = `the description of ${url} cannot be read: ${error.message}`;
      throw new ProtocolError(words, { url, status: answer.status, cause: error });
    }
  }
}

/** Milliseconds that the server may wait for external environments, on top of all others. */
function waitOf({ wait_s: wait }) {
  return wait > 0 ? Number(wait) * 1000 : 0;
}

function optionsOf({ kwargs, seed, renderMode, maxEpisodeSteps, disableEnvChecker, wrappers, api, waitS, label, realtime }) {
  return {
    kwargs,
    seed,
    render_mode: renderMode,
    max_episode_steps: maxEpisodeSteps,
    disable_env_checker: disableEnvChecker,
    api,
    wrappers,
    wait_s: waitS,
    label,
    realtime,
  };
}

function described(reply) {
  const space = (name) => (reply[name] ? spaceOf(reply[name]) : null);
  const env = {
    instanceId: reply.instance_id,
    envId: reply.env_id,
    actionSpace: space("action_space"),
    observationSpace: space("observation_space"),
    renderMode: reply.render_mode,
    spec: reply.spec,
    metadata: reply.metadata,
  };
  if (reply.num_envs === undefined) return env;
  return {
    ...env,
    numEnvs: reply.num_envs,
    singleActionSpace: space("single_action_space"),
    singleObservationSpace: space("single_observation_space"),
  };
}

export async function make(envId, options) {
  const { server, rest } = withServer("make", options);
  return new Client(server).make(envId, rest);
}

export async function makeVec(envId, options) {
  const { server, rest } = withServer("makeVec", options);
  return new Client(server).makeVec(envId, rest);
}

export async function attach(instanceId, options) {
  const { server, rest } = withServer("attach", options);
  return new Client(server).attach(instanceId, rest);
}

export async function list(options) {
  const { server, rest } = withServer("list", options);
  return new Client(server).list(rest);
}

export async function instances(options) {
  const { server, rest } = withServer("instances", options);
  return new Client(server).instances(rest);
}

export async function registry(options) {
  const { server, rest } = withServer("registry", options);
  return new Client(server).registry(rest);
}
