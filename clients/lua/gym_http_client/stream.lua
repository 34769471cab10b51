--- A stream: one WebSocket to one instance, until it is lost.
-- @module gym_http_client.stream
local received_signatures = require("gym_http_client.received_signatures")
local sent_signatures = require("gym_http_client.sent_signatures")
local random_bytes = require("gym_http_client.random_bytes")
local frames = require("gym_http_client.frames")
local connections = require("gym_http_client.connection")
local malformed = require("gym_http_client.malformed")
local websocket = require("gym_http_client.websocket")

local stream = {}

local Stream = {}
Stream.__index = Stream

local BINARY = websocket.BINARY
-- Status 1009 of a close frame.
local TOO_LARGE = "\3\241"

--- Make a stream from a connection after its handshake.
-- @tparam Connection connection
-- @tparam number max_message bytes that a message may have
-- @tparam[opt] boolean raw return arrays as their bytes
function stream.new(connection, max_message, raw)
  return setmetatable({
    connection = connection,
    reader = websocket.reader(connection, max_message),
    announced = received_signatures.new(raw),
    announcing = sent_signatures.new(),
  }, Stream)
end

--- Send a request.
-- @tparam table query `operation`, `number`, and `plain` JSON, or a `signature` and
-- `leaves`, or neither
-- @treturn ?boolean true
-- @treturn ?table failure
function Stream:send(query, deadline)
  local form, body = frames.NONE, ""
  if query.plain then
    form, body = frames.PLAIN, query.plain
  elseif query.signature then
    form, body = frames.BINARY, self.announcing:header(query.signature) .. query.leaves
  end
  local message = frames.encode(query.operation, query.number, 1, form + 16 * frames.BINARY,
    body)
  return self.connection:send(websocket.frame(BINARY, message, random_bytes.bytes(4)), deadline)
end

-- Read the next message, and answer pings on the way.
local function next_message(self, deadline)
  while true do
    local opcode, payload = self.reader:next(deadline)
    if opcode == BINARY or not opcode then
      return opcode and payload, payload
    elseif opcode == websocket.TEXT then
      return nil, connections.failure("malformed", "a text arrived on a binary stream")
    elseif opcode == websocket.CLOSE then
      local reason = malformed.elided(payload:sub(3))
      if payload:sub(1, 2) == TOO_LARGE then
        return nil, connections.failure("too-large", reason)
      end
      return nil, connections.failure("lost", "the stream was closed: " .. reason)
    elseif opcode == websocket.PING then
      local pong = websocket.frame(websocket.PONG, payload, random_bytes.bytes(4))
      local sent, failed = self.connection:send(pong, deadline)
      if not sent then
        return nil, failed
      end
    end
  end
end

--- Wait for the next answer.
-- @treturn ?table a frame, with its whole `message`
-- @treturn ?table failure
function Stream:receive(deadline)
  local message, failed = next_message(self, deadline)
  if not message then
    return nil, failed
  end
  local frame, why = frames.decode(message)
  if not frame then
    return nil, connections.failure("malformed", why)
  end
  frame.message = message
  return frame
end

--- Read the value of an answer in the binary form.
-- @return the value, or nil
-- @treturn ?table failure
function Stream:value(frame)
  local value, why = malformed.attempt(self.announced.read, self.announced, frame.message,
    frame.body_at)
  if why then
    return nil, connections.failure("malformed", "a value " .. why)
  end
  return value
end

--- Close the connection without a close frame.
function Stream:close()
  self.connection:close()
end

return stream
