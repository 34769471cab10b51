--- Clients: what a server can do.
--
-- A call gives its results, or nil and an `Error`; what is used wrongly raises one.
-- @classmod Client
local Env = require("gym_http_client.env")
local address = require("gym_http_client.address")
local asking = require("gym_http_client.asking")
local kinds = require("gym_http_client.kinds")
local legacy = require("gym_http_client.legacy")
local links = require("gym_http_client.link")

local Client = {}
Client.__index = Client
for name, method in pairs(legacy) do
  Client[name] = method
end

function Client:__tostring()
  return "<client of " .. self.url .. ">"
end

local MAX_BODY = 268435456
-- Members of the body that makes an instance; all other options are the client's.
local MAKING = {
  "kwargs", "seed", "render_mode", "max_episode_steps", "disable_env_checker", "wrappers",
  "num_envs", "vectorization_mode", "vector_kwargs", "autoreset_mode", "hosts",
}
local CLIENT = {
  "url", "token", "time_limit", "answer_limit", "max_body", "stream", "raw", "tls",
}
local KNOWN_MAKING, KNOWN_CLIENT = {}, {}
for _, name in ipairs(MAKING) do
  KNOWN_MAKING[name] = true
end
for _, name in ipairs(CLIENT) do
  KNOWN_CLIENT[name] = true
end

local function check_options(options, known, more)
  for name in pairs(options) do
    if not known[name] and not (more and more[name]) then
      error("there is no option " .. tostring(name), 3)
    end
  end
end

--- Make a client.
-- @local
function Client.new(url, options)
  options = options or {}
  check_options(options, KNOWN_CLIENT, KNOWN_MAKING)
  local limit = options.time_limit or 60
  local place = address.parse(url, options.token)
  local self = setmetatable({ url = place.url }, Client)
  self.link = links.new(place, {
    time_limit = limit,
    answer_limit = options.answer_limit or limit * 2 / 3,
    max_body = options.max_body or MAX_BODY,
    tls = options.tls,
  })
  self.options = { streams = options.stream ~= false, raw = options.raw or false }
  return self
end

local function env_options(self, options)
  local raw, streams = options.raw, self.options.streams
  if raw == nil then
    raw = self.options.raw
  end
  if options.stream ~= nil then
    streams = options.stream
  end
  return { raw = raw, streams = streams }
end

-- Two requests: one makes the instance, the other tells what it is.
local function make(self, env_id, body, options)
  local instance_id, failed = self:env_create(env_id, body)
  if not instance_id then
    return nil, failed
  end
  local env
  env, failed = Env.attach(self.link, instance_id, env_options(self, options))
  if not env then
    self:env_close(instance_id)
  end
  return env, failed
end

--- Make an environment.
-- @tparam string env_id Gymnasium's name, as `"CartPole-v1"`
-- @tparam[opt] table options of Gymnasium: `kwargs`, `render_mode`, `max_episode_steps`,
-- `disable_env_checker`; `seed` of the first reset; `wrappers`; for a vector `num_envs`,
-- `vectorization_mode`, `vector_kwargs`, `autoreset_mode` and `hosts`; and `raw` and
-- `stream`, which are else the client's
-- @treturn Env
function Client:make(env_id, options)
  if type(env_id) ~= "string" then
    error("the name of an environment is a string, as CartPole-v1", 2)
  end
  options = options or {}
  check_options(options, KNOWN_MAKING, KNOWN_CLIENT)
  local body = {}
  for _, name in ipairs(MAKING) do
    body[name] = options[name]
  end
  return self.link:together(make, self, env_id, body, options)
end

--- Make many environments that step as one.
-- @tparam string env_id
-- @tparam table options see `Client:make`; `num_envs` is needed
-- @treturn Env
function Client:make_vec(env_id, options)
  if type(options) ~= "table" or type(options.num_envs) ~= "number" then
    error("num_envs is needed: how many environments step as one", 2)
  end
  return self:make(env_id, options)
end

--- Get hold of an instance that somebody else has made.
-- @tparam string instance_id
-- @tparam[opt] table options `raw` and `stream`
-- @treturn Env
function Client:attach(instance_id, options)
  return Env.attach(self.link, instance_id, env_options(self, options or {}))
end

--- List the instances.
-- @treturn table environments' names by instance ID
function Client:list()
  return self:env_list_all()
end

--- List the environments that can be made.
-- @tparam[opt] table filter `search` for a part of the name, `available`
-- @treturn table a list of tables
function Client:registry(filter)
  local query = {}
  for _, name in ipairs({ "search", "available" }) do
    local value = filter and filter[name]
    if value ~= nil then
      query[#query + 1] = name .. "=" .. address.quoted(tostring(value))
    end
  end
  local path = "/v1/registry/"
  if query[1] then
    path = path .. "?" .. table.concat(query, "&")
  end
  local answer, failed = asking.plain(self.link, "GET", path)
  if not answer then
    return nil, failed
  end
  return asking.member(self.link, path, answer, "envs", "table")
end

--- Step many instances in one request.
-- @tparam table steps a list of tables with `instance_id`, and `action` or `actions`
-- @tparam[opt] number first answer as soon as so many are done
-- @treturn table `results` and `pending`
function Client:batch_step(steps, first)
  local path = "/v1/batch/step/"
  return asking.plain(self.link, "POST", path, { steps = kinds.list(steps), first = first })
end

--- Tell what the server is, can do and allows.
-- @treturn table
function Client:server_info()
  return asking.plain(self.link, "GET", "/v1/")
end

--- Close the connection; a later call opens it again.
function Client:close()
  self.link:close()
end

return Client
