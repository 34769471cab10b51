--- Text: strings of characters of a set.
-- @module gym_http_client.spaces.texts
local base = require("gym_http_client.spaces.base")
local drawing = require("gym_http_client.spaces.drawing")
local dtypes = require("gym_http_client.dtypes")
local fields = require("gym_http_client.spaces.fields")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")

local Text, methods = base.class("Text")

local INT64 = dtypes.find("int64")
local ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

function base.readers.Text(description)
  local charset = description.charset
  if charset == nil then
    charset = ALPHANUMERIC
  end
  if type(charset) ~= "string" then
    fields.refuse(description, "charset", "a string")
  end
  local shortest = fields.integer(description, "min_length", INT64, 1)
  local longest = fields.integer(description, "max_length", INT64)
  if type(shortest) ~= "number" or type(longest) ~= "number" or shortest < 0
    or shortest > longest then
    fields.refuse(description, "min_length", "an integer from 0 up to max_length")
  end
  local characters, known = {}, {}
  for _, code in ipairs(text.codes(charset)) do
    if not known[code] then
      known[code], characters[#characters + 1] = true, text.character(code)
    end
  end
  if #characters == 0 and longest > 0 and shortest > 0 then
    fields.refuse(description, "charset", "a string with characters")
  end
  return setmetatable({
    description = description, min_length = shortest, max_length = longest,
    characters = characters, known = known,
  }, Text)
end

--- Whether a value is an element: a string of characters of the set.
function methods:contains(value)
  local codes = type(value) == "string" and text.codes(value)
  if not codes or #codes < self.min_length or #codes > self.max_length then
    return false
  end
  for _, code in ipairs(codes) do
    if not self.known[code] then
      return false
    end
  end
  return true
end

--- Draw an element: the length uniformly, and so each character.
function methods:sample(rng)
  rng = base.generator(rng)
  local parts = {}
  for index = 1, drawing.between(rng, self.min_length, self.max_length) do
    parts[index] = self.characters[1 + drawing.below(rng, #self.characters)]
  end
  return table.concat(parts)
end

--- Make an element of plain JSON.
function methods:read_plain(tree)
  return type(tree) == "string" and tree or malformed.refuse("is no string")
end

return Text
