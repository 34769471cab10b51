--- Spaces of actions and observations.
--
-- A space has its `type` (Gymnasium's name), `contains(value)`, `sample(rng)` and
-- `describe()`. Discrete spaces have `n` and `start`, those of arrays `shape` and
-- `dtype`, Box `low` and `high`, arrays, Dict `keys`, and composed ones `spaces`.
-- Opaque spaces, of classes that Gymnasium does not have, have `class`, `repr` and `base`;
-- only the server can sample them and test their elements.
-- @module gym_http_client.spaces
local base = require("gym_http_client.spaces.base")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")
local typed = require("gym_http_client.typed")

require("gym_http_client.spaces.box")
require("gym_http_client.spaces.discrete")
require("gym_http_client.spaces.texts")
require("gym_http_client.spaces.containers")
require("gym_http_client.spaces.sequences")
require("gym_http_client.spaces.opaque")

local spaces = {}

--- How many spaces may be nested in one another.
spaces.MAX_DEPTH = 32

--- Make the space of a description in JSON; refuses malformed ones.
function spaces.read(description, depth)
  depth = depth or 1
  if depth > spaces.MAX_DEPTH then
    malformed.refuse("describes spaces nested deeper than %d levels", spaces.MAX_DEPTH)
  elseif type(description) ~= "table" or integers.is_large(description)
    or kinds.of(description) ~= "dict" then
    malformed.refuse("is no description of a space: an object with a type")
  end
  local kind = description.type
  local read = type(kind) == "string" and base.readers[kind]
  if not read then
    malformed.refuse("describes a space of no type of Gymnasium's: %s", malformed.elided(kind))
  end
  return read(description, depth)
end

base.read = spaces.read
typed.read_space = spaces.read

return spaces
