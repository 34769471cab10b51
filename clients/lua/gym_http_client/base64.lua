--- Base64, written and read strictly: the same bytes are always the same text.
-- @module gym_http_client.base64
local base64 = {}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local DIGITS, VALUES = {}, {}
for value = 0, 63 do
  local digit = ALPHABET:sub(value + 1, value + 1)
  DIGITS[value], VALUES[digit:byte()] = digit, value
end

local function group(a, b, c)
  local bits = a * 65536 + (b or 0) * 256 + (c or 0)
  local last = bits % 64
  local rest = (bits - last) / 64
  local third = rest % 64
  rest = (rest - third) / 64
  local second = rest % 64
  return DIGITS[(rest - second) / 64] .. DIGITS[second]
    .. (b and DIGITS[third] or "=") .. (c and DIGITS[last] or "=")
end

--- Write bytes.
function base64.encode(data)
  local groups = {}
  for at = 1, #data, 3 do
    groups[#groups + 1] = group(data:byte(at, at + 2))
  end
  return table.concat(groups)
end

local function bytes_of(a, b, c, d, pieces)
  local first, second, third, fourth = VALUES[a], VALUES[b], VALUES[c], VALUES[d]
  if not (first and second and third and fourth) then
    return nil
  end
  local bits = ((first * 64 + second) * 64 + third) * 64 + fourth
  local last = bits % 256
  local rest = (bits - last) / 256
  local middle = rest % 256
  pieces[#pieces + 1] = string.char((rest - middle) / 256, middle, last)
  return true
end

--- Decode bytes; nil if the text is not one that `encode` writes.
function base64.decode(text)
  if #text % 4 ~= 0 then
    return nil
  end
  local padding = text:sub(-2) == "==" and 2 or text:sub(-1) == "=" and 1 or 0
  local digits = padding == 0 and text or text:sub(1, -1 - padding) .. ("A"):rep(padding)
  local pieces = {}
  for at = 1, #digits, 4 do
    local a, b, c, d = digits:byte(at, at + 3)
    if not bytes_of(a, b, c, d, pieces) then
      return nil
    end
  end
  local data = table.concat(pieces)
  data = data:sub(1, #data - padding)
  -- The last digit before the padding may have unused bits.
  if padding > 0 and base64.encode(data:sub(-(3 - padding))) ~= text:sub(-4) then
    return nil
  end
  return data
end

return base64
