--- The elements of spaces that are arrays, in all accepted forms.
-- @module gym_http_client.spaces.members
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local fields = require("gym_http_client.spaces.fields")

local members = {}

-- Bits of the integers that floats hold without loss, as NumPy casts them.
local FLOAT_HOLDS = { [2] = 8, [4] = 16, [8] = 64 }

--- Whether all numbers of a dtype are numbers of another one, as NumPy sees it.
function members.can_cast(from, to)
  local a, b, bits = from.kind, to.kind, 8 * from.bytes
  if a == "b" then
    return b == "b" or b == "i" or b == "u" or b == "f"
  elseif a == "f" then
    return b == "f" and from.bytes <= to.bytes
  elseif b == "f" then
    return (a == "i" or a == "u") and bits <= FLOAT_HOLDS[to.bytes]
  elseif a == "u" then
    return (b == "u" and from.bytes <= to.bytes) or (b == "i" and from.bytes < to.bytes)
  end
  return a == "i" and b == "i" and from.bytes <= to.bytes
end

local function same_shape(a, b)
  if #a ~= #b then
    return false
  end
  for index = 1, #a do
    if a[index] ~= b[index] then
      return false
    end
  end
  return true
end

local function collect(value, shape, axis, items)
  if axis > #shape then
    if type(value) == "table" and not integers.is_large(value) then
      return false
    end
    items[#items + 1] = value
    return true
  end
  if type(value) ~= "table" or #value ~= shape[axis] then
    return false
  end
  for index = 1, #value do
    if not collect(value[index], shape, axis + 1, items) then
      return false
    end
  end
  return true
end

local PLAIN = { list = true, tuple = true, dict = true }

--- Return the elements of an array, or of a table of numbers that is flat or nested.
-- @treturn ?table nil if the value does not have this shape
function members.items(value, shape, dtype)
  if type(value) ~= "table" then
    return #shape == 0 and { value } or nil
  end
  local kind = kinds.of(value)
  if kind == "array" then
    local from = dtypes.find(value.dtype)
    if not from or not members.can_cast(from, dtype) or not same_shape(value.shape, shape) then
      return nil
    end
    return value
  elseif kind == "scalar" then
    return #shape == 0 and { value.value } or nil
  elseif not PLAIN[kind] or (kind == "dict" and next(value) ~= nil) then
    return nil
  end
  if #shape > 0 and type(value[1]) ~= "table" and #value == arrays.count(shape)
    and (kind ~= "dict" or arrays.count(shape) == 0) then
    return value
  end
  local items = {}
  return kind ~= "dict" and collect(value, shape, 1, items) and items or nil
end

--- Make an array of nested lists, as plain JSON has them.
-- @treturn ?table nil where they are not of this shape
function members.read_plain(tree, shape, dtype)
  local items = { shape = shape, dtype = dtype.name }
  if not collect(tree, shape, 1, items) then
    return nil
  end
  for index = 1, #items do
    local value = items[index]
    if dtype.kind == "f" and value == kinds.null then
      value = 0 / 0
    elseif dtype.kind == "b" and type(value) ~= "boolean" then
      return nil
    elseif dtype.kind == "f" then
      if type(value) ~= "number" then
        return nil
      end
      value = fields.rounded(dtype, value * 1.0)
    elseif dtype.kind ~= "b" and not integers.is_integer(value) then
      return nil
    end
    items[index] = value
  end
  return setmetatable(items, kinds.Array)
end

return members
