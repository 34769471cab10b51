--- The elements of arrays: bytes into tables of numbers, and back.
-- @module gym_http_client.elements
local floats = require("gym_http_client.floats")
local formats = require("gym_http_client.formats")
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")
local packing = require("gym_http_client.packing")

local elements = {}

local refuse = malformed.refuse
local ffi = platform.ffi
local unpack_bytes = platform.string_unpack
local byte = string.byte
local AT_ONCE = formats.AT_ONCE

local function turned(data)
  return data:reverse()
end

-- Of `S` and `U`: NumPy ignores zeros at the end.
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

-- The general way for all dtypes, one element after the other.
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
  local items = {}
  for index = 1, count - 7, 8 do
    items[index], items[index + 1], items[index + 2], items[index + 3], items[index + 4],
      items[index + 5], items[index + 6], items[index + 7] = byte(data, at, at + 7)
    at = at + 8
  end
  for index = count - count % 8 + 1, count do
    items[index] = byte(data, at)
    at = at + 1
  end
  return items
end

-- For interpreters without `string.unpack`: read at a position.
local AT = {
  f4 = function(data, at) return floats.single(byte(data, at, at + 3)) end,
  f8 = packing.f64, i8 = packing.i64, M8 = packing.i64, m8 = packing.i64,
  u2 = packing.u16, u4 = packing.u32,
}

function AT.i1(data, at)
  local value = byte(data, at)
  return value < 128 and value or value - 256
end

function AT.i2(data, at)
  local value = packing.u16(data, at)
  return value < 32768 and value or value - 65536
end

function AT.i4(data, at)
  local value = packing.u32(data, at)
  return value < 2147483648 and value or value - 4294967296
end

function AT.u8(data, at)
  local high = packing.u32(data, at + 4)
  if high < 2097152 then
    return high * 4294967296 + packing.u32(data, at)
  end
  return integers.from_bytes({ byte(data, at, at + 7) }, false)
end

local function read_each(dtype, data, at, count)
  local read, size, items = AT[dtype.kind .. dtype.bytes], dtype.bytes, {}
  for index = 1, count do
    items[index] = read(data, at)
    at = at + size
  end
  return items
end

local C_TYPES = {
  i1 = "int8_t", i2 = "int16_t", i4 = "int32_t",
  u1 = "uint8_t", u2 = "uint16_t", u4 = "uint32_t",
  f4 = "float", f8 = "double",
  -- For arrays as their bytes.
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

local function named(names)
  local set = {}
  for name in names:gmatch("%S+") do
    set[name] = true
  end
  return set
end

local IN_PLACE = named("i1 i2 i4 u1 u2 u4 f4 f8")
local PACKED = named("i1 i2 i4 i8 u2 u4 f4 f8 M8 m8")
local UNREADABLE = named("f16")

local function reader_of(dtype)
  local name = dtype.kind .. dtype.bytes
  if dtype.kind == "b" then
    return read_bools
  elseif ffi and IN_PLACE[name] and not dtype.big_endian then
    return read_in_place
  elseif name == "u1" then
    return read_octets
  elseif unpack_bytes and PACKED[name] then
    return read_packed
  elseif AT[name] and not dtype.big_endian then
    return read_each
  end
  return not UNREADABLE[name] and read_slowly or nil
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
elements.write = require("gym_http_client.array_writer").write

return elements
