--- The leaves of values in the binary form whose signature is only a name.
-- @module gym_http_client.leaves
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")
local packing = require("gym_http_client.packing")

local leaves = {}

local refuse = malformed.refuse
local null = kinds.null
local u32, i64, f64 = packing.u32, packing.i64, packing.f64

-- By name. A reader reads a part of a value at a position, counted from 1, and returns it
-- and the position behind it.
local readers = {}
leaves.readers = readers

local ZEROS = { [0] = "" }
for count = 1, 7 do
  ZEROS[count] = ("\0"):rep(count)
end

local function too_short()
  refuse("ends too early")
end

--- Find where the leaf behind one of this size begins; both are checked.
function leaves.behind(data, at, size)
  local padding = -size % 8
  local stop = at + size
  if stop + padding > #data + 1 then
    refuse("needs %d bytes at byte %d, but they end before", size, at - 1)
  end
  if padding > 0 and data:sub(stop, stop + padding - 1) ~= ZEROS[padding] then
    refuse("has padding at byte %d that is not zero", stop - 1)
  end
  return stop + padding
end

local function varying(data, at)
  if at + 7 > #data then
    too_short()
  end
  local size, high = u32(data, at), u32(data, at + 4)
  if high ~= 0 then
    refuse("needs more bytes at byte %d than there can be", at + 7)
  end
  local after = leaves.behind(data, at + 8, size)
  return data:sub(at + 8, at + 7 + size), after
end

function readers.none(_, at)
  return null, at
end

function readers.bool(data, at)
  if at + 7 > #data then
    too_short()
  end
  local flag = u32(data, at)
  if flag > 1 or u32(data, at + 4) ~= 0 then
    refuse("is neither true (1) nor false (0)")
  end
  return flag == 1, at + 8
end

function readers.int(data, at)
  if at + 7 > #data then
    too_short()
  end
  return i64(data, at), at + 8
end

function readers.float(data, at)
  if at + 7 > #data then
    too_short()
  end
  return f64(data, at), at + 8
end

function readers.complex(data, at)
  if at + 15 > #data then
    too_short()
  end
  return kinds.complex(f64(data, at), f64(data, at + 8)), at + 16
end

function readers.bigint(data, at)
  local digits, after = varying(data, at)
  local value = integers.parse(digits)
  return value or refuse("is no integer: %s", malformed.elided(digits)), after
end

function readers.str(data, at)
  local value, after = varying(data, at)
  if not text.check(value) then
    refuse("is not written in UTF-8")
  end
  return value, after
end

function readers.bytes(data, at)
  local value, after = varying(data, at)
  return kinds.bytes(value), after
end

function readers.unsent(data, at)
  local repr, between = readers.str(data, at)
  local type_name, after = readers.str(data, between)
  return kinds.unsent(repr, type_name), after
end

return leaves
