--- SHA-1, with which a server shows that it understood a WebSocket's handshake.
-- @module gym_http_client.sha1
local bits = require("gym_http_client.bits")

local band, bor, bxor, rol = bits.band, bits.bor, bits.bxor, bits.rol
local WORD = 4294967296

local function word_at(text, at)
  local a, b, c, d = text:byte(at, at + 3)
  return a * 16777216 + b * 65536 + c * 256 + d
end

local function bytes_of(word)
  local d = word % 256
  word = (word - d) / 256
  local c = word % 256
  word = (word - c) / 256
  local b = word % 256
  return string.char((word - b) / 256, b, c, d)
end

local function padded(text)
  local size = #text
  local zeros = ("\0"):rep((55 - size) % 64)
  local high = math.floor(size / 536870912)
  return text .. "\128" .. zeros .. bytes_of(high) .. bytes_of(size * 8 % WORD)
end

local function mixed(round, b, c, d)
  if round <= 20 then
    return bor(band(b, c), band(WORD - 1 - b, d)), 0x5a827999
  elseif round <= 40 then
    return bxor(bxor(b, c), d), 0x6ed9eba1
  elseif round <= 60 then
    return bor(bor(band(b, c), band(b, d)), band(c, d)), 0x8f1bbcdc
  end
  return bxor(bxor(b, c), d), 0xca62c1d6
end

local function digest_block(state, text, start)
  local words = {}
  for index = 1, 16 do
    words[index] = word_at(text, start + 4 * (index - 1))
  end
  for index = 17, 80 do
    local first = bxor(words[index - 3], words[index - 8])
    words[index] = rol(bxor(first, bxor(words[index - 14], words[index - 16])), 1)
  end
  local a, b, c, d, e = state[1], state[2], state[3], state[4], state[5]
  for round = 1, 80 do
    local mix, constant = mixed(round, b, c, d)
    local sum = (rol(a, 5) + mix + e + constant + words[round]) % WORD
    a, b, c, d, e = sum, a, rol(b, 30), c, d
  end
  for index, word in ipairs({ a, b, c, d, e }) do
    state[index] = (state[index] + word) % WORD
  end
end

--- Digest a string; returns 20 bytes.
return function(text)
  local state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 }
  local whole = padded(text)
  for start = 1, #whole, 64 do
    digest_block(state, whole, start)
  end
  for index = 1, 5 do
    state[index] = bytes_of(state[index])
  end
  return table.concat(state)
end
