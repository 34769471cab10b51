--- Masks, which a client puts on all that it sends over a WebSocket.
-- @module gym_http_client.masks
local bits = require("gym_http_client.bits")
local platform = require("gym_http_client.platform")

local ffi = platform.ffi
local byte, char = string.byte, string.char

local native = platform.string_pack and platform.compile([[
  local pack, unpack = string.pack, string.unpack
  local EIGHT = "<i8i8i8i8i8i8i8i8"
  return function(payload, mask)
    local word = unpack("<I4", mask)
    word = word | word << 32
    local size, at, parts, count = #payload, 1, {}, 0
    while at + 63 <= size do
      local a, b, c, d, e, f, g, h = unpack(EIGHT, payload, at)
      count = count + 1
      parts[count] = pack(EIGHT, a ~ word, b ~ word, c ~ word, d ~ word,
        e ~ word, f ~ word, g ~ word, h ~ word)
      at = at + 64
    end
    while at + 7 <= size do
      count = count + 1
      parts[count] = pack("<i8", unpack("<i8", payload, at) ~ word)
      at = at + 8
    end
    local rest = size - at + 1
    if rest > 0 then
      local last = payload:sub(at) .. ("\0"):rep(8 - rest)
      count = count + 1
      parts[count] = pack("<i8", unpack("<i8", last) ~ word):sub(1, rest)
    end
    return table.concat(parts)
  end]], "=masks")

if native then
  return native()
end

if ffi then
  local bxor = require("bit").bxor
  local room = 4096
  local place = ffi.new("uint32_t[?]", room / 4)

  return function(payload, mask)
    local size = #payload
    if size + 4 > room then
      room = 4 * math.ceil(size / 4) + 4
      place = ffi.new("uint32_t[?]", room / 4)
    end
    ffi.copy(place, mask, 4)
    local word = place[0]
    ffi.copy(place, payload, size)
    for index = 0, math.ceil(size / 4) - 1 do
      place[index] = bxor(place[index], word)
    end
    return ffi.string(place, size)
  end
end

-- By a byte of a mask: the result for each byte. Made on demand.
local rows = {}

local function row_of(masking)
  local row = rows[masking]
  if not row then
    row = {}
    for value = 0, 255 do
      row[value] = bits.bxor(value, masking)
    end
    rows[masking] = row
  end
  return row
end

--- Mask a payload, or unmask it.
-- @tparam string payload
-- @tparam string mask four bytes
return function(payload, mask)
  local a, b, c, d = byte(mask, 1, 4)
  a, b, c, d = row_of(a), row_of(b), row_of(c), row_of(d)
  local parts, count = {}, 0
  local whole = #payload - #payload % 4
  for at = 1, whole, 4 do
    local p, q, r, s = byte(payload, at, at + 3)
    count = count + 1
    parts[count] = char(a[p], b[q], c[r], d[s])
  end
  local rest = { a, b, c }
  for at = whole + 1, #payload do
    count = count + 1
    parts[count] = char(rest[at - whole][byte(payload, at)])
  end
  return table.concat(parts)
end
