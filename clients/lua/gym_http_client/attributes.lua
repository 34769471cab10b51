--- Attributes, methods and generators of environments.
--
-- These are methods of an `Env`. Values are sent without loss.
-- @module gym_http_client.attributes
local address = require("gym_http_client.address")
local rest = require("gym_http_client.rest")
local kinds = require("gym_http_client.kinds")
local options = require("gym_http_client.options")

local attributes = {}

local function request_member(self, path, body, name)
  self:check_open()
  local answer, failed = rest.exact(self.requester, body and "POST" or "GET", self.path .. path,
    body, self.raw)
  if not answer then
    return nil, failed
  end
  return rest.member(self.requester, self.path .. path, answer, name)
end

--- Have the server draw an action.
-- @tparam[opt] table arguments `seed` and `mask`
function attributes:sample_action(arguments)
  return request_member(self, "action_space/sample",
    options.of_sample(arguments, "sample_action"), "action")
end

--- Have the server draw an observation.
-- @tparam[opt] table arguments `seed` and `mask`
function attributes:sample_observation(arguments)
  return request_member(self, "observation_space/sample",
    options.of_sample(arguments, "sample_observation"), "observation")
end

--- Get an attribute of the environment.
-- @tparam string name
function attributes:get(name)
  return request_member(self, "attributes/" .. address.quoted(name) .. "/", nil, "value")
end

--- Set an attribute of the environment.
-- @tparam string name
-- @param value
-- @treturn boolean true
function attributes:set(name, value)
  return request_member(self, "attributes/" .. address.quoted(name) .. "/",
    { value = value }, "set")
end

--- Call a method of the environment.
-- @tparam string name
-- @param ... its arguments
function attributes:call(name, ...)
  local path = "attributes/" .. address.quoted(name) .. "/call/"
  return request_member(self, path, { args = kinds.list({ ... }) }, "value")
end

--- Return the state of the environment's random generator, for `set_generator`.
function attributes:generator()
  self:check_open()
  return rest.exact(self.requester, "GET", self.path .. "generator/")
end

--- Set the state of the environment's random generator.
function attributes:set_generator(state)
  self:check_open()
  local answer, failed = rest.exact(self.requester, "POST", self.path .. "generator/", state)
  return answer and true, failed
end

return attributes
