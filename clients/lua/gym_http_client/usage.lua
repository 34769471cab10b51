--- Misuse: errors that are raised at the line of the program that made the mistake.
-- @module gym_http_client.usage
local usage = {}

-- The directory of the client's own files; nil if unknown.
local OWN = debug.getinfo(1, "S").source:match("^(@.*gym_http_client[/\\])")

-- The innermost line outside the client, since the depth within the client
-- does not matter to its caller.
local function place()
  local level = 2
  while OWN do
    local frame = debug.getinfo(level, "Sl")
    if not frame then
      break
    elseif frame.currentline > 0 and frame.source:sub(1, #OWN) ~= OWN then
      return ("%s:%d: "):format(frame.short_src, frame.currentline)
    end
    level = level + 1
  end
  return ""
end

--- Raise an error with a message for `string.format`, at the line of the caller.
function usage.raise(words, ...)
  if select("#", ...) > 0 then
    words = words:format(...)
  end
  error(place() .. words, 0)
end

local MAX_SHOWN = 40

--- Show an argument in a message: numbers and short strings in full, of
-- others the type.
function usage.shown(value)
  local kind = type(value)
  if kind == "number" or kind == "boolean" or kind == "nil" then
    return tostring(value)
  elseif kind == "string" and #value <= MAX_SHOWN and not value:find("[%c\127-\255]") then
    return '"' .. value .. '"'
  end
  return "a " .. kind
end

return usage
