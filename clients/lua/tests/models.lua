--- The model form of the vectors: values in the vectors, and as this client has them.
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local elements = require("gym_http_client.elements")
local floats = require("gym_http_client.floats")
local gym = require("gym_http_client")
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")
local scalars = require("gym_http_client.scalars")

local models = {}

local math_type = platform.math_type

function models.unhex(digits)
  return scalars.unhex(digits)
end

function models.hex(data)
  return (data:gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end))
end

local function content_of(model)
  local tag = gym.keys(model)[1]
  return tag, model[tag]
end

local function float_of(digits)
  local bytes = { models.unhex(digits):reverse():byte(1, -1) }
  return floats.number(bytes, #bytes)
end

local function bytes_of(dtype, content)
  if content.bytes then
    return models.unhex(content.bytes)
  end
  local parts = {}
  for index, item in ipairs(content.items) do
    if dtype.kind == "f" then
      parts[index] = models.unhex(item):reverse()
    else
      local value = type(item) == "string" and integers.parse(item) or item
      parts[index] = elements.write(dtype, { value }, 1)
    end
  end
  return table.concat(parts)
end

local function items_of(dtype, content)
  local items = {}
  for index, item in ipairs(content.items) do
    if dtype.kind == "f" then
      items[index] = float_of(item)
      if items[index] ~= items[index] then
        return nil -- its bits would be lost
      end
    else
      items[index] = type(item) == "string" and integers.parse(item) or item
    end
  end
  return items
end

local BUILD = {}

--- Make the value of a model, such that it is encoded exactly.
function models.build(model)
  local tag, content = content_of(model)
  return BUILD[tag](content)
end

local function build_all(list)
  local items = {}
  for index, model in ipairs(list) do
    items[index] = models.build(model)
  end
  return items
end

function BUILD.none() return gym.null end
BUILD["bool"] = function(content) return content end
BUILD["int"] = function(content) return gym.integer(content) end
function BUILD.str(content) return content end
function BUILD.wtf8(content) return models.unhex(content) end
function BUILD.bytes(content) return gym.bytes(models.unhex(content)) end
function BUILD.list(content) return gym.list(build_all(content)) end
function BUILD.tuple(content) return gym.tuple(build_all(content)) end
function BUILD.autoreset(content) return gym.autoreset(content) end
function BUILD.space(content) return gym.space(content) end
function BUILD.complex(content) return gym.complex(float_of(content[1]), float_of(content[2])) end
function BUILD.unsent(content)
  return require("gym_http_client.kinds").unsent(content.repr, content.type)
end

BUILD["float"] = function(content)
  local number = float_of(content)
  return number ~= number and gym.float(content) or gym.float(number)
end

function BUILD.dict(content)
  local entries = {}
  for index, pair in ipairs(content) do
    entries[index] = { models.build(pair[1]), models.build(pair[2]) }
  end
  return gym.dict(entries)
end

function BUILD.nd(content)
  local dtype = dtypes.find(content.dtype)
  local items = content.items and items_of(dtype, content)
  local shape = { platform.unpack(content.shape) }
  return gym.array(content.dtype, items or bytes_of(dtype, content), shape)
end

function BUILD.ns(content)
  local dtype = dtypes.find(content.dtype)
  local items = content.items and items_of(dtype, content)
  if items then
    return gym.scalar(content.dtype, items[1])
  end
  return gym.scalar(content.dtype, gym.bytes(bytes_of(dtype, content)))
end

function BUILD.oa(content)
  local items = build_all(content.items)
  items.shape, items.dtype = content.shape, "object"
  return setmetatable(items, require("gym_http_client.kinds").Objects)
end

function BUILD.graph(content)
  return gym.graph(models.build(content.nodes), models.build(content.edges),
    models.build(content.edge_links))
end

local MATCH = {}

--- Return whether a decoded value equals a model.
function models.matches(model, value)
  local tag, content = content_of(model)
  return MATCH[tag](content, value) or false
end

local function same_number(a, b)
  if a ~= a or b ~= b then
    return a ~= a and b ~= b
  end
  return a == b and (a ~= 0 or 1 / a == 1 / b)
end

local function is_kind(value, kind)
  return type(value) == "table" and gym.kind(value) == kind
end

local function all_match(list, value)
  if #list ~= #value then
    return false
  end
  for index, model in ipairs(list) do
    if not models.matches(model, value[index]) then
      return false
    end
  end
  return true
end

function MATCH.none(_, value) return value == gym.null end
MATCH["bool"] = function(content, value) return value == content end
function MATCH.str(content, value) return value == content end
function MATCH.wtf8(content, value) return value == models.unhex(content) end

MATCH["int"] = function(content, value)
  return integers.is_integer(value) and integers.digits(value) == content
end

MATCH["float"] = function(content, value)
  return type(value) == "number" and same_number(value, float_of(content))
    and (not math_type or math_type(value) == "float")
end

function MATCH.bytes(content, value)
  return is_kind(value, "bytes") and value.data == models.unhex(content)
end

function MATCH.list(content, value)
  return is_kind(value, "list") and all_match(content, value)
end

function MATCH.tuple(content, value)
  return is_kind(value, "tuple") and all_match(content, value)
end

function MATCH.dict(content, value)
  local entries = {}
  if is_kind(value, "mapping") then
    entries = value.entries
  elseif is_kind(value, "dict") then
    for index, key in ipairs(gym.keys(value)) do
      entries[index] = { key, value[key] }
    end
  else
    return false
  end
  for index, pair in ipairs(content) do
    local entry = entries[index]
    if not entry or not models.matches(pair[1], entry[1])
      or not models.matches(pair[2], entry[2]) then
      return false
    end
  end
  return #entries == #content
end

local function same_shape(shape, other)
  for index = 1, math.max(#shape, #other) do
    if shape[index] ~= other[index] then
      return false
    end
  end
  return true
end

function MATCH.nd(content, value)
  local dtype = dtypes.find(content.dtype)
  if not is_kind(value, "array") or value.dtype ~= dtype.name
    or not same_shape(content.shape, value.shape) then
    return false
  elseif dtype.kind == "f" and content.items then
    for index, digits in ipairs(content.items) do
      if not same_number(value[index], float_of(digits)) then
        return false
      end
    end
    return #value == #content.items
  end
  local data = arrays.bytes(value)
  return #value == arrays.count(content.shape) and data == bytes_of(dtype, content)
end

function MATCH.ns(content, value)
  local dtype = dtypes.find(content.dtype)
  if dtype.kind == "f" then
    return type(value) == "number" and same_number(value, float_of(content.items[1]))
  end
  return scalars.bytes(dtype, value) == bytes_of(dtype, content)
end

function MATCH.oa(content, value)
  return is_kind(value, "objects") and same_shape(content.shape, value.shape)
    and all_match(content.items, value)
end

function MATCH.graph(content, value)
  return is_kind(value, "graph") and models.matches(content.nodes, value.nodes)
    and models.matches(content.edges, value.edges)
    and models.matches(content.edge_links, value.edge_links)
end

function MATCH.complex(content, value)
  return is_kind(value, "complex") and same_number(value.re, float_of(content[1]))
    and same_number(value.im, float_of(content[2]))
end

function MATCH.unsent(content, value)
  return is_kind(value, "unsent") and value.repr == content.repr and value.type == content.type
end

function MATCH.autoreset(content, value)
  return is_kind(value, "autoreset") and value.mode == content
end

function MATCH.space(content, value)
  return is_kind(value, "space") and models.same_tree(content, value:describe(), true)
end

--- Return whether two trees of JSON are the same.
-- @tparam boolean loose members in any order, and 1 the same as 1.0
function models.same_tree(a, b, loose)
  if type(a) == "number" and type(b) == "number" then
    return same_number(a, b) and (loose or not math_type or math_type(a) == math_type(b))
  elseif type(a) ~= "table" or type(b) ~= "table" or a == gym.null or b == gym.null
    or integers.is_large(a) or integers.is_large(b) then
    return a == b
  elseif gym.kind(a) ~= gym.kind(b) then
    return false
  elseif gym.kind(a) == "list" then
    for index = 1, math.max(#a, #b) do
      if a[index] == nil or b[index] == nil or not models.same_tree(a[index], b[index], loose) then
        return false
      end
    end
    return true
  end
  local keys, others = gym.keys(a), gym.keys(b)
  for index, key in ipairs(keys) do
    if not loose and others[index] ~= key or b[key] == nil
      or not models.same_tree(a[key], b[key], loose) then
      return false
    end
  end
  return #keys == #others
end

return models
