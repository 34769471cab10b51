--- NumPy's dtypes: their names, and the elements of an array from and to bytes.
-- @module gym_http_client.dtypes
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local dtypes = {}

-- The names of NumPy by those on the wire, of which `<` is left out.
local NAMES = { ["|b1"] = "bool" }
for _, size in ipairs({ 1, 2, 4, 8 }) do
  local order = size == 1 and "|" or "<"
  NAMES[order .. "i" .. size] = "int" .. 8 * size
  NAMES[order .. "u" .. size] = "uint" .. 8 * size
end
for _, size in ipairs({ 2, 4, 8 }) do
  NAMES["<f" .. size] = "float" .. 8 * size
end
local WIRE = {}
for wire, name in pairs(NAMES) do
  WIRE[name] = wire
end

local MAX_TEXT_BYTES = 1048576
local SIZES = {
  b = { [1] = true },
  i = { [1] = true, [2] = true, [4] = true, [8] = true },
  u = { [1] = true, [2] = true, [4] = true, [8] = true },
  f = { [2] = true, [4] = true, [8] = true, [16] = true },
  c = { [8] = true, [16] = true },
}
local UNITS = {}
for unit in ("Y M W D h m s ms us ns ps fs as"):gmatch("%a+") do
  UNITS[unit] = true
end

-- Whether a name has NumPy's default order of bytes for it.
local function is_ordered(order, kind, size)
  if kind == "S" or (size == 1 and kind ~= "U") then
    return order == "|"
  end
  return order ~= "|"
end

local function date(name)
  local order, kind, unit = name:match("^([<>])([mM])8(.*)$")
  if not order then
    return nil
  end
  local count, word = unit:match("^%[(%d*)(%a+)%]$")
  if unit ~= "" and not (word and UNITS[word] and #count < 10
    and not count:find("^0") and count ~= "1") then
    return nil
  end
  return order, kind, 8
end

local function number(name)
  local order, kind, digits = name:match("^([<>|])([biufcSU])(%d+)$")
  if not order or #digits > 7 or (digits:find("^0") and digits ~= "0") then
    return nil
  end
  local size = tonumber(digits)
  if kind == "S" or kind == "U" then
    local bytes = kind == "U" and 4 * size or size
    return bytes <= MAX_TEXT_BYTES and order or nil, kind, size
  end
  return SIZES[kind][size] and order or nil, kind, size
end

local known = {}

local function find(name)
  if type(name) ~= "string" or #name >= 32 then
    return nil
  end
  local wire = WIRE[name] or name
  local order, kind, size = number(wire)
  if not order then
    order, kind, size = date(wire)
  end
  if not order or not is_ordered(order, kind, size) then
    return nil
  end
  return {
    wire = wire,
    name = NAMES[wire] or wire,
    kind = kind,
    bytes = kind == "U" and 4 * size or size,
    big_endian = order == ">",
  }
end

--- Find a dtype by its name in NumPy (`"float32"`) or on the wire (`"<f4"`).
-- @treturn ?table `wire` and `name`, `kind` (as NumPy's), `bytes` of an element and
-- `big_endian`; nil if it is unknown
function dtypes.find(name)
  local dtype = known[name]
  if dtype == nil then
    dtype = find(name)
    -- Foreign names must not fill the memory.
    if dtype and dtype.kind ~= "S" and dtype.kind ~= "U" then
      known[name] = dtype
    end
  end
  return dtype
end

--- Find a dtype by its name on the wire; refuses unknown names.
function dtypes.read(wire)
  local dtype = type(wire) == "string" and not WIRE[wire] and dtypes.find(wire)
  if not dtype then
    malformed.refuse("has an unknown dtype: %s", malformed.elided(wire))
  end
  return dtype
end

local MAX_AXES, MAX_AXIS = 32, 2147483647

--- Parse a shape and count its elements; refuses invalid shapes.
-- @tparam table sizes a list, as received
-- @tparam number bytes of an element
-- @treturn number
function dtypes.count(sizes, bytes)
  if type(sizes) ~= "table" or kinds.of(sizes) ~= "list" or #sizes > MAX_AXES then
    malformed.refuse("has no shape of at most %d sizes", MAX_AXES)
  end
  local count, product = 1, bytes
  for _, size in ipairs(sizes) do
    if type(size) ~= "number" or size % 1 ~= 0 or size < 0 or size > MAX_AXIS then
      malformed.refuse("has an invalid size in its shape: %s", malformed.elided(size))
    end
    count, product = count * size, product * 1.0 * (size > 0 and size or 1)
  end
  -- NumPy checks the other axes of an empty array, too.
  if bytes == 0 or product >= 9223372036854775808 then
    malformed.refuse("has an impossible shape")
  end
  return count
end

return dtypes
