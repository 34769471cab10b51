--- A room, its radiator and the weather, simulated in steps of five minutes.
local device = {}

local Device = {}
Device.__index = Device

local MINUTES = 5
local DAY_STEPS = 24 * 60 / MINUTES
local KILOWATTS = 5
-- Euros for a kilowatt hour, by night and by day; and for each degree that the room is
-- too cold or too warm for five minutes.
local NIGHT_PRICE, DAY_PRICE = 0.10, 0.30
local DISCOMFORT = 0.05
local MORNING, EVENING = 6, 22

--- Make one.
function device.new()
  local self = setmetatable({ state = 1 }, Device)
  self:begin(1)
  return self
end

-- The interpreters' own generators differ; this one is the same in all of them.
local function draw(self)
  self.state = (self.state * 1664525 + 1013904223) % 4294967296
  return self.state / 4294967296
end

--- Begin a day, at midnight.
-- @tparam ?number seed what the weather is drawn from; nil: go on drawing
function Device:begin(seed)
  if seed then
    self.state = seed % 4294967296
    draw(self)
  end
  self.steps, self.power = 0, 0
  self.room = 17 + 3 * draw(self)
  self.radiator = self.room
  self.coldest, self.range = -8 + 12 * draw(self), 4 + 6 * draw(self)
  self.gust = 0
end

--- The hour of the day, from 0 up to 24.
function Device:hour()
  return self.steps % DAY_STEPS * MINUTES / 60
end

--- Degrees outside: warmest at three in the afternoon.
function Device:outside()
  local warmth = (1 + math.cos((self:hour() - 15) * math.pi / 12)) / 2
  return self.coldest + self.range * warmth + self.gust
end

-- Degrees by which the room is not what people want.
local function discomfort(self)
  local hour = self:hour()
  if hour < MORNING or hour >= EVENING then
    return math.max(0, 16 - self.room)
  end
  return math.max(0, 20 - self.room, self.room - 22)
end

--- Let five minutes pass.
-- @treturn number what they were worth: minus the cost of heat and of discomfort
function Device:go_on()
  local hour = self:hour()
  local price = (hour < MORNING or hour >= EVENING) and NIGHT_PRICE or DAY_PRICE
  self.gust = 0.98 * self.gust + 0.2 * (draw(self) - 0.5)
  for _ = 1, MINUTES do
    local given = self.radiator - self.room
    self.radiator = self.radiator + 2 * self.power - 0.05 * given
    self.room = self.room + 0.002 * given - 0.0015 * (self.room - self:outside())
  end
  self.steps = self.steps + 1
  return -price * KILOWATTS * self.power * MINUTES / 60 - DISCOMFORT * discomfort(self)
end

--- Whether the day is over.
function Device:is_over()
  return self.steps >= DAY_STEPS
end

--- What sensors and clock show.
function Device:observation()
  return { self.room, self.radiator, self:outside(), self:hour() }
end

--- The device's own control without an agent: a thermostat.
function Device:regulate()
  if self.room < 20.5 then
    self.power = 1
  elseif self.room > 21.5 then
    self.power = 0
  end
end

return device
