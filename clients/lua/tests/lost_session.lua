--- A game's notifications when the server loses the session while a handler runs.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
local checking = require("checking")

local Provider = require("gym_http_client.serving.provider")
local provided = require("gym_http_client.serving.provided_env")
local plain = require("gym_http_client.plain")

local test, equal, items = checking.test, checking.equal, checking.items

-- A connection without a network; sent messages are put into a list.
local Connection = { is_open = true }
Connection.__index = Connection

function Connection:advance()
  local arrived, lost = self.arrived, self.lost
  self.arrived = {}
  return arrived, lost
end

function Connection:send(message)
  self.received[#self.received + 1] = message
end

function Connection.has_received() return true end
function Connection.wait() end
function Connection.close() end

-- Provide a corridor, whose steps and creation are answered when a test decides, to a
-- simulated server.
local function corridor(changes)
  local server = { events = {}, received = {}, resets = 0 }
  local function note(word)
    return function() server.events[#server.events + 1] = word end
  end
  local given = {
    name = "corridor",
    observation_space = { type = "Discrete", n = 5 },
    action_space = { type = "Discrete", n = 2 },
    reset = function()
      server.resets = server.resets + 1
      return { observation = 0 }
    end,
    step = function(_, answer)
      server.owed = answer
      return answer
    end,
    on_agent = note("arrived"),
    on_agent_gone = note("left"),
    log = function() end,
  }
  for name, value in pairs(changes and changes(server) or {}) do
    given[name] = value
  end
  server.provider = Provider.new(given, provided.new(given), { address = { url = "" } }, function()
    server.connection = setmetatable({ arrived = {}, received = server.received }, Connection)
    return server.connection
  end)

  -- Send a message, and return the answer, if there is one.
  function server.perform(message)
    server.connection.arrived[1] = plain.encode(message)
    server.provider:poll()
    return table.remove(server.received, 1)
  end

  -- Welcome it, on a connection that resumes nothing.
  function server.welcome()
    repeat
      server.provider:poll(0.05)
    until server.received[1]
    assert(table.remove(server.received, 1):find('"hello"', 1, true))
    server.perform({
      type = "welcome", protocol = 1, connection = "c4d1e0f2", resume = "a", heartbeat_s = 60,
      resumed = false,
    })
  end

  function server.lose()
    server.connection.lost = "the connection was lost"
    server.provider:poll()
  end

  server.welcome()
  return server
end

local INIT = { type = "init", id = 1, kwargs = {} }
local RESET = { type = "reset", id = 2, options = {} }
local STEP = { type = "step", id = 3, action = 1 }

test("the agent goes once, though a step is at work meanwhile", function()
  local server = corridor()
  server.perform(INIT)
  server.perform(RESET)
  equal(server.perform(STEP), nil)
  server.lose()
  server.welcome()
  items(server.events, { "arrived", "left" })
  equal(server.owed({ observation = 1, reward = 1 }), false)
  assert(server.perform(INIT):find('"id":1', 1, true))
  items(server.events, { "arrived", "left", "arrived" })
  server.provider:stop()
  items(server.events, { "arrived", "left", "arrived", "left" })
  equal(server.received[1], nil)
end)

test("a request of a lost session brings no agent", function()
  local server = corridor(function(server)
    return {
      init = function(_, answer)
        server.owed = answer
        return answer
      end,
    }
  end)
  equal(server.perform(INIT), nil)
  server.lose()
  server.welcome()
  equal(server.owed({}), false)
  server.provider:stop()
  items(server.events, {})
end)

test("a stop during a step notifies the author once", function()
  local server = corridor()
  server.perform(INIT)
  server.perform(RESET)
  server.perform(STEP)
  server.provider:stop()
  equal(server.owed({ observation = 1, reward = 1 }), false)
  items(server.events, { "arrived", "left" })
end)

test("a refusal after a lost connection frees the environment", function()
  local server = corridor()
  server.perform(INIT)
  server.lose()
  repeat
    server.provider:poll(0.05)
  until server.received[1]
  server.perform({ type = "refused", code = "bad-hello", message = "no" })
  items(server.events, { "arrived", "left" })
end)

checking.run()
