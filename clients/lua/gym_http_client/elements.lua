--- The elements of arrays: bytes into tables of numbers, and back.
-- @module gym_http_client.elements
local floats = require("gym_http_client.floats")
local formats = require("gym_http_client.formats")
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")
local refusal = require("gym_http_client.refusal")
local text = require("gym_http_client.text")

local elements = {}

local refuse = refusal.refuse
local ffi = platform.ffi
local unpack_bytes = platform.string_unpack
local byte = string.byte
local AT_ONCE = formats.AT_ONCE

local function turned(data)
  return data:reverse()
end

-- Of `S` and `U`: NumPy does not tell zeros at the end from none.
local function read_text(dtype, data)
  if dtype.kind == "S" then
    return (data:gsub("%z+$", ""))
  end
  local found = text.from_utf32(data, dtype.big_endian)
  if not found then
    refuse("holds characters that there are not")
  end
  return (found:gsub("%z+$", ""))
end

local function read_integer(dtype, data)
  return integers.from_bytes({ byte(dtype.big_endian and turned(data) or data, 1, -1) },
    dtype.kind ~= "u")
end

local function read_float(dtype, data)
  return floats.number({ byte(dtype.big_endian and turned(data) or data, 1, -1) }, #data)
end

local function read_complex(dtype, data)
  local half = { kind = "f", bytes = dtype.bytes / 2, big_endian = dtype.big_endian }
  return {
    re = read_float(half, data:sub(1, half.bytes)),
    im = read_float(half, data:sub(half.bytes + 1)),
  }
end

local ONE = {
  i = read_integer, u = read_integer, M = read_integer, m = read_integer,
  f = read_float, c = read_complex, S = read_text, U = read_text,
}

-- What works for all dtypes, one element after the other.
local function read_slowly(dtype, data, at, count)
  local read, size, items = ONE[dtype.kind], dtype.bytes, {}
  for index = 1, count do
    items[index] = read(dtype, data:sub(at, at + size - 1))
    at = at + size
  end
  return items
end

local function read_bools(_, data, at, count)
  local items = {}
  for index = 1, count do
    local flag = byte(data, at + index - 1)
    if flag > 1 then
      refuse("has bytes that are neither true (1) nor false (0)")
    end
    items[index] = flag == 1
  end
  return items
end

local function read_packed(dtype, data, at, count)
  if count <= AT_ONCE then
    local items = { unpack_bytes(formats.of(dtype, count), data, at) }
    items[count + 1] = nil
    return items
  end
  local items = {}
  for first = 1, count, AT_ONCE do
    local some = math.min(AT_ONCE, count - first + 1)
    local values = { unpack_bytes(formats.of(dtype, some), data, at) }
    for index = 1, some do
      items[first + index - 1] = values[index]
    end
    at = at + some * dtype.bytes
  end
  return items
end

local function read_octets(_, data, at, count)
  if count <= AT_ONCE then
    return { byte(data, at, at + count - 1) }
  end
  local items = {}
  for first = 1, count, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, count)
    local values = { byte(data, at + first - 1, at + last - 1) }
    for index = 1, #values do
      items[first + index - 1] = values[index]
    end
  end
  return items
end

local C_TYPES = {
  i1 = "int8_t", i2 = "int16_t", i4 = "int32_t",
  u1 = "uint8_t", u2 = "uint16_t", u4 = "uint32_t",
  f4 = "float", f8 = "double",
  -- For arrays that are asked for as they are.
  b1 = "bool", i8 = "int64_t", u8 = "uint64_t",
}

local function read_in_place(dtype, data, at, count)
  local place = elements.c_array(dtype, data, at, count)
  local items = {}
  for index = 1, count do
    local value = place[index - 1]
    items[index] = value == value and value or 0 / 0
  end
  return items
end

local arrays = {}

--- Copy elements into a new FFI array, under LuaJIT; nil for a dtype that C has not.
function elements.c_array(dtype, data, at, count)
  local name = not dtype.big_endian and C_TYPES[dtype.kind .. dtype.bytes]
  if not name then
    return nil
  end
  local make = arrays[name] or ffi.typeof(name .. "[?]")
  arrays[name] = make
  local place = make(count)
  ffi.copy(place, ffi.cast("const char *", data) + (at - 1), count * dtype.bytes)
  return place
end

local function reader_of(dtype)
  local kind, bytes = dtype.kind, dtype.bytes
  if kind == "b" then
    return read_bools
  elseif kind == "u" and bytes == 1 then
    return read_octets
  elseif (kind == "i" or kind == "u") and bytes < 8
    or kind == "f" and (bytes == 4 or bytes == 8) then
    if ffi and not dtype.big_endian then
      return read_in_place
    end
    return unpack_bytes and read_packed or read_slowly
  elseif unpack_bytes and (kind == "i" or kind == "m" or kind == "M") then
    return read_packed
  end
  return ONE[kind] and (kind ~= "f" or bytes < 16) and (kind ~= "c" or bytes < 32)
    and read_slowly or nil
end

local readers = {}

--- Read elements; nil where Lua has no numbers of the dtype.
-- @tparam table dtype
-- @tparam string data
-- @tparam number at where they begin, counted from 1
-- @tparam number count how many there are
-- @treturn ?table
function elements.read(dtype, data, at, count)
  if dtype.kind == "S" or dtype.kind == "U" then
    return read_slowly(dtype, data, at, count)
  end
  local read = readers[dtype.wire]
  if read == nil then
    read = reader_of(dtype) or false
    readers[dtype.wire] = read
  end
  return read and read(dtype, data, at, count) or nil
end

--- Write elements; refuses those that the dtype does not hold.
elements.write = require("gym_http_client.writing").write

return elements
