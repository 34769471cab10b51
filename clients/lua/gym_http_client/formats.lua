--- Formats of `string.pack` for arrays, if the interpreter has it.
-- @module gym_http_client.formats
local formats = {}

--- Elements of one call at most, so that no interpreter exceeds its stack.
formats.AT_ONCE = 128

local known_formats = {}

--- Return the format of a number of elements of a dtype.
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
