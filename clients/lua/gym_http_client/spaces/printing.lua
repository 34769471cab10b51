--- How spaces are printed: as Gymnasium does, but for the bounds of a Box.
-- @module gym_http_client.spaces.printing
local malformed = require("gym_http_client.malformed")

local printing = {}

local MAX_NUMBERS = 8

-- Numbers in the brackets of their axes; the first few of many.
local function nested(at, shape)
  local count = 0
  local function write(axis)
    if count >= MAX_NUMBERS then
      return "..."
    elseif axis > #shape then
      count = count + 1
      return tostring(at(count))
    end
    local parts = {}
    for index = 1, shape[axis] do
      parts[index] = write(axis + 1)
      if parts[index] == "..." then
        break
      end
    end
    return "[" .. table.concat(parts, " ") .. "]"
  end
  return write(1)
end

local function sizes(shape)
  return table.concat(shape, ", ")
end

local function each(spaces)
  local parts = {}
  for index, space in ipairs(spaces) do
    parts[index] = tostring(space)
  end
  return table.concat(parts, ", ")
end

function printing.Discrete(space)
  local start = space.start ~= 0 and ", start=" .. tostring(space.start) or ""
  return ("Discrete(%s%s)"):format(tostring(space.n), start)
end

function printing.Box(space)
  return ("Box(%s, {%s})"):format(space.dtype, sizes(space.shape))
end

function printing.MultiDiscrete(space)
  local start = ""
  for index = 1, space.size do
    if space.start_at(index) ~= 0 then
      start = ", start=" .. nested(space.start_at, space.shape)
      break
    end
  end
  return ("MultiDiscrete(%s%s)"):format(nested(space.n_at, space.shape), start)
end

function printing.MultiBinary(space)
  local shape = sizes(space.shape)
  return (#space.shape == 1 and "MultiBinary(%s)" or "MultiBinary((%s))"):format(shape)
end

function printing.Text(space)
  local characters = malformed.elided(table.concat(space.characters))
  return ("Text(%d, %d, charset=%s)"):format(space.min_length, space.max_length, characters)
end

function printing.Dict(space)
  local parts = {}
  for index, key in ipairs(space.keys) do
    local name = type(key) == "string" and "'" .. key .. "'" or tostring(key)
    parts[index] = name .. ": " .. tostring(space.spaces[index])
  end
  return ("Dict(%s)"):format(table.concat(parts, ", "))
end

function printing.Tuple(space)
  return ("Tuple(%s)"):format(each(space.spaces))
end

function printing.OneOf(space)
  return ("OneOf(%s)"):format(each(space.spaces))
end

function printing.Sequence(space)
  return ("Sequence(%s, stack=%s)"):format(tostring(space.feature_space),
    space.stack and "True" or "False")
end

function printing.Graph(space)
  return ("Graph(%s, %s)"):format(tostring(space.node_space),
    space.edge_space and tostring(space.edge_space) or "None")
end

function printing.Opaque(space)
  return space.repr or space.class
end

return printing
