--- The base class of all spaces.
-- @module gym_http_client.spaces.base
local usage = require("gym_http_client.usage")
local printing = require("gym_http_client.spaces.printing")

local base = {}

-- The readers of descriptions, by type; each module of spaces adds its own.
base.readers = {}

--- Make the class of a type of space.
-- @tparam string name Gymnasium's
function base.class(name)
  local methods = { type = name }
  local class = { __kind = "space", __index = methods, __tostring = printing[name] }

  --- Return the description: a table for `gym.space`.
  function methods:describe()
    return self.description
  end

  return class, methods
end

local function is_callable(value)
  local meta = type(value) == "table" and getmetatable(value)
  return type(value) == "function" or (meta and meta.__call ~= nil)
end

--- The caller's generator, or the default.
function base.generator(rng)
  if rng == nil then
    return math.random
  elseif not is_callable(rng) then
    usage.raise("sample takes a function such as math.random; got %s", usage.shown(rng))
  end
  return rng
end

return base
