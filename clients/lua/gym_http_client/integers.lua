--- Integers: those that a number of this interpreter represents, and larger ones.
--
-- An integer that a number would round is an `Integer`: it prints, compares and is sent
-- as its decimal digits. In Lua 5.3 and later these are integers beyond 64 bits, otherwise
-- those beyond 2^53.
-- @module gym_http_client.integers
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")

local integers = {}

local math_type = platform.math_type
local MAX_EXACT = platform.MAX_EXACT
-- Magnitudes are lists of limbs, the least significant first.
local LIMB, LIMB_DIGITS = 10000000, 7

--- Digits that an integer may have.
integers.MAX_DIGITS = 4300

local Integer = { __kind = "integer" }
Integer.__index = Integer

function Integer:__tostring()
  return self.digits
end

function Integer.__eq(a, b)
  return a.digits == b.digits
end

function Integer.__lt(a, b)
  return integers.compare(a, b) < 0
end

function Integer.__le(a, b)
  return integers.compare(a, b) <= 0
end

function Integer.__concat(a, b)
  return tostring(a) .. tostring(b)
end

--- Whether a value is an `Integer`.
function integers.is_large(value)
  return getmetatable(value) == Integer
end

--- Whether a value is an integer, large or not.
function integers.is_integer(value)
  if type(value) == "number" then
    if math_type then
      return math_type(value) == "integer"
    end
    return value % 1 == 0 and value >= -MAX_EXACT and value <= MAX_EXACT
      and not (value == 0 and 1 / value < 0)
  end
  return integers.is_large(value)
end

local function small(digits)
  if math_type then
    local number = #digits < 20 and tonumber(digits)
    return number and math_type(number) == "integer" and number or nil
  end
  local number = #digits < 18 and tonumber(digits)
  -- An integer beyond 2^53 may be rounded.
  return number and ("%.0f"):format(number) == digits
    and number >= -MAX_EXACT and number <= MAX_EXACT and number or nil
end

--- Parse decimal digits, optionally with a minus.
-- @treturn ?number|Integer nil for other text
function integers.parse(digits)
  local sign, magnitude = digits:match("^(%-?)(%d+)$")
  if not magnitude or #magnitude > integers.MAX_DIGITS then
    return nil
  end
  magnitude = magnitude:match("^0*(%d+)$")
  if magnitude == "0" then
    return 0
  end
  digits = sign .. magnitude
  return small(digits) or setmetatable({ digits = digits }, Integer)
end

--- Write an integer in decimal digits.
function integers.digits(value)
  if type(value) == "table" then
    return value.digits
  end
  return ("%d"):format(value)
end

--- Compare two integers: negative, 0 or positive, as the first is less, equal or greater.
function integers.compare(a, b)
  if type(a) == "number" and type(b) == "number" then
    return a < b and -1 or a > b and 1 or 0
  end
  local first, second = integers.digits(a), integers.digits(b)
  local negative = first:sub(1, 1) == "-"
  if negative ~= (second:sub(1, 1) == "-") then
    return negative and -1 or 1
  end
  local order
  if #first ~= #second then
    order = #first < #second and -1 or 1
  else
    order = first < second and -1 or first > second and 1 or 0
  end
  return negative and -order or order
end

local function scaled(limbs, factor, more)
  local carry = more
  for index = 1, #limbs do
    local product = limbs[index] * factor + carry
    local limb = product % LIMB
    limbs[index], carry = limb, (product - limb) / LIMB
  end
  if carry > 0 then
    limbs[#limbs + 1] = carry
  end
end

local function reduced(limbs, divisor)
  local rest = 0
  for index = #limbs, 1, -1 do
    local dividend = rest * LIMB + limbs[index]
    rest = dividend % divisor
    limbs[index] = (dividend - rest) / divisor
  end
  if limbs[#limbs] == 0 then
    limbs[#limbs] = nil
  end
  return rest
end

local function limbs_of(magnitude)
  local limbs = {}
  for last = #magnitude, 1, -LIMB_DIGITS do
    limbs[#limbs + 1] = tonumber(magnitude:sub(math.max(1, last - LIMB_DIGITS + 1), last))
  end
  while limbs[#limbs] == 0 do
    limbs[#limbs] = nil
  end
  return limbs
end

local function magnitude_of(limbs)
  local parts = {}
  for index = #limbs, 1, -1 do
    parts[#parts + 1] = ("%07d"):format(limbs[index])
  end
  return (table.concat(parts):gsub("^0+", ""))
end

local function inverted(bytes)
  -- Two's complement: all bits turned, and one more.
  local carry, turned = 1, {}
  for index = 1, #bytes do
    local byte = 255 - bytes[index] + carry
    carry = byte > 255 and 1 or 0
    turned[index] = byte % 256
  end
  return turned
end

--- Read little-endian bytes.
-- @tparam table bytes numbers, the least significant first
-- @tparam boolean signed two's complement
function integers.from_bytes(bytes, signed)
  local negative = signed and bytes[#bytes] > 127
  if negative then
    bytes = inverted(bytes)
  end
  local limbs = {}
  for index = #bytes, 1, -1 do
    scaled(limbs, 256, bytes[index])
  end
  return integers.parse((negative and "-" or "") .. (limbs[1] and magnitude_of(limbs) or "0"))
end

--- Encode as little-endian bytes; refuses integers that do not fit.
-- @tparam number|Integer value
-- @tparam number count
-- @tparam boolean signed two's complement
function integers.to_bytes(value, count, signed)
  local sign, magnitude = integers.digits(value):match("^(%-?)(%d+)$")
  local limbs, bytes = limbs_of(magnitude), {}
  for index = 1, count do
    bytes[index] = limbs[1] and reduced(limbs, 256) or 0
  end
  local negative = sign == "-" and magnitude ~= "0"
  local top = bytes[count]
  if negative then
    bytes = inverted(bytes)
  end
  local fits = not limbs[1] and not (negative and not signed)
  if fits and signed then
    fits = negative == (bytes[count] > 127) or (not negative and top < 128)
  end
  if not fits then
    malformed.refuse("is an integer that %d bytes do not hold: %s", count, malformed.elided(value))
  end
  return bytes
end

--- Add two integers that are not negative, or one of which is small.
function integers.sum(a, b)
  if type(a) == "number" and type(b) == "number" then
    local sum = a + b
    local exact = sum >= -MAX_EXACT and sum <= MAX_EXACT
    -- Where integers have 64 bits, a sum that overflows has the wrong sign.
    if exact or (math_type and (b >= 0) == (sum >= a)) then
      return sum
    end
  end
  local wide = {}
  for index, value in ipairs({ a, b }) do
    wide[index] = integers.to_bytes(value, 16, true)
  end
  local carry, bytes = 0, {}
  for index = 1, 16 do
    local byte = wide[1][index] + wide[2][index] + carry
    carry = byte > 255 and 1 or 0
    bytes[index] = byte % 256
  end
  return integers.from_bytes(bytes, true)
end

--- The opposite of an integer.
function integers.negated(value)
  local digits = integers.digits(value)
  return integers.parse(digits:sub(1, 1) == "-" and digits:sub(2) or "-" .. digits)
end

return integers
