--- Clients: the calls of a server.
--
-- A call returns its results, or nil and an `Error`; wrong use raises an error.
-- @classmod Client
local Env = require("gym_http_client.env")
local address = require("gym_http_client.address")
local rest = require("gym_http_client.rest")
local kinds = require("gym_http_client.kinds")
local legacy = require("gym_http_client.legacy")
local requesters = require("gym_http_client.requester")
local usage = require("gym_http_client.usage")
local options = require("gym_http_client.options")

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
  "kwargs", "seed", "render_mode", "max_episode_steps", "disable_env_checker", "wrappers", "api",
  "num_envs", "vectorization_mode", "vector_kwargs", "autoreset_mode", "hosts", "wait_s",
  "label", "realtime",
}
local TYPES = {
  url = "string", token = "string", time_limit = "number", answer_limit = "number",
  max_body = "number", stream = "boolean", raw = "boolean", tls = "table",
  on_warning = "function",
}
local CLIENT = {
  "url", "token", "time_limit", "answer_limit", "max_body", "stream", "raw", "tls",
  "on_warning",
}
local ALL = {}
for _, names in ipairs({ CLIENT, MAKING }) do
  for _, name in ipairs(names) do
    ALL[#ALL + 1] = name
  end
end

local function checked(given, call, example, known)
  given = options.checked(given, call, example, known)
  options.typed(given, TYPES)
  return given
end

-- Check the options of `make`.
function Client.making_options(given, call, example)
  return checked(given, call, example, ALL)
end

-- Check the options of `attach`.
function Client.attaching_options(given, call, example)
  return checked(given, call, example, CLIENT)
end

--- Make a client.
-- @local
function Client.new(url, given)
  given = checked(given, "gym.new", "{time_limit = 60}", ALL)
  local limit = given.time_limit or 60
  local place = address.parse(url, given.token)
  local self = setmetatable({ url = place.url }, Client)
  self.requester = requesters.new(place, {
    time_limit = limit,
    answer_limit = given.answer_limit or limit * 2 / 3,
    max_body = given.max_body or MAX_BODY,
    tls = given.tls,
    on_warning = given.on_warning,
  })
  self.options = { streams = given.stream ~= false, raw = given.raw or false }
  return self
end

local function env_options(self, given)
  local raw, streams = given.raw, self.options.streams
  if raw == nil then
    raw = self.options.raw
  end
  if given.stream ~= nil then
    streams = given.stream
  end
  return { raw = raw, streams = streams }
end

-- Two requests: one makes the instance, the other describes it.
local function make(self, env_id, body, given)
  local instance_id, failed = self:env_create(env_id, body)
  if not instance_id then
    return nil, failed
  end
  local env
  env, failed = Env.attach(self.requester, instance_id, env_options(self, given))
  if not env then
    self:env_close(instance_id)
  end
  return env, failed
end

--- Make an environment.
-- @tparam string env_id Gymnasium's name, such as `"CartPole-v1"`
-- @tparam[opt] table given options of Gymnasium: `kwargs`, `render_mode`, `max_episode_steps`,
-- `disable_env_checker`; of several agents `api`, which is `parallel` or `aec`;
-- `seed` of the first reset; `wrappers`; for a vector `num_envs`,
-- `vectorization_mode`, `vector_kwargs`, `autoreset_mode` and `hosts`; `wait_s`, the
-- seconds that the server waits for an external environment, on top of the time limits;
-- `label`, shown in lists of instances; `realtime`, a clock that does not wait for the
-- agent, such as `{mode = "elastic", hz = 20}`;
-- and `raw` and `stream`, by default the client's
-- @treturn Env
function Client:make(env_id, given)
  if type(env_id) ~= "string" then
    usage.raise('the name of an environment is a string, as "CartPole-v1"; got %s',
      usage.shown(env_id))
  end
  given = Client.making_options(given, "make", '{render_mode = "rgb_array"}')
  local body = {}
  for _, name in ipairs(MAKING) do
    body[name] = given[name]
  end
  return self.requester:together(options.wait_of(given), make, self, env_id, body, given)
end

--- Make a vector of environments.
-- @tparam string env_id
-- @tparam table given see `Client:make`; `num_envs` is required
-- @treturn Env
function Client:make_vec(env_id, given)
  if type(given) ~= "table" or type(given.num_envs) ~= "number" then
    usage.raise("num_envs is needed, as {num_envs = 8}: how many environments step as one")
  end
  return self:make(env_id, given)
end

--- Use an existing instance.
-- @tparam string instance_id
-- @tparam[opt] table given `raw` and `stream`
-- @treturn Env
function Client:attach(instance_id, given)
  options.instance_id(instance_id)
  given = Client.attaching_options(given, "attach", "{stream = false}")
  return Env.attach(self.requester, instance_id, env_options(self, given))
end

--- List the instances.
-- @treturn table environments' names by instance ID
function Client:list()
  return self:env_list_all()
end

-- Return a path with a query of the given members, in the order of their names.
local function with_query(path, given, names)
  local query = {}
  for _, name in ipairs(names) do
    local value = given and given[name]
    if value ~= nil then
      query[#query + 1] = name .. "=" .. address.quoted(tostring(value))
    end
  end
  return query[1] and path .. "?" .. table.concat(query, "&") or path
end

--- List the instances with their figures, and the last that ended.
-- @tparam[opt] table filter `search` for a part of a name, `state`
-- @treturn table `instances` and `ended`, lists of tables, and `slots`
function Client:instances(filter)
  local path = with_query("/v1/instances/", filter, { "search", "state" })
  return rest.plain(self.requester, "GET", path)
end

--- List the environments that can be made.
-- @tparam[opt] table filter `search` for a part of the name, `available`
-- @treturn table a list of tables
function Client:registry(filter)
  local path = with_query("/v1/registry/", filter, { "search", "available" })
  local answer, failed = rest.plain(self.requester, "GET", path)
  if not answer then
    return nil, failed
  end
  return rest.member(self.requester, path, answer, "envs", "table")
end

--- Step many instances in one request.
-- @tparam table steps a list of tables with `instance_id`, and `action` or `actions`
-- @tparam[opt] number first answer as soon as so many are done
-- @treturn table `results` and `pending`
function Client:batch_step(steps, first)
  local path = "/v1/batch/step/"
  return rest.plain(self.requester, "POST", path, { steps = kinds.list(steps), first = first })
end

local METHODS = { GET = true, POST = true, PUT = true, DELETE = true }
local REQUEST = { "body", "content_type", "headers" }
local REQUEST_TYPES = { content_type = "string", headers = "table" }

-- Return the headers as pairs in an order, so that each try has the same bytes.
local function pairs_of(headers)
  local found = {}
  for name, value in pairs(headers or {}) do
    value = tostring(value)
    if type(name) ~= "string" or not name:find("^[%w-]+$") or value:find("[%c]") then
      usage.raise("a header is a name and a text in one line, as {[\"If-Match\"] = etag}")
    end
    found[#found + 1] = { name, value }
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  return found
end

--- Send any request of the API, as for training runs; it is sent again like all others.
-- @tparam string method `"GET"`, `"POST"`, `"PUT"` or `"DELETE"`
-- @tparam string path as `"/v1/runs/"`, with its query
-- @tparam[opt] table given `body`, a string of bytes, or a table to send as JSON;
-- `content_type`; `headers`, values by name
-- @treturn table `status`, `headers` by names in lower case, `body`, and `value` if the
-- answer is JSON
function Client:request(method, path, given)
  if not METHODS[method] then
    usage.raise('a method is "GET", "POST", "PUT" or "DELETE"; got %s', usage.shown(method))
  elseif type(path) ~= "string" or not path:find("^/[%w%p]*$") then
    usage.raise('a path is as "/v1/runs/", with blanks and the like as %%20; got %s',
      usage.shown(path))
  end
  given = options.checked(given, "request", '{body = "…"}', REQUEST)
  options.typed(given, REQUEST_TYPES)
  local kind = type(given.body)
  if kind ~= "nil" and kind ~= "string" and kind ~= "table" then
    usage.raise("a body is a string of bytes, or a table; got %s", usage.shown(given.body))
  end
  return rest.any(self.requester, method, path, {
    body = given.body, content_type = given.content_type, headers = pairs_of(given.headers),
  })
end

--- Return the server's version, capabilities and limits.
-- @treturn table
function Client:server_info()
  return rest.plain(self.requester, "GET", "/v1/")
end

--- Close the connection; a later call opens it again.
function Client:close()
  self.requester:close()
end

return Client
