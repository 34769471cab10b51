--- Write values as plain JSON, as people write it: arrays are nested lists.
-- @module gym_http_client.plain
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local elements = require("gym_http_client.elements")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local numbers = require("gym_http_client.numbers")
local text = require("gym_http_client.text")

local plain = {}

local write

-- The shortest decimal that is this number once it is rounded to the dtype.
local function short_float(number, dtype)
  if dtype.bytes == 8 then
    return numbers.float_text(number)
  end
  local bytes = elements.write(dtype, { number }, 1)
  for digits = 1, 9 do
    local shown = ("%." .. digits .. "g"):format(number):gsub(",", ".")
    if elements.write(dtype, { tonumber(shown) }, 1) == bytes then
      return shown:find("[.e]") and shown or shown .. ".0"
    end
  end
  return numbers.float_text(number)
end

local function write_number(number, dtype)
  if not numbers.is_finite(number) then
    usage.raise("plain JSON has no NaN and no infinity")
  elseif dtype and dtype.kind == "f" then
    return short_float(number, dtype)
  end
  return numbers.text(number)
end

local function write_element(value, dtype)
  if type(value) == "number" then
    return write_number(value, dtype)
  end
  return write(value)
end

local function write_axis(array, axis, at, dtype)
  local size = array.shape[axis]
  if not size then
    return write_element(array[at], dtype)
  end
  local step = 1
  for index = axis + 1, #array.shape do
    step = step * array.shape[index]
  end
  local parts = {}
  for index = 1, size do
    parts[index] = write_axis(array, axis + 1, at + (index - 1) * step, dtype)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function write_items(items)
  local parts = {}
  for index, item in ipairs(items) do
    parts[index] = write(item)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function write_members(entries)
  local parts = {}
  for index, entry in ipairs(entries) do
    parts[index] = json.quote(tostring(entry[1])) .. ":" .. write(entry[2])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local KINDS = { list = write_items, tuple = write_items }

function KINDS.null() return "null" end

function KINDS.integer(value) return value.digits end

function KINDS.array(value)
  if value.data then
    local dtype = assert(dtypes.find(value.dtype), "an array of no dtype")
    local count = arrays.count(value.shape)
    value = arrays.read(dtype, value.shape, count, value.data, 1)
  end
  return write_axis(value, 1, 1, dtypes.find(value.dtype))
end

function KINDS.objects(value) return write_axis(value, 1, 1) end

function KINDS.scalar(value) return write_element(value.value, dtypes.find(value.dtype)) end

function KINDS.float(value)
  if value.bits then
    usage.raise("plain JSON has no floats of bits")
  elseif not numbers.is_finite(value.number) then
    return write_number(value.number)
  end
  return numbers.float_text(value.number)
end

function KINDS.mapping(value) return write_members(value.entries) end

function KINDS.graph(value)
  return write_members({
    { "nodes", value.nodes },
    { "edges", value.edges == nil and kinds.null or value.edges },
    { "edge_links", value.edge_links == nil and kinds.null or value.edge_links },
  })
end

function KINDS.space(value) return json.write(value:describe()) end

function KINDS.dict(value)
  local entries = {}
  for index, key in ipairs(kinds.keys(value)) do
    entries[index] = { key, value[key] }
  end
  return write_members(entries)
end

function write(value)
  local kind = type(value)
  if kind == "number" then
    return write_number(value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "string" then
    if not text.is_unicode(value) then
      usage.raise("plain JSON has no strings but those in UTF-8")
    end
    return json.quote(value)
  elseif kind == "table" then
    local writer = KINDS[kinds.of(value)]
    if writer then
      return writer(value)
    end
  end
  usage.raise("plain JSON cannot represent a %s", kind)
end

--- Write a value.
plain.encode = write

return plain
