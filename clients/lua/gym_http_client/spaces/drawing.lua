--- Draw numbers, from a function that returns numbers from 0 (included) to 1 (excluded).
-- @module gym_http_client.spaces.drawing
local integers = require("gym_http_client.integers")

local drawing = {}

local SMALL = 4503599627370496
local floor, log = math.floor, math.log

--- Draw an integer from 0 up to, but without, a number of at most 2^52.
function drawing.below(rng, count)
  if count <= 4294967296 then
    return floor(rng() * count)
  end
  -- One draw may have no more than 32 bits.
  local drawn
  repeat
    drawn = floor(rng() * 1048576) * 4294967296 + floor(rng() * 4294967296)
  until drawn < count
  return drawn
end

local function wide_below(rng, count)
  local bytes = integers.to_bytes(count, 9, false)
  local top = 9
  while top > 1 and bytes[top] == 0 do
    top = top - 1
  end
  local bound = 1
  while bound <= bytes[top] do
    bound = bound * 2
  end
  while true do
    local drawn = {}
    for index = 1, top do
      drawn[index] = floor(rng() * (index == top and bound or 256))
    end
    local number = integers.from_bytes(drawn, false)
    if integers.compare(number, count) < 0 then
      return number
    end
  end
end

local function is_small(value)
  return type(value) == "number" and value >= -SMALL and value <= SMALL
end

--- Draw one of so many integers from one on.
function drawing.integer(rng, low, count)
  if is_small(low) and is_small(count) then
    return low + drawing.below(rng, count)
  end
  return integers.sum(low, wide_below(rng, count))
end

--- Draw an integer from one to another, both included.
function drawing.between(rng, low, high)
  local count = integers.sum(integers.sum(high, integers.negated(low)), 1)
  return drawing.integer(rng, low, count)
end

--- Draw from the exponential distribution.
function drawing.exponential(rng)
  return -log(1 - rng())
end

--- Draw from the normal distribution.
function drawing.normal(rng)
  return math.sqrt(2 * drawing.exponential(rng)) * math.cos(2 * math.pi * rng())
end

--- Draw the number of attempts until one of this probability succeeds.
function drawing.tries(rng, probability)
  return 1 + floor(log(1 - rng()) / log(1 - probability))
end

return drawing
