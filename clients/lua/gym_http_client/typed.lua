--- Values as typed JSON: natives where JSON has them, else an object with a `$t`.
-- @module gym_http_client.typed
local arrays = require("gym_http_client.arrays")
local base64 = require("gym_http_client.base64")
local dtypes = require("gym_http_client.dtypes")
local integers = require("gym_http_client.integers")
local json = require("gym_http_client.json")
local keys = require("gym_http_client.keys")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")
local scalars = require("gym_http_client.scalars")
local text = require("gym_http_client.text")

local typed = {}

local refuse, elided = malformed.refuse, malformed.elided
local null = kinds.null

--- Levels that lists, tuples, dicts and the like may be nested.
typed.MAX_DEPTH = 64

local MODES = { NextStep = true, SameStep = true, Disabled = true }
local SPECIAL = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

local read

--- Refuse a list, tuple, dict or the like that is too deep.
function typed.check_depth(depth)
  if depth > typed.MAX_DEPTH then
    refuse("is nested deeper than %d levels", typed.MAX_DEPTH)
  end
end

--- Return a list; refuses other values.
function typed.list_of(tree, size)
  if type(tree) ~= "table" or kinds.of(tree) ~= "list" or (size and #tree ~= size) then
    refuse(size and ("needs a list of " .. size) or "needs a list")
  end
  return tree
end

--- Refuse the name of no mode of autoreset.
function typed.read_mode(name)
  if type(name) ~= "string" or not MODES[name] then
    refuse("is no mode of autoreset: %s", elided(name))
  end
  return kinds.autoreset(name)
end

local function read_base64(value, size)
  local data = type(value) == "string" and base64.decode(value)
  if not data then
    refuse("needs base64: %s", elided(value))
  elseif size and #data ~= size then
    refuse("needs the base64 of %d bytes", size)
  end
  return data
end

local function read_items(trees, depth, raw)
  typed.check_depth(depth)
  local items = {}
  for index, tree in ipairs(typed.list_of(trees)) do
    items[index] = read(tree, depth + 1, raw)
  end
  return items
end

local function read_pairs(tree, depth, raw)
  typed.check_depth(depth)
  local entries, names = {}, {}
  for index, pair in ipairs(typed.list_of(tree.v)) do
    typed.list_of(pair, 2)
    names[index] = typed.read_key(pair[1], depth + 1)
    entries[index] = { names[index], read(pair[2], depth + 1, raw) }
  end
  keys.check_distinct(names)
  return kinds.dict(entries)
end

local function read_float(tree)
  local value = tree.v
  if type(value) ~= "string" then
    refuse("is no float: %s", elided(value))
  end
  local number = SPECIAL[value]
  if number then
    return number
  end
  if #value ~= 16 or value:find("[^0-9a-f]") then
    refuse("is no float: %s", elided(value))
  end
  return scalars.float_of_bits(value)
end

local function read_str(tree)
  local data = read_base64(tree.v)
  if not text.check(data) then
    refuse("is not written in UTF-8")
  end
  return data
end

local function read_array(tree, _, raw)
  local dtype = dtypes.read(tree.d)
  local count = dtypes.count(tree.s, dtype.bytes)
  local data = read_base64(tree.v, count * dtype.bytes)
  return arrays.read(dtype, tree.s, count, data, 1, raw)
end

local function read_objects(tree, depth, raw)
  if #typed.list_of(tree.v) ~= dtypes.count(tree.s, 8) then
    refuse("needs as many items as its shape has")
  end
  local items = read_items(tree.v, depth, raw)
  items.shape, items.dtype = tree.s, "object"
  return setmetatable(items, kinds.Objects)
end

local function pair_of(tree, kind)
  local items = typed.list_of(tree.v, 2)
  local first, second = read(items[1], 1), read(items[2], 1)
  if type(first) ~= kind or type(second) ~= kind then
    refuse("needs two of the type %s: %s", kind, elided(tree))
  end
  return first, second
end

local READERS = {
  int = { "v", function(tree)
    local value = type(tree.v) == "string" and integers.parse(tree.v)
    return value or refuse("is no integer: %s", elided(tree.v))
  end },
  float = { "v", read_float },
  complex = { "v", function(tree) return kinds.complex(pair_of(tree, "number")) end },
  str = { "v", read_str },
  bytes = { "v", function(tree) return kinds.bytes(read_base64(tree.v)) end },
  tuple = { "v", function(tree, depth, raw)
    return kinds.tuple(read_items(tree.v, depth, raw))
  end },
  dict = { "v", read_pairs },
  nd = { "d s v", read_array },
  ns = { "d v", function(tree)
    local dtype = dtypes.read(tree.d)
    return scalars.read(dtype, read_base64(tree.v, dtype.bytes), 1)
  end },
  oa = { "s v", read_objects },
  graph = { "nodes edges edge_links", function(tree, depth, raw)
    typed.check_depth(depth)
    return kinds.graph(read(tree.nodes, depth + 1, raw), read(tree.edges, depth + 1, raw),
      read(tree.edge_links, depth + 1, raw))
  end },
  autoreset = { "v", function(tree) return typed.read_mode(tree.v) end },
  space = { "v", function(tree) return typed.read_space(tree.v) end },
  unsent = { "v", function(tree) return kinds.unsent(pair_of(tree, "string")) end },
}

local function check_fields(tag, fields, tree)
  local count = 1
  for field in fields:gmatch("%S+") do
    if tree[field] == nil then
      refuse('is a "%s" without the field %s', tag, field)
    end
    count = count + 1
  end
  if #kinds.keys(tree) ~= count then
    refuse('is a "%s" with fields that it must not have', tag)
  end
end

-- Make the value that a tree so many levels deep stands for.
function read(tree, depth, raw)
  if type(tree) ~= "table" or tree == null or integers.is_large(tree) then
    return tree
  elseif kinds.of(tree) == "list" then
    return kinds.list(read_items(tree, depth, raw))
  end
  local tag = tree["$t"]
  if tag == nil then
    typed.check_depth(depth)
    local members = {}
    for key, member in pairs(tree) do
      members[key] = read(member, depth + 1, raw)
    end
    return setmetatable(members, kinds.ordered(getmetatable(tree).order))
  end
  local known = type(tag) == "string" and READERS[tag]
  if not known then
    refuse("has an unknown $t: %s", elided(tag))
  end
  check_fields(tag, known[1], tree)
  return known[2](tree, depth, raw)
end

--- Make the key of a dict that a tree stands for.
function typed.read_key(tree, depth)
  keys.check(tree)
  return read(tree, depth)
end

--- Decode a value; refuses malformed text.
-- @tparam string source
-- @tparam[opt] boolean raw return arrays as their bytes
function typed.decode(source, raw)
  return read(json.read(source), 1, raw)
end

--- Set by the spaces, which know values themselves.
function typed.read_space()
  error("the spaces are not loaded")
end

return typed
