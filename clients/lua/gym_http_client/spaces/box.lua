--- Box: arrays of numbers between two bounds.
-- @module gym_http_client.spaces.box
local arrays = require("gym_http_client.arrays")
local base = require("gym_http_client.spaces.base")
local drawing = require("gym_http_client.spaces.drawing")
local fields = require("gym_http_client.spaces.fields")
local integers = require("gym_http_client.integers")
local members = require("gym_http_client.spaces.members")
local dtypes = require("gym_http_client.dtypes")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local Box, methods = base.class("Box")

local FLAG = dtypes.find("bool")

local function compare(a, b, dtype)
  if dtype.kind == "b" then
    return (a and 1 or 0) - (b and 1 or 0)
  elseif type(a) == "number" and type(b) == "number" then
    return a < b and -1 or a > b and 1 or 0
  end
  return integers.compare(a, b)
end

local function check_order(description, self)
  local low_at, one_low = fields.array(description, "low", self.shape, self.element)
  local high_at, one_high = fields.array(description, "high", self.shape, self.element)
  local count = one_low and one_high and math.min(1, self.size) or self.size
  for index = 1, count do
    if compare(low_at(index), high_at(index), self.element) > 0 then
      fields.refuse(description, "low", "nowhere above high")
    end
  end
  return low_at, high_at
end

function base.readers.Box(description)
  local self = { description = description }
  self.element = fields.dtype(description, "biuf", "float32")
  self.dtype = self.element.name
  self.shape = fields.shape(description, "shape", 2 * self.element.bytes + 2)
  self.size = arrays.count(self.shape)
  self.low_at, self.high_at = check_order(description, self)
  for _, side in ipairs({ "below", "above" }) do
    local field = "bounded_" .. side
    if description[field] ~= nil then
      self[field .. "_at"] = fields.array(description, field, self.shape, FLAG)
    end
  end
  self.bounded_below_at = self.bounded_below_at
    or function(index) return self.low_at(index) ~= -math.huge end
  self.bounded_above_at = self.bounded_above_at
    or function(index) return self.high_at(index) ~= math.huge end
  return setmetatable(self, Box)
end

local SIDES = { low = "low_at", high = "high_at" }

-- The arrays of bounds, which may be large, are made on first use.
function Box:__index(name)
  local side = SIDES[name]
  if not side then
    return methods[name]
  end
  local bounds, at = { shape = self.shape, dtype = self.dtype }, self[side]
  for index = 1, self.size do
    bounds[index] = at(index)
  end
  self[name] = setmetatable(bounds, kinds.Array)
  return bounds
end

local function is_within(self, index, value)
  local dtype = self.element
  if dtype.kind == "b" then
    if type(value) ~= "boolean" then
      return false
    end
  elseif dtype.kind == "f" then
    if type(value) ~= "number" then
      return false
    end
  elseif not integers.is_integer(value) then
    return false
  end
  local low, high = self.low_at(index), self.high_at(index)
  if value ~= value or low ~= low or high ~= high then
    return false
  end
  return compare(value, low, dtype) >= 0 and compare(value, high, dtype) <= 0
end

--- Whether a value is an element: an array of the shape, or a table of so many numbers.
function methods:contains(value)
  local items = members.items(value, self.shape, self.element)
  if not items then
    return false
  end
  for index = 1, self.size do
    if not is_within(self, index, items[index]) then
      return false
    end
  end
  return true
end

local function draw_float(self, rng, index)
  local low, high = self.low_at(index), self.high_at(index)
  local below, above = self.bounded_below_at(index), self.bounded_above_at(index)
  local value
  if below and above then
    -- In halves, so that the whole range may be wider than the largest number.
    local part = rng()
    value = low * (1 - part) + high * part
  elseif below then
    value = low + drawing.exponential(rng)
  elseif above then
    value = high - drawing.exponential(rng)
  else
    value = drawing.normal(rng)
  end
  value = fields.rounded(self.element, value)
  return math.max(low, math.min(high, value))
end

local function draw_integer(self, rng, index)
  local low, high = self.low_at(index), self.high_at(index)
  if self.element.kind == "b" then
    return drawing.between(rng, low and 1 or 0, high and 1 or 0) == 1
  end
  return drawing.between(rng, low, high)
end

--- Draw an element: uniformly between bounds, exponentially from one bound on, and from
-- the normal distribution without bounds.
function methods:sample(rng)
  rng = base.generator(rng)
  local draw = self.element.kind == "f" and draw_float or draw_integer
  local items = { shape = self.shape, dtype = self.dtype }
  for index = 1, self.size do
    items[index] = draw(self, rng, index)
  end
  return setmetatable(items, kinds.Array)
end

--- Make an element of plain JSON.
function methods:read_plain(tree)
  return members.read_plain(tree, self.shape, self.element)
    or malformed.refuse("is no array of the space's shape")
end

return Box
