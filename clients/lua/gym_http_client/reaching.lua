--- Reaching into environments: their attributes, methods and generators.
--
-- These are methods of an `Env`. Values go and come without loss.
-- @module gym_http_client.reaching
local address = require("gym_http_client.address")
local asking = require("gym_http_client.asking")
local kinds = require("gym_http_client.kinds")
local options = require("gym_http_client.options")

local reaching = {}

local function ask_member(self, path, body, name)
  self:check_open()
  local answer, failed = asking.exact(self.link, body and "POST" or "GET", self.path .. path,
    body, self.raw)
  if not answer then
    return nil, failed
  end
  return asking.member(self.link, self.path .. path, answer, name)
end

--- Have the server draw an action.
-- @tparam[opt] table arguments `seed` and `mask`
function reaching:sample_action(arguments)
  return ask_member(self, "action_space/sample",
    options.of_sample(arguments, "sample_action"), "action")
end

--- Have the server draw an observation.
-- @tparam[opt] table arguments `seed` and `mask`
function reaching:sample_observation(arguments)
  return ask_member(self, "observation_space/sample",
    options.of_sample(arguments, "sample_observation"), "observation")
end

--- Get an attribute of the environment.
-- @tparam string name
function reaching:get(name)
  return ask_member(self, "attributes/" .. address.quoted(name) .. "/", nil, "value")
end

--- Set an attribute of the environment.
-- @tparam string name
-- @param value
-- @treturn boolean true
function reaching:set(name, value)
  return ask_member(self, "attributes/" .. address.quoted(name) .. "/", { value = value }, "set")
end

--- Call a method of the environment.
-- @tparam string name
-- @param ... its arguments
function reaching:call(name, ...)
  local path = "attributes/" .. address.quoted(name) .. "/call/"
  return ask_member(self, path, { args = kinds.list({ ... }) }, "value")
end

--- Give the state of the environment's random generator, for `set_generator`.
function reaching:generator()
  self:check_open()
  return asking.exact(self.link, "GET", self.path .. "generator/")
end

--- Set the state of the environment's random generator.
function reaching:set_generator(state)
  self:check_open()
  local answer, failed = asking.exact(self.link, "POST", self.path .. "generator/", state)
  return answer and true, failed
end

return reaching
