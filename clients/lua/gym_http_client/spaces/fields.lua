--- Parse the fields of a space's description, and refuse malformed ones.
-- @module gym_http_client.spaces.fields
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local elements = require("gym_http_client.elements")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local fields = {}

local MAX_BYTES = 536870912
local MAX_AXES = 32
local SPECIAL = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0 }

--- Refuse a field.
function fields.refuse(description, field, expected)
  local value = description[field]
  malformed.refuse("describes a space whose %s is %s, but must be %s", field,
    value == nil and "missing" or malformed.elided(value), expected)
end

--- Read the dtype, which must be of one of these kinds.
function fields.dtype(description, allowed, default)
  local name = description.dtype
  if name == nil then
    name = default
  end
  local dtype = type(name) == "string" and dtypes.find(name) or nil
  -- Descriptions use long names for dtypes in the machine's own byte order.
  if not dtype or not allowed:find(dtype.kind, 1, true) or dtype.bytes > 8
    or (name == dtype.wire and not dtype.big_endian) then
    fields.refuse(description, "dtype", "the name of a dtype that it can have")
  end
  return dtype
end

--- Return the smallest and the largest integer of a dtype.
function fields.limits(dtype)
  local bits = 8 * dtype.bytes
  local function power(exponent)
    local bytes = {}
    for index = 1, 9 do
      bytes[index] = 0
    end
    bytes[math.floor(exponent / 8) + 1] = 2 ^ (exponent % 8)
    return integers.from_bytes(bytes, false)
  end
  if dtype.kind == "b" then
    return 0, 1
  elseif dtype.kind == "u" then
    return 0, integers.sum(power(bits), -1)
  end
  return integers.negated(power(bits - 1)), integers.sum(power(bits - 1), -1)
end

local function integer_of(value)
  if type(value) == "string" then
    return value:find("^%-?%d+$") and #value <= 21 and integers.parse(value) or nil
  elseif type(value) == "number" and value % 1 == 0 and not integers.is_integer(value) then
    return integers.parse(("%.0f"):format(value))
  end
  return integers.is_integer(value) and value or nil
end

--- Read an integer that a dtype holds.
function fields.integer(description, field, dtype, default)
  local value = description[field]
  if value == nil then
    value = default
  end
  local number = integer_of(value)
  local low, high = fields.limits(dtype)
  if number == nil or integers.compare(number, low) < 0
    or integers.compare(number, high) > 0 then
    fields.refuse(description, field, "an integer of " .. dtype.name)
  end
  return number
end

--- Read a shape.
function fields.shape(description, field, bytes, default)
  local value = description[field]
  if value == nil then
    value = default
  end
  if type(value) ~= "table" or kinds.of(value) == "dict" and next(value) or #value > MAX_AXES then
    fields.refuse(description, field, "a list of sizes")
  end
  local shape, room = {}, bytes
  for index, size in ipairs(value) do
    local whole = integer_of(size)
    if type(whole) ~= "number" or whole < 0 then
      fields.refuse(description, field, "a list of sizes, each an integer from 0 on")
    end
    shape[index], room = whole, room * 1.0 * math.max(whole, 1)
  end
  if room > MAX_BYTES then
    fields.refuse(description, field, "that of a space of at most " .. MAX_BYTES .. " bytes")
  end
  return shape
end

--- Round a number to a dtype of floats.
function fields.rounded(dtype, number)
  if dtype.bytes == 8 or number - number ~= 0 then
    return number
  end
  return elements.read(dtype, elements.write(dtype, { number }, 1), 1, 1)[1]
end

local function number_of(value, dtype)
  if dtype.kind == "b" then
    if value == 0 or value == 1 then
      return value == 1
    end
    return type(value) == "boolean" and value or nil
  elseif dtype.kind ~= "f" then
    local number = integer_of(value)
    local low, high = fields.limits(dtype)
    return number and integers.compare(number, low) >= 0
      and integers.compare(number, high) <= 0 and number or nil
  elseif type(value) == "string" then
    return SPECIAL[value]
  elseif integers.is_large(value) then
    value = tonumber(value.digits)
  end
  if type(value) ~= "number" then
    return nil
  end
  local number = fields.rounded(dtype, value)
  return number - number == 0 and number or nil
end

local function checked(description, field, value, dtype)
  local number = number_of(value, dtype)
  if number == nil and not (value == false and dtype.kind == "b") then
    fields.refuse(description, field, dtype.name .. ", or a flat list of such")
  end
  return number or false
end

--- Parse an array: a number for all its elements, or a flat list of them.
-- @treturn function of an index from 1 on, which returns the element
-- @treturn boolean whether all elements are equal
function fields.array(description, field, shape, dtype, default)
  local value = description[field]
  if value == nil then
    value = default
  end
  if type(value) ~= "table" or integers.is_large(value) then
    local number = checked(description, field, value, dtype)
    return function() return number end, true
  end
  local count = arrays.count(shape)
  if #value ~= count or kinds.of(value) == "null" then
    fields.refuse(description, field, "one number, or a flat list of " .. count)
  end
  local numbers = {}
  for index = 1, count do
    numbers[index] = checked(description, field, value[index], dtype)
  end
  return function(index) return numbers[index] end, count == 0
end

return fields
