--- Values in the binary form: a signature, then the bytes of its leaves.
-- @module gym_http_client.binary
local malformed = require("gym_http_client.malformed")
local sign = require("gym_http_client.signature_writer")
local signatures = require("gym_http_client.signatures")
local packing = require("gym_http_client.packing")

local binary = {}

local refuse = malformed.refuse

--- Encode a value in the binary form.
function binary.encode(value)
  local signature, leaves = sign(value)
  return packing.write_u32(#signature) .. "\0\0\0\0" .. signature .. leaves
end

--- Decode a value; refuses malformed bytes.
-- @tparam string data
-- @tparam[opt] boolean raw return arrays as their bytes
function binary.decode(data, raw)
  if #data < 8 then
    refuse("is shorter than 8 bytes")
  end
  local size = packing.u32(data, 1)
  if packing.u32(data, 5) ~= 0 then
    refuse("has bytes 4 to 8 that are not zero")
  elseif size % 8 ~= 0 or 8 + size > #data then
    refuse("has a signature of an impossible size: %d", size)
  end
  return signatures.compile(data:sub(9, 8 + size), raw)(data, 9 + size)
end

return binary
