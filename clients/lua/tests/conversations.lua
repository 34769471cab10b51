--- Conversations of the vectors: an environment with a script, without a network.
local Provider = require("gym_http_client.serving.provider")
local gym = require("gym_http_client")
local provided = require("gym_http_client.serving.provided_env")
local models = require("models")

local conversations = {}

local DIALECTS = { json = true, binary = true }
local LOOKS, LOOK_SECONDS = 100, 0.05

local function has(list, wanted)
  for _, each in ipairs(list) do
    if each == wanted then
      return true
    end
  end
  return false
end

--- Whether the client can have a conversation.
function conversations.can_converse(case)
  return case.kind == "conversation" and DIALECTS[case.dialect] ~= nil
    and not has(case.capabilities, "attributes")
end

-- A connection without a network; sent messages are appended to a list.
local Connection = { is_open = true }
Connection.__index = Connection

function Connection:advance()
  local arrived = self.arrived
  self.arrived = {}
  return arrived, self.lost
end

function Connection:send(message, is_text)
  local text = is_text and "text\t" .. message or "hex\t" .. models.hex(message)
  self.received[#self.received + 1] = text
end

function Connection.has_received() return true end
function Connection.wait() end
function Connection.close() end

local function built(gives)
  local content = {}
  for name, model in pairs(gives) do
    content[name] = models.build(model)
  end
  return content
end

-- The options of `serve.env` for a case.
local function scripted(case)
  local at = 0
  local function next_of(handler, query)
    at = at + 1
    local entry = case.script[at] or {}
    if entry.handler ~= handler then
      error(handler .. " is not what the script goes on with", 0)
    end
    for name, value in pairs(query) do
      if not models.matches(entry[name], value) then
        error(name .. " is not what the script expects", 0)
      end
    end
    if entry.raises then
      error(entry.raises, 0)
    end
    return built(entry.gives)
  end
  local given = {
    name = "scripted",
    observation_space = case.observation_space,
    action_space = case.action_space,
    dialect = case.dialect,
    capabilities = { "seed", "options" },
    log = function() end,
    reset = function(how)
      return next_of("reset", { seed = how.seed or gym.null, options = how.options })
    end,
    step = function(action)
      return next_of("step", { action = action })
    end,
  }
  if case.render_mode then
    given.render_modes = { case.render_mode }
    given.render = function()
      return next_of("render", {}).rendered
    end
  end
  return given
end

--- Play a conversation.
-- @tparam table case of the vectors
-- @tparam function say called with all messages of the environment
function conversations.converse(case, send_message)
  local given, received, connection = scripted(case), {}, nil
  local provider = Provider.new(given, provided.new(given), { address = { url = "" } }, function()
    connection = setmetatable({ arrived = {}, received = received }, Connection)
    return connection
  end)
  for _, message in ipairs(case.messages) do
    if message.from == "environment" then
      for _ = 1, LOOKS do
        if received[1] then
          break
        end
        provider:poll(LOOK_SECONDS)
      end
      send_message(table.remove(received, 1) or error(case.id .. ": it says nothing"))
    elseif message.from == "server" then
      connection.arrived[1] = message.text or models.unhex(message.hex)
      provider:poll()
    else
      connection.lost = "the connection was lost"
      provider:poll()
    end
  end
  provider:stop()
end

return conversations
