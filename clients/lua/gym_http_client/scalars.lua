--- NumPy's scalars, and floats that are more than numbers.
-- @module gym_http_client.scalars
local elements = require("gym_http_client.elements")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")
local packing = require("gym_http_client.packing")

local scalars = {}

--- Decode hexadecimal digits to bytes.
function scalars.unhex(digits)
  return (digits:gsub("%x%x", function(pair)
    return string.char(tonumber(pair, 16))
  end))
end

--- Make the float of its bits: 16 hex digits, the most significant first.
function scalars.float_of_bits(digits)
  return packing.f64(scalars.unhex(digits):reverse(), 1)
end

--- Read a scalar: a number, a boolean or a string, as Lua has them.
-- @tparam table dtype
-- @tparam string data
-- @tparam number at where its bytes begin
function scalars.read(dtype, data, at)
  if dtype.kind == "S" or dtype.kind == "U" then
    -- Unlike in an array, characters at the end may be zero.
    local bytes = data:sub(at, at + dtype.bytes - 1)
    if dtype.kind == "S" then
      return kinds.bytes(bytes)
    end
    return text.from_utf32(bytes, dtype.big_endian)
      or malformed.refuse("holds characters that there are not")
  end
  local items = elements.read(dtype, data, at, 1)
  if not items then
    return kinds.scalar(dtype.name, kinds.bytes(data:sub(at, at + dtype.bytes - 1)))
  end
  return items[1]
end

--- Encode a scalar of `gym.scalar` as bytes.
function scalars.bytes(dtype, value)
  if type(value) == "table" and kinds.of(value) == "bytes" then
    if #value.data ~= dtype.bytes then
      malformed.refuse("is a scalar of %d bytes, not of %d", dtype.bytes, #value.data)
    end
    return value.data
  elseif type(value) == "table" and kinds.of(value) == "float" and dtype.bytes == 8 then
    return scalars.float_bytes(value)
  end
  return elements.write(dtype, { value }, 1)
end

--- Encode a float of `gym.float` as bytes.
function scalars.float_bytes(value)
  if value.bits then
    return scalars.unhex(value.bits):reverse()
  end
  return packing.write_f64(value.number)
end

return scalars
