--- Discrete, MultiDiscrete and MultiBinary: integers of which there are so many.
-- @module gym_http_client.spaces.discrete
local arrays = require("gym_http_client.arrays")
local base = require("gym_http_client.spaces.base")
local drawing = require("gym_http_client.spaces.drawing")
local dtypes = require("gym_http_client.dtypes")
local fields = require("gym_http_client.spaces.fields")
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local members = require("gym_http_client.spaces.members")
local malformed = require("gym_http_client.malformed")

local INT8, INT64 = dtypes.find("int8"), dtypes.find("int64")

local Discrete, discrete = base.class("Discrete")

function base.readers.Discrete(description)
  local dtype = fields.dtype(description, "iu", "int64")
  local n = fields.integer(description, "n", dtype)
  if integers.compare(n, 1) < 0 then
    fields.refuse(description, "n", "an integer from 1 on")
  end
  return setmetatable({
    description = description,
    dtype = dtype.name,
    element = dtype,
    n = n,
    start = fields.integer(description, "start", dtype, 0),
  }, Discrete)
end

local function among(value, start, n)
  if type(value) == "number" and type(start) == "number" and type(n) == "number" then
    -- Not start + n, which may be beyond the largest integer.
    return value >= start and value - start < n
  end
  local offset = integers.sum(value, integers.negated(start))
  return integers.compare(offset, 0) >= 0 and integers.compare(offset, n) < 0
end

local LOWEST, HIGHEST = fields.limits(INT64)

local function is_int64(value)
  return integers.compare(value, LOWEST) >= 0 and integers.compare(value, HIGHEST) <= 0
end

--- Whether a value is an element: an integer from `start` on, one of `n`.
function discrete:contains(value)
  if type(value) == "table" then
    local kind = kinds.of(value)
    if kind == "scalar" then
      value = value.value
    elseif kind == "array" and #value.shape == 0 then
      value = value[1]
    end
  end
  return integers.is_integer(value) and is_int64(value) and among(value, self.start, self.n)
end

--- Draw an element uniformly.
function discrete:sample(rng)
  return drawing.integer(base.generator(rng), self.start, self.n)
end

--- Make an element of plain JSON.
function discrete:read_plain(tree)
  if not integers.is_integer(tree) then
    malformed.refuse("is no integer: %s", malformed.elided(tree))
  end
  return tree
end

local MultiDiscrete, multi_discrete = base.class("MultiDiscrete")

function base.readers.MultiDiscrete(description)
  local dtype = fields.dtype(description, "iu", "int64")
  local nvec = description.nvec
  local default = type(nvec) == "table" and { #nvec } or nil
  local shape = fields.shape(description, "shape", 2 * dtype.bytes, default)
  local n_at, is_one = fields.array(description, "nvec", shape, dtype)
  local size = arrays.count(shape)
  for index = 1, is_one and math.min(1, size) or size do
    if integers.compare(n_at(index), 1) < 0 then
      fields.refuse(description, "nvec", "integers from 1 on")
    end
  end
  return setmetatable({
    description = description, dtype = dtype.name, element = dtype, shape = shape, size = size,
    n_at = n_at, start_at = fields.array(description, "start", shape, dtype, 0),
  }, MultiDiscrete)
end

local MultiBinary, multi_binary = base.class("MultiBinary")

local function two() return 2 end
local function zero() return 0 end

function base.readers.MultiBinary(description)
  local shape
  if type(description.n) == "table" and not integers.is_large(description.n)
    and description.n ~= kinds.null then
    shape = fields.shape(description, "n", 1)
  else
    local n = fields.integer(description, "n", INT64)
    shape = fields.shape({ n = kinds.list({ n }) }, "n", 1)
  end
  return setmetatable({
    description = description, dtype = "int8", element = INT8, shape = shape,
    size = arrays.count(shape), n_at = two, start_at = zero,
  }, MultiBinary)
end

local function contains(self, value)
  local items = members.items(value, self.shape, self.element)
  if not items then
    return false
  end
  for index = 1, self.size do
    local item = items[index]
    if not integers.is_integer(item)
      or not among(item, self.start_at(index), self.n_at(index)) then
      return false
    end
  end
  return true
end

local function sample(self, rng)
  rng = base.generator(rng)
  local items = { shape = self.shape, dtype = self.dtype }
  for index = 1, self.size do
    items[index] = drawing.integer(rng, self.start_at(index), self.n_at(index))
  end
  return setmetatable(items, kinds.Array)
end

local function read_plain(self, tree)
  return members.read_plain(tree, self.shape, self.element)
    or malformed.refuse("is no array of the space's shape")
end

for _, methods in ipairs({ multi_discrete, multi_binary }) do
  methods.contains, methods.sample, methods.read_plain = contains, sample, read_plain
end

return Discrete
