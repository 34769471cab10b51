--- Formats of `string.pack` for arrays, where there is that.
-- @module gym_http_client.formats
local formats = {}

--- Elements that one call takes or gives at most, so that no interpreter runs out of stack.
formats.AT_ONCE = 128

local known_formats = {}

--- Give the format of so many elements of a dtype.
function formats.of(dtype, count)
  local known = known_formats[dtype.wire]
  if not known then
    known = {}
    known_formats[dtype.wire] = known
  end
  local format = known[count]
  if not format then
    local letter = dtype.kind == "f" and (dtype.bytes == 4 and "f" or "d")
      or ((dtype.kind == "u" and "I" or "i") .. dtype.bytes)
    format = (dtype.big_endian and ">" or "<") .. letter:rep(count)
    known[count] = format
  end
  return format
end

return formats
