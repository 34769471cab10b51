--- Dict, Tuple and OneOf: spaces of several spaces.
-- @module gym_http_client.spaces.containers
local base = require("gym_http_client.spaces.base")
local drawing = require("gym_http_client.spaces.drawing")
local fields = require("gym_http_client.spaces.fields")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local function list_of(description, field)
  local value = description[field]
  if type(value) ~= "table" or kinds.of(value) ~= "list" and next(value) ~= nil
    or value == kinds.null then
    fields.refuse(description, field, "a list")
  end
  return value
end

local function is_sequence(value)
  local kind = type(value) == "table" and kinds.of(value)
  return kind == "list" or kind == "tuple" or (kind == "dict" and next(value) == nil)
end

local Dict, dict = base.class("Dict")

function base.readers.Dict(description, depth)
  local keys, spaces, seen = {}, {}, {}
  for index, pair in ipairs(list_of(description, "spaces")) do
    local key = type(pair) == "table" and #pair == 2 and pair[1]
    if type(key) ~= "string" and not integers.is_integer(key) or seen[key] then
      fields.refuse(description, "spaces", "pairs of a key not used before and a space")
    end
    seen[key], keys[index], spaces[index] = true, key, base.read(pair[2], depth + 1)
  end
  local sorts = description.sort_keys
  if sorts ~= nil and type(sorts) ~= "boolean" then
    fields.refuse(description, "sort_keys", "true or false")
  end
  local self = { description = description, keys = keys, spaces = spaces }
  return setmetatable(self, Dict)
end

--- Return the space under a key.
function dict:get(key)
  for index, each in ipairs(self.keys) do
    if each == key then
      return self.spaces[index]
    end
  end
  return nil
end

local function count_members(value, kind)
  if kind == "mapping" then
    return #value.entries
  end
  local count = 0
  for _ in pairs(value) do
    count = count + 1
  end
  return count
end

--- Whether a value is an element: a table with just these keys.
function dict:contains(value)
  local kind = type(value) == "table" and kinds.of(value)
  if kind ~= "dict" and kind ~= "mapping" and not (kind == "list" and self.keys[1] == 1) then
    return false
  elseif count_members(value, kind) ~= #self.keys then
    return false
  end
  for index, key in ipairs(self.keys) do
    if value[key] == nil or not self.spaces[index]:contains(value[key]) then
      return false
    end
  end
  return true
end

--- Draw an element of each space.
function dict:sample(rng)
  local entries = {}
  for index, key in ipairs(self.keys) do
    entries[index] = { key, self.spaces[index]:sample(rng) }
  end
  return kinds.dict(entries)
end

--- Make an element of plain JSON, in which all keys are strings.
function dict:read_plain(tree)
  local entries = {}
  for index, key in ipairs(self.keys) do
    local inner = type(tree) == "table" and tree[tostring(key)]
    if inner == nil then
      malformed.refuse("is no object with the key %s", tostring(key))
    end
    entries[index] = { key, self.spaces[index]:read_plain(inner) }
  end
  return kinds.dict(entries)
end

local function read_members(description, depth)
  local spaces = {}
  for index, inner in ipairs(list_of(description, "spaces")) do
    spaces[index] = base.read(inner, depth + 1)
  end
  return { description = description, spaces = spaces }
end

local Tuple, tuple = base.class("Tuple")

function base.readers.Tuple(description, depth)
  return setmetatable(read_members(description, depth), Tuple)
end

--- Whether a value is an element: a table with one element of each space.
function tuple:contains(value)
  if not is_sequence(value) or #value ~= #self.spaces then
    return false
  end
  for index, space in ipairs(self.spaces) do
    if not space:contains(value[index]) then
      return false
    end
  end
  return true
end

--- Draw an element of each space.
function tuple:sample(rng)
  local items = {}
  for index, space in ipairs(self.spaces) do
    items[index] = space:sample(rng)
  end
  return kinds.tuple(items)
end

--- Make an element of plain JSON.
function tuple:read_plain(tree)
  if not is_sequence(tree) or #tree ~= #self.spaces then
    malformed.refuse("is no list of %d", #self.spaces)
  end
  local items = {}
  for index, space in ipairs(self.spaces) do
    items[index] = space:read_plain(tree[index])
  end
  return kinds.tuple(items)
end

local OneOf, one_of = base.class("OneOf")

function base.readers.OneOf(description, depth)
  local self = read_members(description, depth)
  if #self.spaces == 0 then
    fields.refuse(description, "spaces", "a list of one space at least")
  end
  return setmetatable(self, OneOf)
end

--- Whether a value is an element: the index of a space, from 0 on, and an element of it.
function one_of:contains(value)
  if not is_sequence(value) or #value ~= 2 then
    return false
  end
  local index = value[1]
  if type(index) == "table" and kinds.of(index) == "scalar" then
    index = index.value
  end
  local space = type(index) == "number" and self.spaces[index + 1]
  return space ~= nil and space ~= false and space:contains(value[2])
end

--- Draw one of the spaces, and an element of it.
function one_of:sample(rng)
  local index = drawing.below(base.generator(rng), #self.spaces)
  return kinds.tuple({ index, self.spaces[index + 1]:sample(rng) })
end

--- Make an element of plain JSON.
function one_of:read_plain(tree)
  local space = is_sequence(tree) and type(tree[1]) == "number" and self.spaces[tree[1] + 1]
  if not space then
    malformed.refuse("is no list of an index and an element")
  end
  return kinds.tuple({ tree[1], space:read_plain(tree[2]) })
end

return { Dict = Dict, Tuple = Tuple, OneOf = OneOf }
