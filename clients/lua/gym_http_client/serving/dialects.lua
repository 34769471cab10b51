--- Dialects: the messages between a server and an external environment.
--
-- The server sends a table with `type` and `id`: a request with its arguments as
-- further members; or `ping`, `pong` or `fault`. The environment sends the result of a
-- request, or its error.
-- @module gym_http_client.serving.dialects
local received_signatures = require("gym_http_client.received_signatures")
local sent_signatures = require("gym_http_client.sent_signatures")
local frames = require("gym_http_client.frames")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local plain = require("gym_http_client.plain")
local malformed = require("gym_http_client.malformed")
local sign = require("gym_http_client.signature_writer")

local dialects = {}

-- Operations of frames; those below 48 are streams'.
local TYPES = {
  [1] = "reset", [2] = "step", [3] = "render",
  [48] = "init", [49] = "close", [50] = "ping", [51] = "pong", [52] = "fault",
}
local NUMBERS = {}
for number, name in pairs(TYPES) do
  NUMBERS[name] = number
end
local FAILED = 502

local function members_of(tree)
  if type(tree) ~= "table" or kinds.of(tree) ~= "dict" then
    malformed.refuse("is no object")
  end
  return tree
end

local Json = { is_text = true }
Json.__index = Json

--- Decode a message of the server; refuses malformed ones.
function Json.read(_, message)
  return members_of(json.read(message))
end

--- Encode the result of a request.
function Json.answer(_, id, result)
  return ('{"id":%.0f,"result":%s}'):format(id, plain.encode(result))
end

--- Encode the error of a request.
function Json.failure(_, id, problem)
  return ('{"id":%.0f,"error":%s}'):format(id, plain.encode(problem))
end

--- Encode `ping` or `pong`.
function Json.control(_, name)
  return ('{"type":"%s"}'):format(name)
end

local Binary = { is_text = false }
Binary.__index = Binary

local function forget(self)
  self.announced, self.announcing = received_signatures.new(), sent_signatures.new()
end

function Binary:read(message)
  local frame, why = frames.decode(message)
  if not frame then
    malformed.refuse("is no frame: %s", why)
  end
  local name = TYPES[frame.operation] or ("operation " .. frame.operation)
  if name == "init" then
    forget(self)
  end
  local given = {}
  if frame.body_at <= #message then
    given = frame.forms % 16 == frames.BINARY and self.announced:read(message, frame.body_at)
      or json.read(message:sub(frame.body_at))
  end
  local content = { type = name, id = frame.number }
  for key, value in pairs(members_of(given)) do
    content[key] = content[key] or value
  end
  return content
end

function Binary:answer(id, result)
  local signature, leaves = sign(result)
  local body = self.announcing:header(signature) .. leaves
  return frames.encode(0, id, 200, frames.BINARY, body)
end

function Binary.failure(_, id, problem)
  return frames.encode(0, id, FAILED, frames.PLAIN, plain.encode(problem))
end

function Binary.control(_, name)
  return frames.encode(NUMBERS[name], 0, 0, frames.NONE, "")
end

--- Begin to use a dialect on a connection.
-- @tparam string name `"json"` or `"binary"`
function dialects.new(name)
  if name == "json" then
    return setmetatable({}, Json)
  end
  local self = setmetatable({}, Binary)
  forget(self)
  return self
end

return dialects
