--- Signatures, compiled into functions that read their leaves.
-- @module gym_http_client.signatures
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local json = require("gym_http_client.json")
local keys = require("gym_http_client.keys")
local kinds = require("gym_http_client.kinds")
local leaves = require("gym_http_client.leaves")
local malformed = require("gym_http_client.malformed")
local scalars = require("gym_http_client.scalars")
local typed = require("gym_http_client.typed")

local signatures = {}

local refuse = malformed.refuse

--- Bytes that a signature may have.
signatures.MAX_BYTES = 1048576

local compile

local function compile_items(trees, depth, raw)
  typed.check_depth(depth)
  local nodes = {}
  for index, tree in ipairs(typed.list_of(trees)) do
    nodes[index] = compile(tree, depth + 1, raw)
  end
  return nodes
end

local function sequence(trees, depth, raw, meta)
  local nodes = compile_items(trees, depth, raw)
  local count = #nodes
  return function(data, at)
    local items = {}
    for index = 1, count do
      items[index], at = nodes[index](data, at)
    end
    return setmetatable(items, meta), at
  end
end

local TAGS = {}

function TAGS.list(content, depth, raw)
  return sequence(content, depth, raw, kinds.List)
end

function TAGS.tuple(content, depth, raw)
  return sequence(content, depth, raw, kinds.Tuple)
end

local function named_members(names, nodes)
  local count, meta = #names, kinds.ordered(names)
  return function(data, at)
    local members = {}
    for index = 1, count do
      members[names[index]], at = nodes[index](data, at)
    end
    return setmetatable(members, meta), at
  end
end

function TAGS.dict(content, depth, raw)
  typed.check_depth(depth)
  local names, nodes = {}, {}
  for index, pair in ipairs(typed.list_of(content)) do
    typed.list_of(pair, 2)
    names[index] = typed.read_key(pair[1], depth + 1)
    nodes[index] = compile(pair[2], depth + 1, raw)
  end
  keys.check_distinct(names)
  if keys.are_strings(names) then
    return named_members(names, nodes)
  end
  return function(data, at)
    local entries = {}
    for index = 1, #nodes do
      local value
      value, at = nodes[index](data, at)
      entries[index] = { names[index], value }
    end
    return kinds.dict(entries), at
  end
end

function TAGS.nd(content, _, raw)
  typed.list_of(content, 2)
  local dtype, shape = dtypes.read(content[1]), content[2]
  local count = dtypes.count(shape, dtype.bytes)
  local size = count * dtype.bytes
  return function(data, at)
    local after = leaves.behind(data, at, size)
    return arrays.read(dtype, shape, count, data, at, raw), after
  end
end

function TAGS.ns(content)
  local dtype = dtypes.read(content)
  return function(data, at)
    local after = leaves.behind(data, at, dtype.bytes)
    return scalars.read(dtype, data, at), after
  end
end

function TAGS.oa(content, depth, raw)
  typed.list_of(content, 2)
  local shape = content[1]
  local nodes = compile_items(content[2], depth, raw)
  if dtypes.count(shape, 8) ~= #nodes then
    refuse("needs as many items as its shape has")
  end
  return function(data, at)
    local items = { shape = shape, dtype = "object" }
    for index = 1, #nodes do
      items[index], at = nodes[index](data, at)
    end
    return setmetatable(items, kinds.Objects), at
  end
end

function TAGS.graph(content, depth, raw)
  typed.list_of(content, 3)
  local nodes = compile_items(content, depth, raw)
  return function(data, at)
    local parts = {}
    for index = 1, 3 do
      parts[index], at = nodes[index](data, at)
    end
    return kinds.graph(parts[1], parts[2], parts[3]), at
  end
end

function TAGS.autoreset(content)
  local mode = typed.read_mode(content)
  return function(_, at) return mode, at end
end

function TAGS.space(content)
  local space = typed.read_space(content)
  return function(_, at) return space, at end
end

function compile(tree, depth, raw)
  if type(tree) == "string" and leaves.readers[tree] then
    return leaves.readers[tree]
  elseif type(tree) == "table" and kinds.of(tree) == "dict" then
    local names = kinds.keys(tree)
    local tag = names[1]
    if #names == 1 and TAGS[tag] then
      return TAGS[tag](tree[tag], depth, raw)
    end
  end
  return refuse("has an unknown signature: %s", malformed.elided(tree))
end

--- Compile a signature into a function that reads its leaves.
-- @tparam string signature
-- @tparam[opt] boolean raw return arrays as their bytes
-- @treturn function of the bytes and the position where the leaves begin, counted from
-- 1; they must go to the end
function signatures.compile(signature, raw)
  if #signature > signatures.MAX_BYTES then
    refuse("has a signature of more than %d bytes", signatures.MAX_BYTES)
  end
  local node = compile(json.read(signature), 1, raw)
  return function(data, at)
    local value, stop = node(data, at)
    if stop ~= #data + 1 then
      refuse("ends at byte %d of %d", stop - 1, #data)
    end
    return value
  end
end

return signatures
