--- Calls an author's handlers for the requests of a server.
-- @module gym_http_client.serving.provided_env
local answers = require("gym_http_client.serving.answer")
local arrays = require("gym_http_client.arrays")
local elements = require("gym_http_client.serving.elements")
local kinds = require("gym_http_client.kinds")
local usage = require("gym_http_client.usage")
local malformed = require("gym_http_client.malformed")
local spaces = require("gym_http_client.spaces")
local text = require("gym_http_client.text")

local provided_env = {}

local ProvidedEnv = {}
ProvidedEnv.__index = ProvidedEnv

-- Codes that state that nothing has changed, so that agents may continue.
local UNDONE = {
  ["bad-parameter"] = true, ["invalid-action"] = true, ["reset-needed"] = true,
  unsupported = true,
}
-- Elements of an observation from which on it is worth less to be read by people.
local MANY = 256
local SPACES = { "observation_space", "action_space" }

local function space_of(given, name)
  if type(given) == "table" and kinds.of(given) == "space" then
    return given
  end
  local space, why = malformed.attempt(spaces.read, given)
  return space or usage.raise("%s %s", name, why)
end

local function set_spaces(self, content)
  for _, name in ipairs(SPACES) do
    self[name] = space_of(content[name] or self.given[name], name)
  end
end

local function has_many(self)
  local space = self.observation_space
  local many = space.shape and arrays.count(space.shape) > MANY
  for _, mode in ipairs(self.given.render_modes or {}) do
    many = many or tostring(mode):find("^rgb") ~= nil
  end
  return many
end

--- Make one from the options of `serve.env`.
function provided_env.new(given)
  local self = setmetatable({ given = given, taken = false }, ProvidedEnv)
  set_spaces(self, given)
  self.dialect = given.dialect or (has_many(self) and "binary" or "json")
  if self.dialect ~= "json" and self.dialect ~= "binary" then
    usage.raise('dialect is %s: expected "json" or "binary"', usage.shown(given.dialect))
  end
  return self
end

local function refuse(code, words, ...)
  error({ code = code, message = words:format(...) }, 0)
end

local function given_of(value)
  return value ~= kinds.null and value or nil
end

local function observed(self, content)
  if type(content) ~= "table" or content.observation == nil then
    refuse(nil, "returned no observation: expected a table, as {observation = 1}")
  end
  local info = content.info or {}
  return elements.given(self.observation_space, content.observation), info
end

local function as_float(reward)
  return type(reward) == "number" and kinds.float(reward) or reward
end

-- BEGIN calls the handler of a request; FINISH converts its result.
local BEGIN, FINISH = {}, {}

function BEGIN.init(self, query, answer)
  local kwargs, init = given_of(query.kwargs) or {}, self.given.init
  if init then
    return init({ kwargs = kwargs, render_mode = given_of(query.render_mode) }, answer)
  elseif next(kwargs) ~= nil then
    refuse("bad-parameter", "kwargs has %s: expected none, since this environment has no arguments",
      table.concat(kinds.keys(kwargs), ", "))
  end
  return {}
end

function FINISH.init(self, content)
  set_spaces(self, type(content) == "table" and content or {})
  self.taken = true
  return {
    observation_space = self.observation_space:describe(),
    action_space = self.action_space:describe(),
  }
end

function BEGIN.reset(self, query, answer)
  if self.given.reset then
    local how = { seed = given_of(query.seed), options = given_of(query.options) or {} }
    return self.given.reset(how, answer)
  end
  return { observation = self.given.observe() }
end

function FINISH.reset(self, content)
  local observation, info = observed(self, content)
  return { observation = observation, info = info }
end

function BEGIN.step(self, query, answer)
  return self.given.step(elements.query(self.action_space, query.action), answer)
end

function FINISH.step(self, content)
  local observation, info = observed(self, content)
  local reward = content.reward
  if type(reward) == "table" and kinds.of(reward) == "list" then
    local channels = {}
    for index, each in ipairs(reward) do
      channels[index] = as_float(each)
    end
    reward = kinds.list(channels)
  end
  return {
    observation = observation, info = info, reward = as_float(reward),
    terminated = content.terminated or false, truncated = content.truncated or false,
  }
end

function BEGIN.render(self, _, answer)
  if not self.given.render then
    refuse("unsupported", "this environment renders no frames")
  end
  return self.given.render(answer)
end

function FINISH.render(_, content)
  return { rendered = elements.frame(content) }
end

function BEGIN.close(self, _, answer)
  self.taken = false
  local close = self.given.close
  return close and close(answer)
end

function FINISH.close(self)
  set_spaces(self, self.given)
  return {}
end

-- The server's problem for an error of a handler.
local function problem_of(raised, name)
  local has_message = type(raised) == "table" and raised.message ~= nil
  local content = has_message and raised or { message = raised }
  local words = tostring(content.message)
  if not text.is_unicode(words) then
    -- JSON cannot represent it.
    words = words:gsub("[\128-\255]", "?")
  end
  if UNDONE[content.code] then
    return { code = content.code, message = words }
  end
  return { code = "env-error", message = ("%s failed: %s"):format(name, words) }
end

--- Execute a request; `notify` is called once, with a result, or nil and a problem, at once
-- or later, or never if another request replaces it.
-- @tparam table query with `type`
-- @tparam function notify
function ProvidedEnv:perform(query, notify)
  local name = query.type
  self:forget()
  local answer
  answer = answers.new(function(given, raised)
    local ok, result = raised == nil, raised
    if ok then
      ok, result = pcall(FINISH[name], self, given)
    end
    if ok then
      notify(result)
    else
      notify(nil, problem_of(result, name))
    end
  end)
  self.present = answer
  local begin = BEGIN[name] or function()
    refuse("unsupported", "this environment does not support %s", tostring(name))
  end
  local ok, given = pcall(begin, self, query, answer)
  if not ok and answer:is_wanted() then
    local raised = type(given) == "table" and given.message ~= nil and given or { message = given }
    answer:fail(raised.message, raised.code)
  elseif ok and given ~= answer and answer:is_wanted() then
    answer(given)
  end
end

--- Wait no more for the answer that is owed.
function ProvidedEnv:forget()
  if self.present then
    answers.drop(self.present)
    self.present = nil
  end
end

--- Return to the free state, after the agent was lost.
function ProvidedEnv:set_free()
  self:forget()
  self.taken = false
  set_spaces(self, self.given)
end

return provided_env
