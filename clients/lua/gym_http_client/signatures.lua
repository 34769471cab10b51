--- Signatures: what a value consists of, compiled into a function that reads it.
-- @module gym_http_client.signatures
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local integers = require("gym_http_client.integers")
local json = require("gym_http_client.json")
local keys = require("gym_http_client.keys")
local kinds = require("gym_http_client.kinds")
local refusal = require("gym_http_client.refusal")
local scalars = require("gym_http_client.scalars")
local text = require("gym_http_client.text")
local typed = require("gym_http_client.typed")
local words = require("gym_http_client.words")

local signatures = {}

local refuse = refusal.refuse
local null = kinds.null
local u32, i64, f64 = words.u32, words.i64, words.f64

--- Bytes that a signature may have.
signatures.MAX_BYTES = 1048576

local ZEROS = { [0] = "" }
for count = 1, 7 do
  ZEROS[count] = ("\0"):rep(count)
end

-- A node reads a part of a value at a position, counted from 1, and gives it and the
-- position behind it.

local function too_short()
  refuse("ends too early")
end

-- Where the leaf behind one of this size begins; both are checked.
local function behind(data, at, size)
  local padding = -size % 8
  local stop = at + size
  if stop + padding > #data + 1 then
    refuse("needs %d bytes at byte %d, but they end before", size, at - 1)
  end
  if padding > 0 and data:sub(stop, stop + padding - 1) ~= ZEROS[padding] then
    refuse("has padding at byte %d that is not zero", stop - 1)
  end
  return stop + padding
end

local function varying(data, at)
  if at + 7 > #data then
    too_short()
  end
  local size, high = u32(data, at), u32(data, at + 4)
  if high ~= 0 then
    refuse("needs more bytes at byte %d than there can be", at + 7)
  end
  local after = behind(data, at + 8, size)
  return data:sub(at + 8, at + 7 + size), after
end

local LEAVES = {}

function LEAVES.none(_, at)
  return null, at
end

function LEAVES.bool(data, at)
  if at + 7 > #data then
    too_short()
  end
  local flag = u32(data, at)
  if flag > 1 or u32(data, at + 4) ~= 0 then
    refuse("is neither true (1) nor false (0)")
  end
  return flag == 1, at + 8
end

function LEAVES.int(data, at)
  if at + 7 > #data then
    too_short()
  end
  return i64(data, at), at + 8
end

function LEAVES.float(data, at)
  if at + 7 > #data then
    too_short()
  end
  return f64(data, at), at + 8
end

function LEAVES.bigint(data, at)
  local digits, after = varying(data, at)
  local value = integers.parse(digits)
  return value or refuse("is no integer: %s", refusal.elided(digits)), after
end

function LEAVES.str(data, at)
  local value, after = varying(data, at)
  if not text.check(value) then
    refuse("is not written in UTF-8")
  end
  return value, after
end

function LEAVES.bytes(data, at)
  local value, after = varying(data, at)
  return kinds.bytes(value), after
end

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
    local after = behind(data, at, size)
    return arrays.read(dtype, shape, count, data, at, raw), after
  end
end

function TAGS.ns(content)
  local dtype = dtypes.read(content)
  return function(data, at)
    local after = behind(data, at, dtype.bytes)
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
  if type(tree) == "string" and LEAVES[tree] then
    return LEAVES[tree]
  elseif type(tree) == "table" and kinds.of(tree) == "dict" then
    local names = kinds.keys(tree)
    local tag = names[1]
    if #names == 1 and TAGS[tag] then
      return TAGS[tag](tree[tag], depth, raw)
    end
  end
  return refuse("has a signature that is none of ours: %s", refusal.elided(tree))
end

--- Compile a signature into a function that reads the leaves that it tells of.
-- @tparam string signature
-- @tparam[opt] boolean raw give arrays as their bytes
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
