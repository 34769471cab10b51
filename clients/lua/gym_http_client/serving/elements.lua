--- Elements of spaces, as a game's author writes them, and frames.
-- @module gym_http_client.serving.elements
local arrays = require("gym_http_client.arrays")
local kinds = require("gym_http_client.kinds")
local members = require("gym_http_client.spaces.members")
local platform = require("gym_http_client.platform")
local malformed = require("gym_http_client.malformed")

local elements = {}

local math_type = platform.math_type

local function is_plain(value)
  if type(value) ~= "table" then
    return false
  end
  local kind = kinds.of(value)
  return kind == "list" or kind == "dict" or kind == "tuple"
end

local FROM = {}

-- Elements of the space have this dtype in Python.
function FROM.Discrete(space, value)
  if type(value) == "number" and value % 1 == 0 then
    return kinds.scalar(space.dtype, kinds.integer(value))
  end
  return value
end

function FROM.Dict(space, value)
  if not is_plain(value) then
    return value
  end
  local entries, known = {}, {}
  for index, key in ipairs(space.keys) do
    known[key] = true
    if value[key] ~= nil then
      entries[#entries + 1] = { key, elements.given(space.spaces[index], value[key]) }
    end
  end
  -- The server reports superfluous and missing members.
  for key, member in pairs(value) do
    if not known[key] then
      entries[#entries + 1] = { key, member }
    end
  end
  return kinds.dict(entries)
end

function FROM.Tuple(space, value)
  if not is_plain(value) or #value ~= #space.spaces then
    return value
  end
  local items = {}
  for index, each in ipairs(space.spaces) do
    items[index] = elements.given(each, value[index])
  end
  return kinds.tuple(items)
end

local function shaped(space, value)
  if type(value) == "table" and not is_plain(value) then
    return value
  end
  local found = members.items(value, space.shape, space.element)
  if not found then
    return value
  end
  local is_whole = math_type and space.element.kind ~= "f"
  local items = { shape = space.shape, dtype = space.dtype }
  for index = 1, #found do
    local item = found[index]
    -- A division returns floats, which integers must not be.
    if is_whole and math_type(item) == "float" and item % 1 == 0 then
      item = kinds.integer(item)
    end
    items[index] = item
  end
  return setmetatable(items, kinds.Array)
end

--- Convert a value to an element: numbers, tables flat or nested, plain dicts.
-- Other values are sent unchanged; the server refuses them with a reason.
function elements.given(space, value)
  local from = FROM[space.type] or (space.shape and shaped)
  if from then
    return from(space, value)
  elseif is_plain(value) then
    return malformed.attempt(space.read_plain, space, value) or value
  end
  return value
end

--- Convert plain JSON to an element.
function elements.query(space, tree)
  if is_plain(tree) then
    return malformed.attempt(space.read_plain, space, tree) or tree
  end
  return tree
end

--- Make an array from a frame: `width`, `height` and `data`, a string with three bytes
-- for each pixel, or four, the last of which is dropped. Other values are returned unchanged.
function elements.frame(given)
  if type(given) ~= "table" or type(given.data) ~= "string" or type(given.width) ~= "number" then
    return given
  end
  local data, pixels = given.data, given.width * given.height
  if #data == 4 * pixels then
    data = data:gsub("(...).", "%1")
  end
  return arrays.new("uint8", data, { given.height, given.width, 3 })
end

return elements
