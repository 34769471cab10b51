--- Arrays: flat tables in C order, from 1, with `shape` and `dtype`.
-- @module gym_http_client.arrays
local dtypes = require("gym_http_client.dtypes")
local elements = require("gym_http_client.elements")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")

local arrays = {}

local ffi = platform.ffi
local Array = kinds.Array

local MAX_SHOWN = 8

local function element_text(value, is_float)
  if is_float and type(value) == "number" then
    -- How NaN is written, with a sign or without, depends on the system; and so does
    -- the decimal point.
    return value ~= value and "nan" or (("%.6g"):format(value):gsub(",", "."))
  end
  return integers.is_integer(value) and integers.digits(value) or tostring(value)
end

-- Shows the first few elements.
function Array:__tostring()
  local dtype = dtypes.find(self.dtype)
  local items = {}
  for index = 1, math.min(#self, MAX_SHOWN) do
    items[index] = element_text(self[index], dtype and dtype.kind == "f")
  end
  if #self > MAX_SHOWN then
    items[#items + 1] = "..."
  end
  local shape = table.concat(self.shape, ", ")
  local text = ("array of %s, shape {%s}"):format(tostring(self.dtype), shape)
  -- The elements of an array of bytes are unknown.
  return self.data and text or ("%s: %s"):format(text, table.concat(items, ", "))
end

--- Count the elements of a shape.
function arrays.count(shape)
  local count = 1
  for _, size in ipairs(shape) do
    count = count * size
  end
  return count
end

local function flatten(value, depth, shape, flat)
  local size = #value
  if shape[depth] == nil then
    shape[depth] = size
  elseif shape[depth] ~= size then
    usage.raise("gym.array: rows of different sizes")
  end
  for index = 1, size do
    local item = value[index]
    if type(item) == "table" and getmetatable(item) == nil then
      flatten(item, depth + 1, shape, flat)
    else
      flat[#flat + 1] = item
    end
  end
end

local function of_bytes(dtype, data, shape)
  shape = shape or { math.floor(#data / dtype.bytes) }
  if arrays.count(shape) * dtype.bytes ~= #data then
    usage.raise("gym.array: %d bytes are not of this shape", #data)
  end
  return setmetatable({ data = data, shape = shape, dtype = dtype.name }, Array)
end

--- Make an array of a table of numbers, flat or nested, or of a string of its bytes.
-- @tparam string dtype NumPy's name, as `"float32"`
-- @tparam table|string items
-- @tparam[opt] table shape if it is not that of the table
function arrays.new(dtype, items, shape)
  local found = dtypes.find(dtype)
  if not found then
    local right = 'expected as in gym.array("float32", {1, 2})'
    usage.raise("gym.array: no dtype: %s, %s", tostring(dtype), right)
  elseif type(items) == "string" then
    return of_bytes(found, items, shape)
  end
  local sizes, flat = {}, {}
  flatten(items, 1, sizes, flat)
  flat.shape, flat.dtype = shape or sizes, found.name
  if arrays.count(flat.shape) ~= #flat and #sizes > 0 then
    usage.raise("gym.array: %d elements for a shape of %d", #flat, arrays.count(flat.shape))
  end
  return setmetatable(flat, Array)
end

--- Make an array from bytes.
-- @tparam table dtype from `dtypes.read`
-- @tparam table shape
-- @tparam number count elements
-- @tparam string data
-- @tparam number at where they begin
-- @tparam boolean raw a string of the bytes, or an FFI array under LuaJIT
function arrays.read(dtype, shape, count, data, at, raw)
  if raw then
    local place = ffi and elements.c_array(dtype, data, at, count)
    return place or data:sub(at, at + count * dtype.bytes - 1)
  end
  local items = elements.read(dtype, data, at, count)
  if not items then
    -- Lua has no such numbers: the array has only the bytes.
    items = { data = data:sub(at, at + count * dtype.bytes - 1) }
  end
  items.shape, items.dtype = shape, dtype.name
  return setmetatable(items, Array)
end

--- Return the bytes of an array, and its dtype.
function arrays.bytes(array)
  local dtype = dtypes.find(array.dtype)
  if not dtype then
    malformed.refuse("has a malformed dtype: %s", malformed.elided(array.dtype))
  end
  local count = dtypes.count(kinds.list({ platform.unpack(array.shape) }), dtype.bytes)
  local data = array.data
  if type(data) ~= "string" then
    data = elements.write(dtype, array, count)
  end
  if #data ~= count * dtype.bytes then
    malformed.refuse("is an array of %d bytes, and its shape needs %d", #data, count * dtype.bytes)
  end
  return data, dtype
end

--- List the rows of an array along its first axis, each an array again.
function arrays.rows(array)
  local shape, rows = {}, {}
  for index = 2, #array.shape do
    shape[index - 1] = array.shape[index]
  end
  local size = arrays.count(shape)
  for row = 1, array.shape[1] do
    local items = { shape = shape, dtype = array.dtype }
    for index = 1, size do
      items[index] = array[(row - 1) * size + index]
    end
    rows[row] = setmetatable(items, Array)
  end
  return rows
end

return arrays
