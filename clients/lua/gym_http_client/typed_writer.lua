--- Write values as typed JSON.
-- @module gym_http_client.typed_writer
local arrays = require("gym_http_client.arrays")
local base64 = require("gym_http_client.base64")
local dtypes = require("gym_http_client.dtypes")
local integers = require("gym_http_client.integers")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local numbers = require("gym_http_client.numbers")
local platform = require("gym_http_client.platform")
local scalars = require("gym_http_client.scalars")
local text = require("gym_http_client.text")

local typed_writer = {}

local MAX_EXACT = platform.MAX_EXACT

local write

local function tagged(tag, ...)
  local parts = { '{"$t":"' .. tag .. '"' }
  for index = 1, select("#", ...), 2 do
    local name, content = select(index, ...)
    parts[#parts + 1] = ('"%s":%s'):format(name, content)
  end
  return table.concat(parts, ",") .. "}"
end

local function write_items(items)
  local parts = {}
  for index, item in ipairs(items) do
    parts[index] = write(item)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function write_bytes(data)
  return '"' .. base64.encode(data) .. '"'
end

local function write_special(number)
  local name = number ~= number and "nan" or number > 0 and "inf" or "-inf"
  return tagged("float", "v", '"' .. name .. '"')
end

local function write_number(number)
  if not numbers.is_finite(number) then
    return write_special(number)
  elseif integers.is_integer(number) then
    local digits = integers.digits(number)
    if number > MAX_EXACT or number < -MAX_EXACT then
      return tagged("int", "v", '"' .. digits .. '"')
    end
    return digits
  end
  return numbers.float_text(number)
end

local function write_string(value)
  local ok, surrogates = text.check(value)
  if not ok then
    usage.raise("a string that is not UTF-8 is sent by gym.bytes")
  end
  return surrogates and tagged("str", "v", write_bytes(value)) or json.quote(value)
end

local function write_shape(shape)
  return json.write(kinds.list({ platform.unpack(shape) }))
end

local function write_pairs(entries)
  local parts = {}
  for index, entry in ipairs(entries) do
    parts[index] = "[" .. write(entry[1]) .. "," .. write(entry[2]) .. "]"
  end
  return tagged("dict", "v", "[" .. table.concat(parts, ",") .. "]")
end

local KINDS = {}

function KINDS.null() return "null" end

function KINDS.integer(value) return tagged("int", "v", '"' .. value.digits .. '"') end

function KINDS.bytes(value) return tagged("bytes", "v", write_bytes(value.data)) end

function KINDS.list(value) return write_items(value) end

function KINDS.tuple(value) return tagged("tuple", "v", write_items(value)) end

function KINDS.mapping(value) return write_pairs(value.entries) end

function KINDS.autoreset(value) return tagged("autoreset", "v", '"' .. value.mode .. '"') end

function KINDS.space(value) return tagged("space", "v", json.write(value:describe())) end

local function write_float(number)
  return numbers.is_finite(number) and numbers.float_text(number) or write_special(number)
end

function KINDS.complex(value)
  return tagged("complex", "v", ("[%s,%s]"):format(write_float(value.re), write_float(value.im)))
end

function KINDS.unsent(value)
  return tagged("unsent", "v",
    ("[%s,%s]"):format(write_string(value.repr), write_string(value.type)))
end

function KINDS.float(value)
  if not value.bits then
    return write_float(value.number)
  end
  local number = scalars.float_of_bits(value.bits)
  if number == number then
    return write_float(number)
  elseif value.bits == "7ff8000000000000" then
    return write_special(number)
  end
  return tagged("float", "v", '"' .. value.bits .. '"')
end

function KINDS.array(value)
  local data, dtype = arrays.bytes(value)
  return tagged("nd", "d", '"' .. dtype.wire .. '"', "s", write_shape(value.shape),
    "v", write_bytes(data))
end

function KINDS.scalar(value)
  local dtype = dtypes.find(value.dtype) or usage.raise("no dtype: %s", tostring(value.dtype))
  return tagged("ns", "d", '"' .. dtype.wire .. '"',
    "v", write_bytes(scalars.bytes(dtype, value.value)))
end

function KINDS.objects(value)
  return tagged("oa", "s", write_shape(value.shape), "v", write_items(value))
end

function KINDS.graph(value)
  return tagged("graph", "nodes", write(value.nodes), "edges", write(value.edges),
    "edge_links", write(value.edge_links))
end

function KINDS.dict(value)
  local names, entries, parts, plain = kinds.keys(value), {}, {}, true
  for index, name in ipairs(names) do
    plain = plain and name ~= "$t" and text.is_unicode(name)
    entries[index] = { name, value[name] }
  end
  if not plain then
    return write_pairs(entries)
  end
  for index, name in ipairs(names) do
    parts[index] = json.quote(name) .. ":" .. write(value[name])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

function write(value)
  local kind = type(value)
  if kind == "number" then
    return write_number(value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "string" then
    return write_string(value)
  elseif kind == "table" then
    return KINDS[kinds.of(value)](value)
  end
  usage.raise("gym_http_client cannot send a %s", kind)
end

--- Write a value.
typed_writer.encode = write

--- Write the key of a dict, as signatures have it.
function typed_writer.key(key)
  return write(key)
end

return typed_writer
