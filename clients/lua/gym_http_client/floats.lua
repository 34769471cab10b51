--- The bits of floats, by arithmetic: for interpreters without `string.pack`, and for
-- float16 everywhere.
-- @module gym_http_client.floats
local floats = {}

-- By their size in bytes: bits of the exponent, bits of the mantissa.
local FORMATS = { [2] = { 5, 10 }, [4] = { 8, 23 }, [8] = { 11, 52 } }

--- The largest finite numbers, by size.
floats.LARGEST = {
  [2] = 65504,
  [4] = (2 - 2 ^ -23) * 2 ^ 127,
  [8] = (2 - 2 ^ -52) * 2 ^ 1023,
}

-- From here on numbers have no fractions. Added and taken away again, it rounds smaller
-- ones to the nearest integer, halves to the even one.
local WHOLE = 4503599627370496

local function rounded(value)
  return value >= WHOLE and value or (value + WHOLE) - WHOLE
end

-- Exponent e and mantissa m of a positive number, which is m * 2^e with 1 <= m < 2.
local function split(value)
  local mantissa, exponent
  if math.frexp then -- luacheck: ignore 143
    mantissa, exponent = math.frexp(value) -- luacheck: ignore 143
    return mantissa * 2, exponent - 1
  end
  mantissa, exponent = value, 0
  while mantissa >= 2 do
    mantissa, exponent = mantissa / 2, exponent + 1
  end
  while mantissa < 1 do
    mantissa, exponent = mantissa * 2, exponent - 1
  end
  return mantissa, exponent
end

-- In two steps, since 2^-1074 times 2^1000 is nothing that has to be rounded.
local function scaled(value, exponent)
  if exponent < -1000 then
    return value * 2 ^ -1000 * 2 ^ (exponent + 1000)
  elseif exponent > 1000 then
    return value * 2 ^ 1000 * 2 ^ (exponent - 1000)
  end
  return value * 2 ^ exponent
end

local function finite_bits(value, size)
  local exponent_bits, mantissa_bits = FORMATS[size][1], FORMATS[size][2]
  local bias = 2 ^ (exponent_bits - 1) - 1
  if value == 0 then
    return 0, 0
  end
  local fraction, exponent = split(value)
  local step = 2 ^ mantissa_bits
  local mantissa
  if exponent < 1 - bias then
    -- Subnormal: the exponent stays at its smallest.
    mantissa = rounded(scaled(value, bias - 1 + mantissa_bits))
    exponent = 0
  else
    mantissa = rounded((fraction - 1) * step)
    exponent = exponent + bias
  end
  if mantissa >= step then
    mantissa, exponent = mantissa - step, exponent + 1
  end
  if exponent >= 2 * bias + 1 then
    return 2 * bias + 1, 0
  end
  return exponent, mantissa
end

--- Encode a number as bytes, least significant first; it is rounded to that size.
-- @tparam number value
-- @tparam number size 2, 4 or 8
function floats.bytes(value, size)
  local exponent_bits, mantissa_bits = FORMATS[size][1], FORMATS[size][2]
  local exponent, mantissa
  local negative = value < 0 or (value == 0 and 1 / value < 0)
  if value ~= value then
    exponent, mantissa = 2 ^ exponent_bits - 1, 2 ^ (mantissa_bits - 1)
  elseif value == math.huge or value == -math.huge then
    exponent, mantissa = 2 ^ exponent_bits - 1, 0
  else
    exponent, mantissa = finite_bits(negative and -value or value, size)
  end
  local bytes = {}
  for index = 1, size - 2 do
    bytes[index] = mantissa % 256
    mantissa = (mantissa - bytes[index]) / 256
  end
  -- The last two contain the rest of the mantissa, the exponent and the sign.
  local word = mantissa + exponent * 2 ^ (mantissa_bits - 8 * (size - 2))
  word = word + (negative and 32768 or 0)
  bytes[size - 1] = word % 256
  bytes[size] = (word - bytes[size - 1]) / 256
  return bytes
end

--- Make the number of its bytes, least significant first.
-- @tparam table bytes
-- @tparam number size 2, 4 or 8
function floats.number(bytes, size)
  local exponent_bits, mantissa_bits = FORMATS[size][1], FORMATS[size][2]
  local bias = 2 ^ (exponent_bits - 1) - 1
  local word = bytes[size] * 256 + bytes[size - 1]
  local negative = word >= 32768
  word = word % 32768
  local low_bits = mantissa_bits - 8 * (size - 2)
  local mantissa = word % 2 ^ low_bits
  local exponent = (word - mantissa) / 2 ^ low_bits
  for index = size - 2, 1, -1 do
    mantissa = mantissa * 256 + bytes[index]
  end
  local value
  if exponent == 2 ^ exponent_bits - 1 then
    value = mantissa == 0 and math.huge or 0 / 0
  elseif exponent == 0 then
    value = scaled(mantissa, 1 - bias - mantissa_bits)
  else
    value = scaled(1 + mantissa / 2 ^ mantissa_bits, exponent - bias)
  end
  return negative and -value or value
end

-- 2 to the power of an exponent, less the bits of the mantissa; by the exponent's bits.
local SINGLES, DOUBLES = {}, {}
for bits = 1, 254 do
  SINGLES[bits] = 2 ^ (bits - 150)
end
for bits = 53, 2046 do
  DOUBLES[bits] = 2 ^ (bits - 1075)
end

--- Make the number of the four bytes of a float32, least significant first.
function floats.single(a, b, c, d)
  local high = d * 256 + c
  local exponent = (high % 32768 - high % 128) / 128
  local scale = SINGLES[exponent]
  if a + b + high == 0 then
    return 0
  elseif not scale then
    return floats.number({ a, b, c, d }, 4)
  end
  local value = (((high % 128 + 128) * 256 + b) * 256 + a) * scale
  return high >= 32768 and -value or value
end

--- Make the number of the eight bytes of a float64, least significant first.
function floats.double(a, b, c, d, e, f, g, h)
  local high = h * 256 + g
  local exponent = (high % 32768 - high % 16) / 16
  local scale = DOUBLES[exponent]
  if a + b + c + d + e + f + high == 0 then
    return 0
  elseif not scale then
    return floats.number({ a, b, c, d, e, f, g, h }, 8)
  end
  local upper = ((high % 16 + 16) * 256 + f) * 256 + e
  local value = (upper * 4294967296 + ((d * 256 + c) * 256 + b) * 256 + a) * scale
  return high >= 32768 and -value or value
end

return floats
