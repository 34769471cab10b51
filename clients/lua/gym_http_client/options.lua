--- Options: tables with named members, which are checked before anything is sent.
--
-- The server ignores unknown members, so a misspelt seed
-- would silently have no effect.
-- @module gym_http_client.options
local usage = require("gym_http_client.usage")

local options = {}

-- The edit distance of two words.
local function distance(a, b)
  local before = {}
  for column = 0, #b do
    before[column] = column
  end
  for row = 1, #a do
    local now = { [0] = row }
    for column = 1, #b do
      local same = a:byte(row) == b:byte(column) and 0 or 1
      now[column] = math.min(before[column] + 1, now[column - 1] + 1, before[column - 1] + same)
    end
    before = now
  end
  return before[#b]
end

local MAX_DISTANCE = 2

local function nearest(name, known)
  local found, least = nil, MAX_DISTANCE + 1
  if type(name) == "string" and #name <= 40 then
    for _, each in ipairs(known) do
      local apart = distance(name:lower(), each)
      if apart < least and apart < #each - 1 then
        found, least = each, apart
      end
    end
  end
  return found
end

local function knows(known, name)
  for _, each in ipairs(known) do
    if each == name then
      return true
    end
  end
  return false
end

local function refuse_name(name, known)
  local near = nearest(name, known)
  local shown = type(name) == "string" and #name <= 40 and name or usage.shown(name)
  local advice = near and ("did you mean %s?"):format(near)
    or "there are " .. table.concat(known, ", ")
  usage.raise("there is no option %s: %s", shown, advice)
end

--- Check that an argument is a table with only known members, or nil.
-- @param given the argument of a caller
-- @tparam string call the name of the function
-- @tparam string example correct arguments
-- @tparam table known a list of names
-- @treturn table the argument; an empty table for nil
function options.checked(given, call, example, known)
  if given == nil then
    return {}
  elseif type(given) ~= "table" then
    -- A string may be a token, or an address that holds one, and is not shown.
    local got = type(given) == "string" and "a string" or usage.shown(given)
    usage.raise("%s takes a table, as %s; got %s", call, example, got)
  end
  for name in pairs(given) do
    if not knows(known, name) then
      refuse_name(name, known)
    end
  end
  return given
end

--- Check the types of the options that are present.
-- @tparam table given
-- @tparam table types types' names by options' names
function options.typed(given, types)
  for name, kind in pairs(types) do
    if given[name] ~= nil and type(given[name]) ~= kind then
      -- Tokens are not shown.
      usage.raise("the option %s is a %s; got a %s", name, kind, type(given[name]))
    end
  end
end

local RESET = { "seed", "options" }
local ROLLOUT = { "episodes", "actions", "policy", "seed", "options", "max_steps" }
local SAMPLE = { "seed", "mask" }

--- Check the options of `reset`.
function options.of_reset(given)
  return options.checked(given, "reset", "{seed = 42}", RESET)
end

--- Check the options of `rollout`.
function options.of_rollout(given)
  return options.checked(given, "rollout", "{episodes = 10}", ROLLOUT)
end

--- Check the options of `sample_action` or `sample_observation`.
function options.of_sample(given, call)
  return options.checked(given, call, "{seed = 42}", SAMPLE)
end

--- Return the seconds that the server is to wait before it makes an instance.
-- Invalid values count as 0: the server refuses them.
function options.wait_of(given)
  local wait = given.wait_s
  return type(wait) == "number" and wait > 0 and wait or 0
end

--- Demand the name of an instance.
function options.instance_id(given)
  if type(given) ~= "string" then
    usage.raise("an instance_id is a string, as env.instance_id; got %s", usage.shown(given))
  end
  return given
end

return options
