--- The elements of arrays: tables of numbers into bytes.
-- @module gym_http_client.array_writer
local floats = require("gym_http_client.floats")
local formats = require("gym_http_client.formats")
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")

local writing = {}

local refuse = malformed.refuse
local unpack, pack = platform.unpack, platform.string_pack
local char = string.char

local function write_float(dtype, value)
  if type(value) ~= "number" then
    refuse("has an element that is no number: %s", malformed.elided(value))
  end
  return char(unpack(floats.bytes(value, dtype.bytes)))
end

local function write_integer(dtype, value)
  if not integers.is_integer(value) then
    local whole = type(value) == "number" and value % 1 == 0
      and integers.parse(("%.0f"):format(value))
    value = whole or refuse("has an element that is no integer: %s", malformed.elided(value))
  end
  return char(unpack(integers.to_bytes(value, dtype.bytes, dtype.kind ~= "u")))
end

local function write_text(dtype, value)
  local data = value
  if dtype.kind == "U" then
    data = text.to_utf32(value, dtype.big_endian)
  end
  if #data > dtype.bytes then
    refuse("has text that is longer than its dtype: %s", malformed.elided(value))
  end
  return data .. ("\0"):rep(dtype.bytes - #data)
end

local function write_one(dtype, value)
  local kind = dtype.kind
  if kind == "b" then
    return (value == true or value == 1) and "\1" or "\0"
  elseif kind == "S" or kind == "U" then
    return write_text(dtype, value)
  elseif kind == "c" then
    local half = { kind = "f", bytes = dtype.bytes / 2, big_endian = dtype.big_endian }
    return write_one(half, value.re) .. write_one(half, value.im)
  end
  local data = (kind == "f" and write_float or write_integer)(dtype, value)
  return dtype.big_endian and data:reverse() or data
end

local function write_slowly(dtype, items, count)
  local parts = {}
  for index = 1, count do
    if items[index] == nil then
      refuse("is an array of %d elements, of which number %d is missing", count, index)
    end
    parts[index] = write_one(dtype, items[index])
  end
  return table.concat(parts)
end

--- Write elements; refuses those that the dtype does not hold.
function writing.write(dtype, items, count)
  if dtype.kind == "f" and pack and (dtype.bytes == 8 or dtype.bytes == 4)
    and count <= formats.AT_ONCE then
    for index = 1, count do
      if type(items[index]) ~= "number" or items[index] ~= items[index] then
        return write_slowly(dtype, items, count)
      end
    end
    return pack(formats.of(dtype, count), unpack(items, 1, count))
  end
  return write_slowly(dtype, items, count)
end

return writing
