--- Split a value into a signature and its leaves.
-- @module gym_http_client.signature_writer
local arrays = require("gym_http_client.arrays")
local dtypes = require("gym_http_client.dtypes")
local integers = require("gym_http_client.integers")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local platform = require("gym_http_client.platform")
local scalars = require("gym_http_client.scalars")
local text = require("gym_http_client.text")
local typed = require("gym_http_client.typed")
local typed_writer = require("gym_http_client.typed_writer")
local packing = require("gym_http_client.packing")

local math_type = platform.math_type
local TRUE, FALSE = "\1" .. ("\0"):rep(7), ("\0"):rep(8)

local sign

local function padded(data)
  return data .. ("\0"):rep(-#data % 8)
end

local function varying(leaves, data)
  leaves[#leaves + 1] = packing.write_i64(#data) .. padded(data)
end

local function sign_items(items, leaves, depth)
  typed.check_depth(depth)
  local parts = {}
  for index, item in ipairs(items) do
    parts[index] = sign(item, leaves, depth + 1)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function sign_number(value, leaves)
  local is_int
  if math_type then
    is_int = math_type(value) == "integer"
  else
    is_int = integers.is_integer(value)
  end
  leaves[#leaves + 1] = is_int and packing.write_i64(value) or packing.write_f64(value)
  return is_int and '"int"' or '"float"'
end

local KINDS = {}

function KINDS.null()
  return '"none"'
end

function KINDS.integer(value, leaves)
  if integers.compare(value, integers.parse("-9223372036854775808")) >= 0
    and integers.compare(value, integers.parse("9223372036854775807")) <= 0 then
    leaves[#leaves + 1] = packing.write_i64(value)
    return '"int"'
  end
  varying(leaves, value.digits)
  return '"bigint"'
end

function KINDS.float(value, leaves)
  leaves[#leaves + 1] = scalars.float_bytes(value)
  return '"float"'
end

function KINDS.complex(value, leaves)
  leaves[#leaves + 1] = packing.write_f64(value.re) .. packing.write_f64(value.im)
  return '"complex"'
end

function KINDS.unsent(value, leaves)
  varying(leaves, value.repr)
  varying(leaves, value.type)
  return '"unsent"'
end

function KINDS.bytes(value, leaves)
  varying(leaves, value.data)
  return '"bytes"'
end

function KINDS.list(value, leaves, depth)
  return '{"list":' .. sign_items(value, leaves, depth) .. "}"
end

function KINDS.tuple(value, leaves, depth)
  return '{"tuple":' .. sign_items(value, leaves, depth) .. "}"
end

function KINDS.objects(value, leaves, depth)
  local shape = json.write(kinds.list({ platform.unpack(value.shape) }))
  return ('{"oa":[%s,%s]}'):format(shape, sign_items(value, leaves, depth))
end

function KINDS.array(value, leaves)
  local data, dtype = arrays.bytes(value)
  leaves[#leaves + 1] = padded(data)
  local shape = json.write(kinds.list({ platform.unpack(value.shape) }))
  return ('{"nd":["%s",%s]}'):format(dtype.wire, shape)
end

function KINDS.scalar(value, leaves)
  local dtype = dtypes.find(value.dtype) or usage.raise("no dtype: %s", tostring(value.dtype))
  leaves[#leaves + 1] = padded(scalars.bytes(dtype, value.value))
  return ('{"ns":"%s"}'):format(dtype.wire)
end

function KINDS.dict(value, leaves, depth)
  typed.check_depth(depth)
  local members = {}
  for index, key in ipairs(kinds.keys(value)) do
    members[index] = ("[%s,%s]"):format(typed_writer.key(key), sign(value[key], leaves, depth + 1))
  end
  return '{"dict":[' .. table.concat(members, ",") .. "]}"
end

function KINDS.mapping(value, leaves, depth)
  typed.check_depth(depth)
  local members = {}
  for index, entry in ipairs(value.entries) do
    members[index] = ("[%s,%s]"):format(typed_writer.key(entry[1]),
      sign(entry[2], leaves, depth + 1))
  end
  return '{"dict":[' .. table.concat(members, ",") .. "]}"
end

function KINDS.graph(value, leaves, depth)
  typed.check_depth(depth)
  return ('{"graph":[%s,%s,%s]}'):format(sign(value.nodes, leaves, depth + 1),
    sign(value.edges, leaves, depth + 1), sign(value.edge_links, leaves, depth + 1))
end

function KINDS.autoreset(value)
  return ('{"autoreset":"%s"}'):format(value.mode)
end

function KINDS.space(value)
  return '{"space":' .. json.write(value:describe()) .. "}"
end

function sign(value, leaves, depth)
  local kind = type(value)
  if kind == "number" then
    return sign_number(value, leaves)
  elseif kind == "boolean" then
    leaves[#leaves + 1] = value and TRUE or FALSE
    return '"bool"'
  elseif kind == "string" then
    if not text.check(value) then
      usage.raise("a string that is not UTF-8 is sent by gym.bytes")
    end
    varying(leaves, value)
    return '"str"'
  elseif kind == "table" then
    return KINDS[kinds.of(value)](value, leaves, depth)
  end
  usage.raise("gym_http_client cannot send a %s", kind)
end

--- Return the signature of a value, padded with blanks, and its leaves.
-- @treturn string
-- @treturn string
return function(value)
  local leaves = {}
  local signature = sign(value, leaves, 1)
  return signature .. (" "):rep(-#signature % 8), table.concat(leaves)
end
