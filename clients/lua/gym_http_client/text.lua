--- Text: UTF-8, in which lone surrogates may stand like other characters.
-- @module gym_http_client.text
local text = {}

local char = string.char

--- Write a character by its code.
function text.character(code)
  if code < 128 then
    return char(code)
  elseif code < 2048 then
    return char(192 + math.floor(code / 64), 128 + code % 64)
  elseif code < 65536 then
    return char(224 + math.floor(code / 4096), 128 + math.floor(code / 64) % 64,
      128 + code % 64)
  end
  return char(240 + math.floor(code / 262144), 128 + math.floor(code / 4096) % 64,
    128 + math.floor(code / 64) % 64, 128 + code % 64)
end

-- The code of the character at a byte and the position after it; nil if it is malformed.
local function code_at(data, at)
  local first = data:byte(at)
  if first < 128 then
    return first, at + 1
  end
  local count, code, least
  if first >= 194 and first < 224 then
    count, code, least = 1, first - 192, 128
  elseif first >= 224 and first < 240 then
    count, code, least = 2, first - 224, 2048
  elseif first >= 240 and first < 245 then
    count, code, least = 3, first - 240, 65536
  else
    return nil
  end
  for index = at + 1, at + count do
    local byte = data:byte(index)
    if not byte or byte < 128 or byte > 191 then
      return nil
    end
    code = code * 64 + byte - 128
  end
  if code < least or code > 1114111 then
    return nil
  end
  return code, at + count + 1
end

local function is_surrogate(code)
  return code >= 55296 and code < 57344
end

--- Return the codes of all characters; nil if the bytes are not text.
function text.codes(data)
  local codes, at = {}, 1
  while at <= #data do
    local code
    code, at = code_at(data, at)
    if not code then
      return nil
    end
    codes[#codes + 1] = code
  end
  return codes
end

--- Return whether bytes are text, and whether it has lone surrogates.
-- @treturn boolean
-- @treturn boolean
function text.check(data)
  local at = data:find("[\128-\255]")
  local surrogates, last = false, 0
  while at do
    local code
    code, at = code_at(data, at)
    if not code then
      return false, false
    end
    surrogates = surrogates or is_surrogate(code)
    -- Two of them that make a pair are one character, which is written otherwise.
    if code >= 56320 and code < 57344 and last >= 55296 and last < 56320 then
      return false, true
    end
    last = code
    if at <= #data then
      if data:byte(at) < 128 then
        last = 0
      end
      at = data:find("[\128-\255]", at)
    else
      at = nil
    end
  end
  return true, surrogates
end

--- Whether bytes are text without lone surrogates.
function text.is_unicode(data)
  local ok, surrogates = text.check(data)
  return ok and not surrogates
end

--- Make text of characters of 32 bits; nil if one does not exist.
function text.from_utf32(data, big_endian)
  local parts = {}
  for at = 1, #data, 4 do
    local a, b, c, d = data:byte(at, at + 3)
    if big_endian then
      a, b, c, d = d, c, b, a
    end
    local code = ((d * 256 + c) * 256 + b) * 256 + a
    if code > 1114111 then
      return nil
    end
    parts[#parts + 1] = text.character(code)
  end
  return table.concat(parts)
end

--- Write text as characters of 32 bits.
function text.to_utf32(data, big_endian)
  local parts = {}
  for index, code in ipairs(text.codes(data) or {}) do
    local a = code % 256
    local b = math.floor(code / 256) % 256
    local c = math.floor(code / 65536)
    parts[index] = big_endian and char(0, c, b, a) or char(a, b, c, 0)
  end
  return table.concat(parts)
end

return text
