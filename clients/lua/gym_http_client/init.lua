--- Gymnasium environments that live on a gym_http_server.
--
--     local gym = require("gym_http_client")
--     local env = gym.assert(gym.make("CartPole-v1", { url = "http://127.0.0.1:5000" }))
--     local observation, info = gym.assert(env:reset({ seed = 42 }))
--
-- A call gives its results, or nil and an `Error`: a table with `kind`, `message`,
-- `status`, `code` and `url`, which `tostring` puts into words. What is used wrongly
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

--- Where a server listens unless it is told otherwise.
gym.DEFAULT_URL = "http://127.0.0.1:5000"

--- Make a client of a server.
-- @tparam[opt] string url of the server; it may hold a token, as
-- `http://:TOKEN@host:5000`
-- @tparam[opt] table options
--
-- * `token`: else the one in the address, else the one in `GHS_TOKEN`
-- * `time_limit`: seconds for each call as a whole, 60 unless told otherwise
-- * `answer_limit`: seconds to wait for one answer before it is asked for again; two
--   thirds of the time limit unless told otherwise
-- * `max_body`: bytes that an answer may have, 256 MiB unless told otherwise
-- * `stream`: false if steps shall not go over a stream
-- * `raw`: true for arrays as strings of bytes, or FFI arrays under LuaJIT
-- * `tls`: for `https://`: a table with `cafile`, `capath`, `certificate` and `key`, as
--   LuaSec has them, or `verify = false`
-- @treturn Client
function gym.new(url, options)
  return Client.new(url or gym.DEFAULT_URL, options)
end

local EXAMPLE = '{url = "http://127.0.0.1:5000"}'

-- Have the connection end with the environment, or at once where there is none.
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

--- Get hold of an instance that somebody else has made.
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

--- Give the results of a call, or raise its error as text.
-- Lua's own `assert` does so as well, but not in Lua 5.1, where an error has to be a string.
-- @param ... what a call gave
function gym.assert(...)
  if not (...) then
    error(tostring((select(2, ...)) or "assertion failed!"), 2)
  end
  return ...
end

--- Stands for Python's None and JSON's null.
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

--- Make a float, also of a number such as 1 that Lua 5.1 takes for an integer.
-- @function gym.float
-- @tparam number number
-- @return what is sent as a float
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

--- Name one of Gymnasium's modes of autoreset.
-- @function gym.autoreset
-- @tparam string mode `"NextStep"`, `"SameStep"` or `"Disabled"`
-- @treturn table
gym.autoreset = kinds.autoreset

--- Tell the kind of a table: `"list"`, `"tuple"`, `"dict"`, `"array"` and so on.
-- @function gym.kind
-- @tparam table value
-- @treturn string
gym.kind = kinds.of

--- Tell an error of this client from other values.
-- @function gym.is_error
-- @param value
-- @treturn boolean
gym.is_error = errors.is

return gym
