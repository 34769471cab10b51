--- Signatures by number, on the way out: each is sent once, and then only named.
-- @module gym_http_client.sent_signatures
local packing = require("gym_http_client.packing")

local sent_signatures = {}

local Announcing = {}
Announcing.__index = Announcing

local MAX_NUMBERS, MAX_NUMBERED_BYTES = 255, 16384

--- The signatures that this side has sent on one stream.
function sent_signatures.new()
  return setmetatable({ numbers = {}, count = 0 }, Announcing)
end

--- Return the prefix of the leaves of a value: its signature the first time, then its
-- number.
-- @tparam string signature
function Announcing:header(signature)
  local number = self.numbers[signature]
  if number then
    return "\0\0\0\0" .. packing.write_u32(number)
  elseif self.count == MAX_NUMBERS or #signature > MAX_NUMBERED_BYTES then
    return packing.write_u32(#signature) .. "\0\0\0\0" .. signature
  end
  self.count = self.count + 1
  self.numbers[signature] = self.count
  return packing.write_u32(#signature) .. packing.write_u32(self.count) .. signature
end

return sent_signatures
