--- Environments: instances on a server, to reset and step.
--
-- A call returns its results, or nil and an `Error`; wrong use raises an error.
-- @classmod Env
local address = require("gym_http_client.address")
local rest = require("gym_http_client.rest")
local describe = require("gym_http_client.description")
local errors = require("gym_http_client.errors")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local options = require("gym_http_client.options")
local plain = require("gym_http_client.plain")
local attributes = require("gym_http_client.attributes")
local real_time = require("gym_http_client.real_time")
local sessions = require("gym_http_client.session")

local Env = {}
Env.__index = Env
for _, methods in ipairs({ attributes, real_time }) do
  for name, method in pairs(methods) do
    Env[name] = method
  end
end

function Env:__tostring()
  return ("<%s %s at %s>"):format(self.env_id, self.instance_id, self.url)
end

-- So that `local env <close> = …` closes it, in Lua 5.4.
function Env:__close()
  self:close()
end

--- An environment's fields.
-- @tfield string instance_id the instance's name on the server
-- @tfield string env_id Gymnasium's name of the environment
-- @tfield Space action_space of the environment
-- @tfield Space observation_space of the environment
-- @tfield ?number num_envs of a vector: its number of environments
-- @tfield ?Space single_action_space of a vector: that of one of its environments
-- @tfield ?Space single_observation_space likewise
-- @tfield ?string render_mode of its creation
-- @tfield table metadata of the environment
-- @tfield table spec of the environment
-- @table fields

--- Use an existing instance.
-- @local
function Env.attach(requester, instance_id, transfer)
  local self = setmetatable({
    requester = requester,
    instance_id = instance_id,
    env_id = "environment",
    path = "/v1/envs/" .. address.quoted(instance_id) .. "/",
    session = sessions.new(requester, address.quoted(instance_id), transfer),
    raw = transfer.raw,
    transfer = transfer,
  }, Env)
  self.url = requester:url(self.path)
  return describe(self)
end

-- Calls with a dot, and calls to an environment that is closed, are misuse.
function Env.check_open(self)
  if getmetatable(self) ~= Env then
    usage.raise("a call of an environment has a colon, as env:step(0); this one has a dot")
  elseif self.closed then
    usage.raise("the environment is closed: %s", self.instance_id)
  end
end

local function malformed(self, name)
  local words = ("the answer to %s is not one: is it a gym_http_server?"):format(name)
  return nil, errors.protocol(words, self.url)
end

--- Begin an episode.
-- @tparam[opt] table arguments `seed` and `options`, both optional
-- @return the observation
-- @treturn table info
function Env:reset(arguments)
  Env.check_open(self)
  local answer, failed = self.session:perform("reset", plain.encode(options.of_reset(arguments)))
  if not answer then
    return nil, failed
  elseif answer == true or answer.observation == nil then
    return malformed(self, "reset")
  end
  return answer.observation, self:info_of(answer)
end

--- Make a step.
-- @param action one of the action space; a Discrete one counts from the space's `start`,
-- which is 0 by default
-- @return the observation
-- @treturn number reward; for a vector an array, as are the next two
-- @treturn boolean terminated
-- @treturn boolean truncated
-- @treturn table info
function Env:step(action)
  Env.check_open(self)
  local answer, failed = self.session:perform("step", self.write_action(action))
  if not answer then
    return nil, failed
  elseif answer == true or answer.observation == nil then
    return malformed(self, "step")
  end
  return answer.observation, answer.reward, answer.terminated, answer.truncated,
    answer.realtime and self:info_of(answer) or answer.info
end

-- `stopped` is nil if all steps were taken.
local function columns(answer)
  if answer.stopped == kinds.null then
    answer.stopped = nil
  end
  return answer
end

--- Make one step after the other in one request, up to the end of the episode.
-- @tparam table list actions
-- @treturn table `observations`, `rewards`, `terminated`, `truncated` and `infos`, each
-- with one for each step, `steps` and, if they are fewer than the actions, `stopped`
function Env:step_many(list)
  Env.check_open(self)
  local answer, failed = self.session:perform("step", plain.encode({ actions = kinds.list(list) }))
  if not answer then
    return nil, failed
  elseif answer == true or answer.steps == nil then
    return malformed(self, "step_many")
  end
  return columns(answer)
end

--- Play whole episodes on the server.
-- @tparam[opt] table arguments `episodes`, `actions`, `policy`, `seed`, `options`,
-- `max_steps`
-- @treturn table `episodes`, a list of tables, `steps` and maybe `stopped`
function Env:rollout(arguments)
  Env.check_open(self)
  local answer, failed = self.session:perform("rollout",
    plain.encode(options.of_rollout(arguments)))
  if not answer then
    return nil, failed
  elseif answer == true or answer.episodes == nil then
    return malformed(self, "rollout")
  end
  return columns(answer)
end

--- Draw the present frame; the environment needs a `render_mode` for that.
-- @return an array of pixels for `rgb_array`, a string for `ansi`; `gym.null` where the
-- environment was made without a `render_mode`
function Env:render()
  Env.check_open(self)
  local answer, failed = self.session:perform("render", "{}")
  if not answer then
    return nil, failed
  elseif answer == true or answer.rendered == nil then
    return malformed(self, "render")
  end
  return answer.rendered
end

--- Draw the present frame as a PNG file; without a `render_mode` the error is
-- `no-render-mode`.
-- @treturn string the bytes of the file
function Env:png()
  Env.check_open(self)
  local path = self.path .. "render/"
  local reply, failed = self.requester:request("POST", path, { accept = "image/png" })
  if not reply then
    return nil, failed
  elseif reply.status ~= 200 or reply.fields["content-type"] ~= "image/png" then
    return nil, errors.of_reply(reply, self.requester:url(path))
  end
  return reply.body
end

--- Describe the instance.
-- @treturn table the answer of `GET /v1/envs/ID/`
function Env:describe()
  Env.check_open(self)
  local description, failed = rest.plain(self.requester, "GET", self.path)
  if not description then
    return nil, failed
  end
  local env_id, missing = rest.member(self.requester, self.path, description, "env_id", "string")
  return env_id and description, missing
end

--- Return the last episodes, whichever way their steps arrived.
-- @tparam[opt] number last how many at most, 1 to 1000; by default all that the server has
-- @tparam[opt] number from number of the first one to return; the first episode is 0
-- @treturn table `episodes`, a list of tables, the oldest first; `current` and `total`
function Env:episodes(last, from)
  Env.check_open(self)
  local path = ("%sepisodes/?last=%d&from=%d"):format(self.path, last or 1000, from or 0)
  return rest.plain(self.requester, "GET", path)
end

--- Return the keys with which a person plays the environment.
-- @treturn table `keys`, a list of tables with `keys` and `action`; `noop`, `wait`, `fps`
function Env:keys()
  Env.check_open(self)
  return rest.plain(self.requester, "GET", self.path .. "keys/")
end

--- Return the transport of steps: `"stream"` or `"rest"`.
function Env:transport()
  return self.session:transport()
end

--- End the instance. Closing a closed environment has no effect.
-- @treturn boolean true
function Env:close()
  if self.closed then
    return true
  end
  self.closed = true
  self.session:close()
  self:close_agent()
  local done, failed = rest.plain(self.requester, "DELETE", self.path)
  if self.owns_link then
    self.requester:close()
  end
  return done and true, failed
end

--- Stop using the instance without closing it.
function Env:detach()
  self.closed = true
  self.session:close()
  self:close_agent()
  if self.owns_link then
    self.requester:close()
  end
end

return Env
