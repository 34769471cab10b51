--- Kinds of values that Lua's own types do not distinguish.
--
-- A table without a metatable is a list if it has an item 1, otherwise a dict. Other
-- values have one of the metatables of this module, with the kind in `__kind`.
-- @module gym_http_client.kinds
local integers = require("gym_http_client.integers")
local usage = require("gym_http_client.usage")
local platform = require("gym_http_client.platform")

local kinds = {}

local math_type = platform.math_type

local function named(kind)
  return { __kind = kind }
end

--- Represents Python's None and JSON's null; equals only itself.
kinds.null = setmetatable({}, { __kind = "null", __tostring = function() return "null" end })

kinds.List = named("list")
kinds.Tuple = named("tuple")
kinds.Graph = named("graph")
kinds.Array = named("array")
kinds.Objects = named("objects")

local Float = named("float")
function Float:__tostring()
  return self.bits and ("nan:" .. self.bits) or tostring(self.number)
end

local Scalar = named("scalar")
function Scalar:__tostring()
  return tostring(self.value)
end

local Bytes = named("bytes")
function Bytes:__tostring()
  return self.data
end

local Complex = named("complex")
function Complex:__tostring()
  return ("complex(%s, %s)"):format(self.re, self.im)
end

local Unsent = named("unsent")
function Unsent:__tostring()
  return self.repr
end

local Autoreset = named("autoreset")
function Autoreset:__tostring()
  return self.mode
end

local Mapping = named("mapping")
local mapping_methods = {}

-- Also by the key itself, as of any table, where that cannot be a method's name.
function Mapping:__index(key)
  local method = mapping_methods[key]
  if method ~= nil or key == "entries" then
    return method
  end
  return mapping_methods.get(self, key)
end

function mapping_methods:get(key)
  for _, entry in ipairs(rawget(self, "entries")) do
    if entry[1] == key then
      return entry[2]
    end
  end
  return nil
end

--- Return the kind of a table: `"list"`, `"dict"`, `"array"` and so on.
function kinds.of(value)
  local meta = getmetatable(value)
  local kind = meta and meta.__kind
  if kind then
    return kind
  elseif value.dtype ~= nil and value.shape ~= nil and value.type == nil then
    return "array" -- and not the description of a space
  end
  return value[1] ~= nil and "list" or "dict"
end

-- Plain JSON has other values, or none, for those of these kinds.
local EXACT = {
  array = true, autoreset = true, bytes = true, float = true, graph = true, scalar = true,
  tuple = true,
}

--- Return whether plain JSON would change a value, or a value in it.
function kinds.is_exact(value)
  if type(value) == "number" then
    return value ~= value or value == math.huge or value == -math.huge
  elseif type(value) ~= "table" then
    return false
  end
  local kind = kinds.of(value)
  if EXACT[kind] or rawget(value, "entries") and kind == "dict" then
    return true
  elseif kind == "list" or kind == "dict" then
    for _, item in pairs(value) do
      if kinds.is_exact(item) then
        return true
      end
    end
  end
  return false
end

--- A list, also of a table that is empty.
function kinds.list(items)
  return setmetatable(items, kinds.List)
end

--- A tuple.
function kinds.tuple(items)
  return setmetatable(items, kinds.Tuple)
end

--- A float, also for a number such as 1 that this interpreter would send as an integer.
-- A string of 16 hex digits, the most significant first, has the bits of one.
function kinds.float(number)
  if type(number) == "string" then
    if #number ~= 16 or not number:match("^%x+$") then
      usage.raise("gym.float: the bits of one are 16 hex digits")
    end
    return setmetatable({ bits = number:lower() }, Float)
  elseif math_type then
    return number * 1.0
  end
  return setmetatable({ number = number }, Float)
end

--- An integer, of a number or of decimal digits.
function kinds.integer(value)
  local digits = value
  if type(value) == "number" then
    if value % 1 ~= 0 then
      usage.raise("gym.integer: not an integer: %s", tostring(value))
    end
    digits = ("%.0f"):format(value)
    if math_type and math_type(value) == "integer" then
      return value
    end
  end
  local integer = integers.is_large(value) and value or integers.parse(tostring(digits))
  return integer or usage.raise("gym.integer: not an integer: %s", tostring(value))
end

--- Bytes, where a plain string would be sent as text.
function kinds.bytes(data)
  return setmetatable({ data = data }, Bytes)
end

--- A NumPy scalar of a dtype, as `gym.scalar("float32", 1.5)`.
function kinds.scalar(dtype, value)
  return setmetatable({ dtype = dtype, value = value }, Scalar)
end

--- Python's complex number.
function kinds.complex(re, im)
  return setmetatable({ re = re, im = im }, Complex)
end

--- What stands for a value of an info that cannot be sent.
function kinds.unsent(repr, type_name)
  return setmetatable({ repr = repr, type = type_name }, Unsent)
end

--- One of Gymnasium's modes of autoreset, by its name.
function kinds.autoreset(mode)
  return setmetatable({ mode = mode }, Autoreset)
end

--- The element of a Graph space.
function kinds.graph(nodes, edges, edge_links)
  local parts = { nodes = nodes, edges = edges, edge_links = edge_links }
  return setmetatable(parts, kinds.Graph)
end

--- A metatable for dicts whose keys, all of them strings, have this order.
function kinds.ordered(keys)
  return { __kind = "dict", order = keys }
end

--- A dict of pairs `{key, value}`, in their order.
-- With strings for keys it is a plain table, else one with `entries` and `get(key)`.
function kinds.dict(pairs_of_it)
  local keys, members, seen = {}, {}, {}
  for index, pair in ipairs(pairs_of_it) do
    local key = pair[1]
    if type(key) ~= "string" then
      return setmetatable({ entries = pairs_of_it }, Mapping)
    elseif seen[key] then
      usage.raise("gym.dict: the key %s is there twice", key)
    end
    seen[key], keys[index], members[key] = true, key, pair[2]
  end
  return setmetatable(members, kinds.ordered(keys))
end

local function by_name(a, b)
  return a < b
end

--- List the keys of a dict in its order; keys that were added later are sorted at its end.
function kinds.keys(dict)
  local meta = getmetatable(dict)
  local order = meta and meta.order or {}
  local known, keys, more = {}, {}, {}
  for _, key in ipairs(order) do
    known[key] = true
    if dict[key] ~= nil then
      keys[#keys + 1] = key
    end
  end
  for key in pairs(dict) do
    if not known[key] then
      if type(key) ~= "string" then
        usage.raise("a table with a key that is no string is sent by gym.dict: %s",
          tostring(key))
      end
      more[#more + 1] = key
    end
  end
  table.sort(more, by_name)
  for _, key in ipairs(more) do
    keys[#keys + 1] = key
  end
  return keys
end

return kinds
