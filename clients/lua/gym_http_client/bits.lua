--- Operations on words of 32 bits: native if possible, otherwise arithmetic.
-- @module gym_http_client.bits
local platform = require("gym_http_client.platform")

local native = platform.compile([[
  return {
    band = function(a, b) return a & b end,
    bor = function(a, b) return (a | b) & 0xffffffff end,
    bxor = function(a, b) return (a ~ b) & 0xffffffff end,
    rol = function(a, n) return ((a << n) | (a >> (32 - n))) & 0xffffffff end,
  }]], "=bits")

if native then
  return native()
end

local bits = {}
local has_bit, bit = pcall(require, "bit")
if not has_bit then
  has_bit, bit = pcall(require, "bit32")
end

if has_bit then
  local rol = bit.rol or bit.lrotate
  -- LuaJIT's words are signed.
  function bits.band(a, b) return bit.band(a, b) % 4294967296 end
  function bits.bor(a, b) return bit.bor(a, b) % 4294967296 end
  function bits.bxor(a, b) return bit.bxor(a, b) % 4294967296 end
  function bits.rol(a, n) return rol(a, n) % 4294967296 end
  return bits
end

-- Results for two digits of 4 bits, at 16 * a + b.
local ANDED, XORED = {}, {}
for a = 0, 15 do
  for b = 0, 15 do
    local anded, xored, place = 0, 0, 1
    local x, y = a, b
    for _ = 1, 4 do
      local p, q = x % 2, y % 2
      if p + q == 2 then
        anded = anded + place
      elseif p + q == 1 then
        xored = xored + place
      end
      x, y, place = (x - p) / 2, (y - q) / 2, place * 2
    end
    ANDED[16 * a + b], XORED[16 * a + b] = anded, xored
  end
end

local function by_digits(results, a, b)
  local word, place = 0, 1
  for _ = 1, 8 do
    local p, q = a % 16, b % 16
    word = word + results[16 * p + q] * place
    a, b, place = (a - p) / 16, (b - q) / 16, place * 16
  end
  return word
end

function bits.band(a, b) return by_digits(ANDED, a, b) end
function bits.bxor(a, b) return by_digits(XORED, a, b) end
function bits.bor(a, b) return a + b - by_digits(ANDED, a, b) end

function bits.rol(a, n)
  local low = 2 ^ (32 - n)
  local kept = a % low
  return kept * 2 ^ n + (a - kept) / low
end

return bits
