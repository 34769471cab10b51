--- What all spaces have.
-- @module gym_http_client.spaces.base
local base = {}

-- The readers of descriptions, by type; each module of spaces adds its own.
base.readers = {}

--- Make the class of a type of space.
-- @tparam string name Gymnasium's
function base.class(name)
  local methods = { type = name }
  local class = { __kind = "space", __index = methods }

  function class:__tostring()
    return name .. " space"
  end

  --- Give the description: a table that `gym.space` takes.
  function methods:describe()
    return self.description
  end

  return class, methods
end

--- The generator where the caller has none.
function base.generator(rng)
  return rng or math.random
end

return base
