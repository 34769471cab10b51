--- Single numbers as little-endian bytes, by the functions that the interpreter has.
-- @module gym_http_client.packing
local floats = require("gym_http_client.floats")
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")

local packing = {}

local pack, unpack_bytes = platform.string_pack, platform.string_unpack
local unpack = platform.unpack
local ffi = platform.ffi
local byte, char = string.byte, string.char
local QUIET_NAN = char(0, 0, 0, 0, 0, 0, 248, 127)

local function bytes_of(value)
  if type(value) == "number" then
    local bytes = {}
    for index = 1, 8 do
      bytes[index] = value % 256
      value = (value - bytes[index]) / 256
    end
    return bytes
  end
  return integers.to_bytes(value, 8, true)
end

if pack then
  -- An unsigned number of 32 bits at a position, counted from 1.
  function packing.u32(data, at) return (unpack_bytes("<I4", data, at)) end
  function packing.u16(data, at) return (unpack_bytes("<I2", data, at)) end
  function packing.i64(data, at) return (unpack_bytes("<i8", data, at)) end
  function packing.f64(data, at) return (unpack_bytes("<d", data, at)) end
  function packing.write_u32(value) return pack("<I4", value) end
  function packing.write_u16(value) return pack("<I2", value) end

  function packing.write_i64(value)
    if type(value) == "number" then
      return pack("<i8", value)
    end
    return char(unpack(integers.to_bytes(value, 8, true)))
  end

  function packing.write_f64(value)
    return value == value and pack("<d", value) or QUIET_NAN
  end
  return packing
end

function packing.u16(data, at)
  local a, b = byte(data, at, at + 1)
  return b * 256 + a
end

function packing.u32(data, at)
  local a, b, c, d = byte(data, at, at + 3)
  return ((d * 256 + c) * 256 + b) * 256 + a
end

function packing.write_u16(value)
  local a = value % 256
  return char(a, (value - a) / 256)
end

function packing.write_u32(value)
  local a = value % 65536
  return packing.write_u16(a) .. packing.write_u16((value - a) / 65536)
end

function packing.write_i64(value)
  return char(unpack(bytes_of(value)))
end

function packing.i64(data, at)
  local low, high = packing.u32(data, at), packing.u32(data, at + 4)
  if high >= 2147483648 then
    high = high - 4294967296
  end
  -- From 2^53 on numbers would be rounded.
  if high >= -2097152 and high < 2097152 then
    return high * 4294967296 + low
  end
  return integers.from_bytes({ byte(data, at, at + 7) }, true)
end

if ffi then
  local place = ffi.new("double[1]")
  local source = ffi.cast("const uint8_t *", place)

  function packing.f64(data, at)
    ffi.copy(place, ffi.cast("const char *", data) + (at - 1), 8)
    local value = place[0]
    -- LuaJIT uses the bits of some NaNs to mark its types.
    return value == value and value or 0 / 0
  end

  function packing.write_f64(value)
    if value ~= value then
      return QUIET_NAN
    end
    place[0] = value
    return ffi.string(source, 8)
  end
  return packing
end

function packing.f64(data, at)
  return floats.double(byte(data, at, at + 7))
end

function packing.write_f64(value)
  return value == value and char(unpack(floats.bytes(value, 8))) or QUIET_NAN
end

return packing
