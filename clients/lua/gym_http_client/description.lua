--- Parse the server's description of an instance into the fields of an `Env`.
-- @module gym_http_client.description
local actions = require("gym_http_client.actions")
local errors = require("gym_http_client.errors")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")
local spaces = require("gym_http_client.spaces")

local function space_in(self, description, name)
  local content = description[name]
  local space = type(content) == "table" and content.space ~= nil and content.space or content
  local found, why = malformed.attempt(spaces.read, space)
  if not found then
    return nil, errors.protocol(("the %s %s"):format(name, why), self.url)
  end
  self[name] = found
  return found
end

local SPACES = { "action_space", "observation_space" }

--- Request the description of an instance, and set an environment's fields.
-- @tparam Env self
-- @treturn[1] Env the same
-- @treturn[2] nil
-- @treturn[2] Error
return function(self)
  local description, failed = self:describe()
  if not description then
    return nil, failed
  end
  self.env_id = description.env_id
  self.metadata, self.spec = description.metadata, description.spec
  self.render_mode = description.render_mode ~= kinds.null and description.render_mode or nil
  for _, name in ipairs(SPACES) do
    local space
    space, failed = space_in(self, description, name)
    if not space then
      return nil, failed
    end
  end
  if type(description.num_envs) == "number" then
    self.num_envs = description.num_envs
    for _, name in ipairs(SPACES) do
      space_in(self, description, "single_" .. name)
    end
  end
  self.write_action = actions.writer(self.action_space)
  return self
end
