--- Frames: the messages of a stream.
-- @module gym_http_client.frames
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")
local packing = require("gym_http_client.packing")

local frames = {}

local pack, unpack = platform.string_pack, platform.string_unpack
local FORMAT = "<I4I4I2BBI4"
local MAX_HEAD = 65536

--- Forms of a body.
frames.NONE, frames.PLAIN, frames.TYPED, frames.BINARY = 0, 1, 2, 3

--- Numbers of the operations.
frames.OPERATIONS = {
  reset = 1, step = 2, render = 3, describe = 4, action_space = 5, observation_space = 6,
  action_sample = 7, observation_sample = 8, action_contains = 9,
  observation_contains = 10, monitor_start = 11, monitor_close = 12, generator = 13,
  set_generator = 14, attribute = 15, set_attribute = 16, call_attribute = 17,
  rollout = 18, act = 19, updates = 20, realtime = 21, set_realtime = 22, pause = 23,
  resume = 24, trace = 25,
}

--- Encode a frame.
-- @tparam number operation 0 in an answer
-- @tparam number number of the request
-- @tparam number status of an answer; in a request 1 if all earlier answers have arrived
-- @tparam number forms of the body, plus 16 times that of the answer
-- @tparam string body
-- @tparam[opt] string head JSON
function frames.encode(operation, number, status, forms, body, head)
  head = head or ""
  head = head .. (" "):rep(-#head % 8)
  if pack then
    return pack(FORMAT, #body, #head, status, operation, forms, number) .. head .. body
  end
  return packing.write_u32(#body) .. packing.write_u32(#head) .. packing.write_u16(status)
    .. string.char(operation, forms) .. packing.write_u32(number) .. head .. body
end

local function header_of(message)
  if unpack then
    return unpack(FORMAT, message)
  end
  local operation, forms = message:byte(11, 12)
  return packing.u32(message, 1), packing.u32(message, 5), packing.u16(message, 9), operation,
    forms, packing.u32(message, 13)
end

local function read_head(text)
  local head = malformed.attempt(json.read, text)
  return type(head) == "table" and kinds.of(head) == "dict" and head or nil
end

--- Decode a frame.
-- @tparam string message a whole one
-- @treturn ?table `status`, `operation`, `forms`, `number`, `head` (a table, if there is
-- one) and `body_at`, where the body begins in the message; nil if it is malformed
-- @treturn ?string the reason
function frames.decode(message)
  if #message < 16 then
    return nil, ("a message has %d bytes; a frame has 16 at least"):format(#message)
  end
  local body, head, status, operation, forms, number = header_of(message)
  if head > MAX_HEAD or 16 + head + body ~= #message then
    return nil, ("a message of %d bytes announces others"):format(#message)
  end
  local frame = {
    status = status, operation = operation, forms = forms, number = number,
    body_at = 17 + head,
  }
  if head > 0 then
    frame.head = read_head(message:sub(17, 16 + head))
    if not frame.head then
      return nil, "the head of a message is no JSON object"
    end
  end
  return frame
end

return frames
