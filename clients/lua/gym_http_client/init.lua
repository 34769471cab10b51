--- Gymnasium environments that live on a gym_http_server.
--
--     local gym = require("gym_http_client")
--     local env = gym.assert(gym.make("CartPole-v1", { url = "http://127.0.0.1:5000" }))
--     local observation, info = gym.assert(env:reset({ seed = 42 }))
--
-- A call returns its results, or nil and an `Error`: a table with `kind`, `message`,
-- `status`, `code` and `url`, which `tostring` formats. Wrong use
-- raises an error.
-- @module gym_http_client
local Client = require("gym_http_client.client")
local arrays = require("gym_http_client.arrays")
local errors = require("gym_http_client.errors")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local malformed = require("gym_http_client.malformed")
local spaces = require("gym_http_client.spaces")

local gym = {}

--- The version of the client.
gym._VERSION = "0.1.0"

--- The default URL of a server.
gym.DEFAULT_URL = "http://127.0.0.1:5000"

--- Make a client of a server.
-- @tparam[opt] string url of the server; it may hold a token, as
-- `http://:TOKEN@host:5000`
-- @tparam[opt] table options
--
-- * `token`: by default the one in the URL, or in `GHS_TOKEN`
-- * `time_limit`: seconds for each call with its retries, by default 60
-- * `answer_limit`: seconds to wait for one answer before a retry, by default two
--   thirds of the time limit
-- * `max_body`: bytes that an answer may have, by default 256 MiB
-- * `stream`: false to step over HTTP only
-- * `raw`: true for arrays as strings of bytes, or FFI arrays under LuaJIT
-- * `tls`: for `https://`: a table with `cafile`, `capath`, `certificate` and `key`, as
--   LuaSec has them, or `verify = false`
-- @treturn Client
function gym.new(url, options)
  return Client.new(url or gym.DEFAULT_URL, options)
end

local EXAMPLE = '{url = "http://127.0.0.1:5000"}'

-- Close the connection with the environment, or at once if there is no environment.
local function owning(client, env, failed)
  if env then
    env.owns_link = true
  else
    client:close()
  end
  return env, failed
end

--- Make an environment, on a connection of its own.
-- @tparam string env_id Gymnasium's name, as `"CartPole-v1"`
-- @tparam[opt] table options those of `gym.new`, `url`, and those of `Client:make`
-- @treturn Env
function gym.make(env_id, options)
  options = Client.making_options(options, "gym.make", EXAMPLE)
  local client = gym.new(options.url, options)
  return owning(client, client:make(env_id, options))
end

--- Make many environments that step as one.
-- @tparam string env_id
-- @tparam table options as for `gym.make`; `num_envs` is needed
-- @treturn Env
function gym.make_vec(env_id, options)
  if type(options) ~= "table" or type(options.num_envs) ~= "number" then
    usage.raise("num_envs is needed, as {num_envs = 8}: how many environments step as one")
  end
  return gym.make(env_id, options)
end

--- Use an existing instance.
-- @tparam string instance_id
-- @tparam[opt] table options those of `gym.new`, and `url`
-- @treturn Env
function gym.attach(instance_id, options)
  options = Client.attaching_options(options, "gym.attach", EXAMPLE)
  local client = gym.new(options.url, options)
  return owning(client, client:attach(instance_id, options))
end

--- Make a space of a description, such as `{ type = "Discrete", n = 3 }`.
-- @tparam table description
-- @treturn Space
function gym.space(description)
  local space, why = malformed.attempt(spaces.read, description)
  return space or usage.raise("the table %s", why)
end

--- Return the results of a call, or raise its error as text.
-- Lua's own `assert` does so as well, but not in Lua 5.1, where an error must be a string.
-- @param ... the results of a call
function gym.assert(...)
  if not (...) then
    error(tostring((select(2, ...)) or "assertion failed!"), 2)
  end
  return ...
end

--- Represents Python's None and JSON's null.
gym.null = kinds.null

--- Make an array.
-- @function gym.array
-- @tparam string dtype as `"float32"`
-- @tparam table|string items numbers, flat or nested; or the bytes of all of them
-- @tparam[opt] table shape if it is not that of the items
-- @treturn table
gym.array = arrays.new

--- List the rows of an array along its first axis, each an array again.
-- @function gym.rows
-- @tparam table array
-- @treturn table
gym.rows = arrays.rows

--- Make a list, also of an empty table.
-- @function gym.list
-- @tparam table items
-- @treturn table the same
gym.list = kinds.list

--- Make a tuple.
-- @function gym.tuple
-- @tparam table items
-- @treturn table the same
gym.tuple = kinds.tuple

--- Make a dict of pairs `{key, value}`, in their order.
-- @function gym.dict
-- @tparam table pairs
-- @treturn table
gym.dict = kinds.dict

--- List the keys of a dict in their order.
-- @function gym.keys
-- @tparam table dict
-- @treturn table
gym.keys = kinds.keys

--- Make a float, also from a number such as 1 that Lua 5.1 would send as an integer.
-- @function gym.float
-- @tparam number number
-- @return a value that is sent as a float
gym.float = kinds.float

--- Make an integer of a number or of decimal digits, however many.
-- @function gym.integer
-- @tparam number|string value
-- @return a number where that is exact
gym.integer = kinds.integer

--- Make bytes, where a string would be text.
-- @function gym.bytes
-- @tparam string data
-- @treturn table
gym.bytes = kinds.bytes

--- Make a NumPy scalar of a dtype.
-- @function gym.scalar
-- @tparam string dtype
-- @param value
-- @treturn table
gym.scalar = kinds.scalar

--- Make the element of a Graph space.
-- @function gym.graph
-- @tparam table nodes an array
-- @param edges an array, or `gym.null`
-- @param edge_links likewise, with two numbers of nodes in each row
-- @treturn table
gym.graph = kinds.graph

--- Make Python's complex number.
-- @function gym.complex
-- @tparam number re
-- @tparam number im
-- @treturn table with `re` and `im`
gym.complex = kinds.complex

--- Name one of Gymnasium's modes of autoreset.
-- @function gym.autoreset
-- @tparam string mode `"NextStep"`, `"SameStep"` or `"Disabled"`
-- @treturn table
gym.autoreset = kinds.autoreset

--- Return the kind of a table: `"list"`, `"tuple"`, `"dict"`, `"array"` and so on.
-- @function gym.kind
-- @tparam table value
-- @treturn string
gym.kind = kinds.of

--- Return whether a value is an error of this client.
-- @function gym.is_error
-- @param value
-- @treturn boolean
gym.is_error = errors.is

return gym
