--- The handshake of a provided environment with a server.
-- @module gym_http_client.serving.handshake
local errors = require("gym_http_client.errors")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local plain = require("gym_http_client.plain")
local malformed = require("gym_http_client.malformed")
local spaces = require("gym_http_client.spaces")

local handshake = {}

local PROTOCOL = 1
-- Refusals that may end by themselves.
local PASSING = { ["too-many-external"] = true }

local function description_of(space)
  return (kinds.of(space) == "space" and space or spaces.read(space)):describe()
end

local function capabilities_of(given)
  local can = {
    reset = given.reset, render = given.render, realtime = given.realtime, replay = true,
  }
  for _, name in ipairs(given.capabilities or {}) do
    can[name] = true
  end
  local names = {}
  for name in pairs(can) do
    names[#names + 1] = name
  end
  table.sort(names)
  return kinds.list(names)
end

--- Write the hello of an environment.
-- @tparam table given the options of `serve.env`
-- @tparam string dialect
-- @tparam ?string token of the server, for transports without a header
-- @tparam ?string resume the resume token of an earlier welcome
-- @treturn string
function handshake.hello(given, dialect, token, resume)
  return plain.encode({
    type = "hello", protocol = PROTOCOL, name = given.name, dialect = dialect,
    token = token, resume = resume, metadata = given.metadata, realtime = given.realtime,
    replace = given.replace or nil,
    capabilities = capabilities_of(given),
    observation_space = description_of(given.observation_space),
    action_space = description_of(given.action_space),
    render_modes = given.render_modes and kinds.list(given.render_modes),
    reward_channels = given.reward_channels and kinds.list(given.reward_channels),
  })
end

--- Parse a server's answer.
-- @tparam string message
-- @tparam string url of the server
-- @treturn ?table the welcome
-- @treturn ?string why it is not a welcome
-- @treturn ?Error if the refusal is final
function handshake.read(message, url)
  local reply = malformed.attempt(json.read, message)
  local is_dict = type(reply) == "table" and kinds.of(reply) == "dict"
  if is_dict and reply.type == "welcome" and type(reply.heartbeat_s) == "number"
    and type(reply.resume) == "string" then
    return reply
  elseif not is_dict or reply.type ~= "refused" or type(reply.message) ~= "string" then
    return nil, "the answer to the hello is malformed"
  end
  local words = ("%s: %s"):format(tostring(reply.code), reply.message)
  return nil, words, not PASSING[reply.code] and errors.api(reply, url) or nil
end

return handshake
