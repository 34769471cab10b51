--- Numbers as JSON writes them: no digit is lost.
-- @module gym_http_client.numbers
local integers = require("gym_http_client.integers")
local platform = require("gym_http_client.platform")

local numbers = {}

local math_type = platform.math_type

--- Whether a number is neither infinite nor NaN.
function numbers.is_finite(number)
  return number - number == 0
end

--- Write a finite float: the shortest text that is parsed as the same, with a point or an
-- exponent.
function numbers.float_text(number)
  local text
  for digits = 15, 17 do
    text = ("%." .. digits .. "g"):format(number):gsub(",", ".")
    if tonumber(text) == number then
      break
    end
  end
  if not text:find("[.e]") then
    text = text .. ".0"
  end
  return text
end

--- Write a finite number, or an `Integer`.
function numbers.text(number)
  if integers.is_integer(number) then
    return integers.digits(number)
  end
  return numbers.float_text(number)
end

--- Read a number that has the grammar of JSON already.
-- @treturn ?number|Integer nil where it is too large
function numbers.read(text)
  if not text:find("[.eE]") then
    return integers.parse(text)
  end
  -- The system's language may have another point.
  local number = tonumber(text) or tonumber((text:gsub("%.", ",")))
  if not number or not numbers.is_finite(number) then
    return nil
  end
  return math_type and number * 1.0 or number
end

return numbers
