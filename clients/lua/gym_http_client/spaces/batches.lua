--- Several elements of a space in one: arrays with one axis more in front.
-- @module gym_http_client.spaces.batches
local arrays = require("gym_http_client.arrays")
local kinds = require("gym_http_client.kinds")

local batches = {}

local NUMERIC = { Box = true, Discrete = true, MultiBinary = true, MultiDiscrete = true }

local function stack_numbers(space, elements)
  local shape, items = { #elements }, { dtype = space.dtype }
  for _, size in ipairs(space.shape or {}) do
    shape[#shape + 1] = size
  end
  for _, element in ipairs(elements) do
    if type(element) ~= "table" or kinds.of(element) ~= "array" then
      items[#items + 1] = element
    else
      for index = 1, arrays.count(element.shape) do
        items[#items + 1] = element[index]
      end
    end
  end
  items.shape = shape
  return setmetatable(items, kinds.Array)
end

local function column(elements, key)
  local items = {}
  for index, element in ipairs(elements) do
    items[index] = element[key]
  end
  return items
end

--- Stack elements of a space.
function batches.stack(space, elements)
  if NUMERIC[space.type] then
    return stack_numbers(space, elements)
  elseif space.type == "Dict" then
    local entries = {}
    for index, key in ipairs(space.keys) do
      entries[index] = { key, batches.stack(space.spaces[index], column(elements, key)) }
    end
    return kinds.dict(entries)
  elseif space.type == "Tuple" then
    local items = {}
    for index, inner in ipairs(space.spaces) do
      items[index] = batches.stack(inner, column(elements, index))
    end
    return kinds.tuple(items)
  end
  return kinds.tuple(elements)
end

local function rows_of(space, value)
  if type(value) ~= "table" or kinds.of(value) ~= "array"
    or #value.shape ~= 1 + #(space.shape or {}) then
    return nil
  end
  local rows = arrays.rows(value)
  if space.type == "Discrete" then
    for index, row in ipairs(rows) do
      rows[index] = row[1]
    end
  end
  return rows
end

local function transposed(columns, keys, finish)
  local elements = {}
  local count = columns[1] and #columns[1] or 0
  for row = 1, count do
    local entries = {}
    for index, key in ipairs(keys) do
      if columns[index][row] == nil then
        return nil
      end
      entries[index] = { key, columns[index][row] }
    end
    elements[row] = finish(entries)
  end
  return elements
end

local function tuple_of(entries)
  local items = {}
  for index, entry in ipairs(entries) do
    items[index] = entry[2]
  end
  return kinds.tuple(items)
end

--- List the elements that are stacked in a value; nil where it is no such value.
function batches.unstack(space, value)
  if NUMERIC[space.type] then
    return rows_of(space, value)
  elseif type(value) ~= "table" then
    return nil
  elseif space.type == "Dict" or space.type == "Tuple" then
    local columns, keys = {}, space.keys
    if not keys then
      keys = {}
      for index = 1, #space.spaces do
        keys[index] = index
      end
    end
    for index, key in ipairs(keys) do
      columns[index] = value[key] ~= nil and batches.unstack(space.spaces[index], value[key])
      if not columns[index] then
        return nil
      end
    end
    return transposed(columns, keys, space.keys and kinds.dict or tuple_of)
  end
  return value
end

return batches
