--- Encode actions of a space in the fastest form that is exact.
-- @module gym_http_client.actions
local arrays = require("gym_http_client.arrays")
local elements = require("gym_http_client.elements")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local plain = require("gym_http_client.plain")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")
local sign = require("gym_http_client.signature_writer")
local packing = require("gym_http_client.packing")

local actions = {}

-- Values of these constructors are exact, and not cast.
local EXACT = { array = true, bytes = true, float = true, scalar = true, autoreset = true,
  complex = true }

local function padded(signature)
  return signature .. (" "):rep(-#signature % 8)
end

local INT = padded('{"dict":[["action","int"]]}')

-- Returns plain JSON; or nil, a signature and leaves.
local function general(action)
  if action == nil then
    usage.raise("an action is needed, as env:step(env.action_space:sample())")
  elseif type(action) == "table" and EXACT[kinds.of(action)] then
    return nil, sign({ action = action })
  end
  return '{"action":' .. plain.encode(action) .. "}"
end

local function discrete(space)
  local n, start = space.n, space.start
  if type(n) ~= "number" or type(start) ~= "number" or n > platform.MAX_EXACT
    or start > platform.MAX_EXACT or start < -platform.MAX_EXACT then
    return general
  end
  local known, write = {}, packing.write_i64
  return function(action)
    local leaves = known[action]
    if leaves then
      return nil, INT, leaves
    elseif type(action) == "number" and action % 1 == 0 and action >= start
      and action < start + n then
      leaves = write(action)
      if n <= 1024 then
        known[action] = leaves
      end
      return nil, INT, leaves
    end
    -- The server reports the error.
    return general(action)
  end
end

local function numeric(space)
  local dtype, size, shape = space.element, space.size, space.shape
  local sizes = json.write(kinds.list({ platform.unpack(shape) }))
  local signature = padded(('{"dict":[["action",{"nd":["%s",%s]}]]}'):format(dtype.wire, sizes))
  local padding = ("\0"):rep(-(size * dtype.bytes) % 8)
  local write = elements.write

  return function(action)
    if type(action) == "table" and #action == size and type(action[1]) ~= "table" then
      local own = action.dtype
      if own == nil or own == space.dtype and arrays.count(action.shape) == size
        and #action.shape == #shape then
        local leaves = malformed.attempt(write, dtype, action, size)
        if leaves then
          return nil, signature, leaves .. padding
        end
      end
    end
    return general(action)
  end
end

--- Return the function that encodes actions of a space.
-- @tparam Space space
-- @treturn function of an action, which returns plain JSON, or nil, a signature and leaves
function actions.writer(space)
  if space.type == "Discrete" then
    return discrete(space)
  elseif space.type == "Box" then
    return numeric(space)
  elseif space.type == "MultiDiscrete" or space.type == "MultiBinary" then
    local write = numeric(space)
    return function(action)
      if type(action) == "table" and not getmetatable(action) and not space:contains(action) then
        return general(action)
      end
      return write(action)
    end
  end
  return general
end

return actions
