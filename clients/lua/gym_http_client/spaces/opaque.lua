--- Opaque: a space of a class that Gymnasium does not have, which only the server knows.
-- @module gym_http_client.spaces.opaque
local base = require("gym_http_client.spaces.base")
local fields = require("gym_http_client.spaces.fields")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")

local Opaque, opaque = base.class("Opaque")

local function given(description, field)
  local value = description[field]
  return value ~= kinds.null and value or nil
end

function base.readers.Opaque(description, depth)
  local class, repr = description.class, given(description, "repr")
  if type(class) ~= "string" then
    fields.refuse(description, "class", "a string")
  elseif repr ~= nil and type(repr) ~= "string" then
    fields.refuse(description, "repr", "a string or null")
  end
  local nearest = given(description, "base")
  local self = { description = description, class = class, repr = repr }
  self.base = nearest and base.read(nearest, depth + 1)
  return setmetatable(self, Opaque)
end

local function unknown(self, verb, request)
  usage.raise("only the server can %s %s, which is no class of Gymnasium's: %s", verb,
    self.class, request)
end

--- Raise: only the server can test elements.
function opaque:contains(_)
  local request = "send POST .../action_space/contains or .../observation_space/contains"
  unknown(self, "test elements of", request)
end

--- Raise: only the server can draw elements.
function opaque:sample(_)
  unknown(self, "sample", "call env:sample_action() or env:sample_observation()")
end

--- Return plain JSON as it is.
function opaque:read_plain(tree)
  return tree
end

return { Opaque = Opaque }
