--- Signatures by number: on a stream each is sent once, and then only named.
-- @module gym_http_client.received_signatures
local malformed = require("gym_http_client.malformed")
local signatures = require("gym_http_client.signatures")
local packing = require("gym_http_client.packing")

local received_signatures = {}

local refuse = malformed.refuse
local u32 = packing.u32

local MAX_NUMBERS = 255
local MAX_NUMBERED_BYTES = 16384

local Announced = {}
Announced.__index = Announced

--- The signatures that the peer has sent on one stream.
-- @tparam[opt] boolean raw return arrays as their bytes
function received_signatures.new(raw)
  return setmetatable({ readers = {}, raw = raw }, Announced)
end

local function remember(self, number, size, reader)
  if number > MAX_NUMBERS or self.readers[number] then
    refuse("calls a signature %d, which is taken or over %d", number, MAX_NUMBERS)
  elseif size > MAX_NUMBERED_BYTES then
    refuse("gives a number to a signature of %d bytes; the limit is %d", size,
      MAX_NUMBERED_BYTES)
  end
  self.readers[number] = reader
end

--- Decode a value in the binary form; refuses malformed bytes.
-- @tparam string data
-- @tparam number at its position, counted from 1
function Announced:read(data, at)
  if #data < at + 7 then
    refuse("has %d bytes; a value has 8 at least", #data - at + 1)
  end
  local size, number = u32(data, at), u32(data, at + 4)
  if size == 0 then
    local reader = self.readers[number]
    if not reader then
      refuse("names signature %d, which was not sent on this stream", number)
    end
    return reader(data, at + 8)
  end
  local leaves = at + 8 + size
  if size % 8 ~= 0 or leaves > #data + 1 then
    refuse("has a signature of an impossible size: %d", size)
  end
  local reader = signatures.compile(data:sub(at + 8, leaves - 1), self.raw)
  if number ~= 0 then
    remember(self, number, size, reader)
  end
  return reader(data, leaves)
end

return received_signatures
