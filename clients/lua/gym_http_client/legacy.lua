--- The functions of gym-http-api's Lua client, with its names and results.
--
-- They use plain JSON over HTTP; arrays in answers are nested tables. Each returns nil and an
-- `Error` where the original raised one or was silent. They are methods of a
-- `Client`, as `gym.new` makes it.
-- @module gym_http_client.legacy
local address = require("gym_http_client.address")
local rest = require("gym_http_client.rest")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local checks = require("gym_http_client.options")

local legacy = {}

local function path_of(instance_id, suffix)
  return "/v1/envs/" .. address.quoted(tostring(instance_id)) .. "/" .. (suffix or "")
end

local function perform(self, method, path, body, name, kind)
  local answer, failed = rest.plain(self.requester, method, path, body)
  if answer == nil or not name then
    return answer, failed
  end
  return rest.member(self.requester, path, answer, name, kind)
end

local function done(answer, failed)
  return answer and true, failed
end

--- Make an instance.
-- @tparam string env_id
-- @tparam[opt] table options see `Client:make`
-- @treturn string instance ID
function legacy:env_create(env_id, options)
  local body = { env_id = env_id }
  for name, value in pairs(options or {}) do
    body[name] = value
  end
  return rest.create(self.requester, body, checks.wait_of(body))
end

--- List the instances.
-- @treturn table environments' names by instance ID
function legacy:env_list_all()
  return perform(self, "GET", "/v1/envs/", nil, "all_envs", "table")
end

--- Begin an episode.
-- @tparam string instance_id
-- @tparam[opt] table arguments `seed` and `options`
-- @return the observation
function legacy:env_reset(instance_id, arguments)
  return perform(self, "POST", path_of(instance_id, "reset/"), checks.of_reset(arguments),
    "observation")
end

--- Make a step.
-- @tparam string instance_id
-- @param action
-- @tparam[opt] boolean render has no effect
-- @return the observation
-- @treturn number reward
-- @treturn boolean done
-- @treturn table info
function legacy:env_step(instance_id, action, render)
  local path = path_of(instance_id, "step/")
  local body = { action = action, render = render or false }
  local answer, failed = rest.plain(self.requester, "POST", path, body)
  if not answer then
    return nil, failed
  end
  local ended, missing = rest.member(self.requester, path, answer, "done", "boolean")
  if ended == nil then
    return nil, missing
  end
  return answer.observation, answer.reward, ended, answer.info
end

--- Draw the present frame.
-- @tparam string instance_id
-- @treturn table nested lists of numbers; a string if the environment renders text
function legacy:env_render(instance_id)
  local path = path_of(instance_id, "render/")
  local answer, failed = rest.exact(self.requester, "POST", path)
  if not answer then
    return nil, failed
  end
  return rest.member(self.requester, path, answer, "rendered")
end

--- Return gym-http-api's description of the action space.
function legacy:env_action_space_info(instance_id)
  return perform(self, "GET", path_of(instance_id, "action_space/"), nil, "info", "table")
end

--- Draw an action on the server.
function legacy:env_action_space_sample(instance_id)
  return perform(self, "GET", path_of(instance_id, "action_space/sample"), nil, "action")
end

local function contains(self, instance_id, which, value)
  if value == nil then
    usage.raise("a value is missing: expected the value to check")
  end
  local path = path_of(instance_id, which .. "/contains")
  return perform(self, "POST", path, { value = value }, "member", "boolean")
end

--- Return whether the action space contains a value.
-- @treturn boolean
function legacy:env_action_space_contains(instance_id, value)
  return contains(self, instance_id, "action_space", value)
end

--- Return gym-http-api's description of the observation space.
function legacy:env_observation_space_info(instance_id)
  return perform(self, "GET", path_of(instance_id, "observation_space/"), nil, "info", "table")
end

--- Return whether the observation space contains a value.
-- @treturn boolean
function legacy:env_observation_space_contains(instance_id, value)
  return contains(self, instance_id, "observation_space", value)
end

--- Begin to record episodes on the server.
-- @treturn boolean true
function legacy:env_monitor_start(instance_id, directory, force, resume, video_callable)
  return done(perform(self, "POST", path_of(instance_id, "monitor/start/"), {
    directory = directory,
    force = force or false,
    resume = resume or false,
    video_callable = video_callable or false,
  }))
end

--- End the recording.
-- @treturn boolean true
function legacy:env_monitor_close(instance_id)
  return done(perform(self, "POST", path_of(instance_id, "monitor/close/"), {}))
end

--- End an instance.
-- @treturn boolean true
function legacy:env_close(instance_id)
  return done(perform(self, "POST", path_of(instance_id, "close/"), {}))
end

--- Upload results: the server answers that the website no longer exists.
-- @treturn boolean true
function legacy:upload(training_dir, algorithm_id, api_key)
  return done(perform(self, "POST", "/v1/upload/", {
    training_dir = training_dir,
    algorithm_id = algorithm_id or kinds.null,
    api_key = api_key or os.getenv("OPENAI_GYM_API_KEY") or kinds.null,
  }))
end

--- Stop the server, if it lets itself be stopped so.
-- @treturn boolean true
function legacy:shutdown_server()
  local reply, failed = self.requester:request("POST", "/v1/shutdown/", { body = "{}" })
  if not reply then
    return nil, failed
  elseif reply.status >= 300 then
    local url = self.requester:url("/v1/shutdown/")
    return nil, require("gym_http_client.errors").of_reply(reply, url)
  end
  return true
end

return legacy
