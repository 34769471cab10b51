--- Errors of decoders: received data that is malformed.
--
-- Decoders raise them, since they may be deeply nested; their callers convert them
-- to `nil, reason` with `attempt`.
-- @module gym_http_client.malformed
local malformed = {}

local Refusal = {}
Refusal.__index = Refusal

function Refusal:__tostring()
  return self.words
end

--- Refuse the data, with a reason that continues "a value …".
function malformed.refuse(words, ...)
  if select("#", ...) > 0 then
    words = words:format(...)
  end
  error(setmetatable({ words = words }, Refusal), 0)
end

local function outcome(ok, first, ...)
  if ok then
    return first, ...
  end
  if getmetatable(first) == Refusal then
    return nil, first.words
  end
  error(first, 0)
end

--- Call a function; convert its refusal to `nil, reason`.
function malformed.attempt(call, ...)
  return outcome(pcall(call, ...))
end

local MAX_SHOWN = 60

--- Show the beginning of received data in a message, printable in any case.
function malformed.elided(value)
  local meta = type(value) == "table" and getmetatable(value)
  local text = type(value) == "table" and not (meta and meta.__tostring) and "a table"
    or tostring(value)
  text = text:gsub("[%c\127-\255]", "?")
  if #text > MAX_SHOWN then
    text = text:sub(1, MAX_SHOWN - 3) .. "..."
  end
  return text
end

return malformed
