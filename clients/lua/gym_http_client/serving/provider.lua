--- Providers: each keeps one environment connected, and answers for it.
-- @classmod Provider
local dialects = require("gym_http_client.serving.dialects")
local random_bytes = require("gym_http_client.random_bytes")
local heartbeats = require("gym_http_client.serving.heartbeats")
local handshake = require("gym_http_client.serving.handshake")
local errors = require("gym_http_client.errors")
local malformed = require("gym_http_client.malformed")
local socket = require("socket")

local Provider = {}

local FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5
local WELCOME_SECONDS, LOOK_SECONDS = 10, 0.25

-- Make one; `open` opens connections to a target. Nothing happens yet.
function Provider.new(given, env, target, open)
  return setmetatable({
    given = given, env = env, target = target, open = open,
    pause = FIRST_PAUSE, due = 0, last = {}, over = false,
  }, Provider)
end

--- The state of a provider.
-- @table Provider
-- @tfield boolean connected whether a server knows it now
-- @tfield boolean taken whether an agent uses it
function Provider:__index(name)
  if name == "taken" then
    return self.env.taken
  elseif name == "connected" then
    return rawget(self, "dialect") ~= nil
  end
  return Provider[name]
end

local function log(self, words)
  (self.given.log or print)(("external/%s: %s"):format(self.given.name, words))
end

local function call(self, handler)
  if handler then
    local ok, why = pcall(handler)
    if not ok then
      log(self, "a handler failed: " .. tostring(why))
    end
  end
end

local function notify_free(self)
  log(self, "the agent left")
  call(self, self.given.on_agent_gone)
end

-- Discard the state of the earlier conversation.
local function set_free(self)
  local taken = self.env.taken
  self.last = {}
  self.env:set_free()
  if taken then
    notify_free(self)
  end
end

local function drop(self)
  if self.connection then
    self.connection:close()
  end
  self.connection, self.dialect = nil, nil
end

local function finish(self, failed)
  self.over, self.failed = true, failed
  drop(self)
  set_free(self)
  log(self, "stopped" .. (failed and ": " .. failed.message or ""))
end

-- Close the connection, and connect again later.
local function leave(self, why)
  if self.target.stdio then
    -- There is no other connection.
    return finish(self, errors.protocol(why, self.target.address.url))
  elseif self.dialect then
    log(self, why .. "; connecting again")
  elseif why ~= self.received then
    log(self, why .. "; trying again")
    self.received = why
  end
  drop(self)
  -- Not all at the same moment, where many lost the same server.
  self.due = socket.gettime() + self.pause * (0.5 + random_bytes.fraction() / 2)
  self.pause = math.min(2 * self.pause, LONGEST_PAUSE)
end

-- Returns the seconds to wait for the server; on standard input it ends the input instead.
local function limit(self, seconds)
  return self.target.stdio and math.huge or seconds
end

local function process_reply(self, message)
  local welcome, why, failed = handshake.read(message, self.target.address.url)
  if failed then
    return finish(self, failed)
  elseif not welcome then
    return leave(self, why)
  elseif welcome.resumed ~= true then
    set_free(self)
  end
  -- In memory only: when the program ends, the game is gone, too.
  self.resume = welcome.resume
  self.heartbeats = heartbeats.new(limit(self, welcome.heartbeat_s))
  self.dialect = dialects.new(self.env.dialect)
  self.pause, self.received = FIRST_PAUSE, nil
  log(self, ("%s, connection %s"):format(welcome.resumed == true and "resumed" or "connected",
    malformed.elided(welcome.connection)))
end

local function send_message(self, message)
  self.connection:send(message, self.dialect.is_text)
end

-- Send the last answer, if there is one; after a new connection the server repeats the request.
local function deliver(self)
  local last, dialect = self.last, self.dialect
  if not dialect or not last.content then
    return
  end
  local problem = last.content.problem
  if not problem then
    local ok, message = pcall(dialect.answer, dialect, last.id, last.content.result)
    if ok then
      return send_message(self, message)
    end
    local words = "the result of the environment cannot be encoded: " .. tostring(message)
    problem = { code = "env-error", message = words }
    log(self, words)
  end
  send_message(self, dialect:failure(last.id, problem))
end

-- Answer a request; a repeated one gets the stored answer.
local function query(self, request)
  if request.id == self.last.id then
    return deliver(self)
  end
  local record, taken = { id = request.id }, self.env.taken
  self.last = record
  self.env:perform(request, function(result, problem)
    record.content = { result = result, problem = problem }
    if problem then
      log(self, problem.message)
    elseif self.env.taken and not taken then
      log(self, "an agent arrived")
      call(self, self.given.on_agent)
    end
    deliver(self)
  end)
  if self.last == record and taken and not self.env.taken then
    notify_free(self)
  end
end

local function take(self, message)
  local received, why = malformed.attempt(self.dialect.read, self.dialect, message)
  if not received then
    leave(self, "a message of the server " .. why)
  elseif received.type == "ping" then
    send_message(self, self.dialect:control("pong"))
  elseif received.type == "fault" then
    local name = received.field
    local field = name and name ~= "" and " in " .. tostring(name) or ""
    log(self, ("the server found a fault%s: %s"):format(field, tostring(received.message)))
  elseif received.type ~= "pong" then
    query(self, received)
  end
end

-- Find out whether the server is still there.
local function listen(self)
  local due = self.heartbeats:beat(self.connection:has_received())
  if due == "ping" then
    send_message(self, self.dialect:control("ping"))
  elseif due == "leave" then
    leave(self, "the server sends nothing")
  end
end

local function send_hello(self, now)
  self.welcome_by = now + limit(self, WELCOME_SECONDS)
  local address = self.target.address
  -- A WebSocket has shown it in its handshake.
  local token = address.counted and address.token or nil
  self.connection:send(handshake.hello(self.given, self.env.dialect, token, self.resume), true)
end

local function go_on(self, connection)
  local arrived, lost = connection:advance()
  local now = socket.gettime()
  if connection.is_open and not self.welcome_by then
    send_hello(self, now)
  end
  for _, message in ipairs(arrived) do
    (self.dialect and take or process_reply)(self, message)
    -- The callback may have ended it.
    if self.connection ~= connection then
      return
    end
  end
  if lost then
    leave(self, lost)
  elseif self.dialect then
    listen(self)
  elseif self.welcome_by and now > self.welcome_by then
    leave(self, "the server does not answer to hello")
  end
end

--- Do all that is possible without waiting: connect, call handlers, answer. A game calls
-- this once a frame.
-- @tparam[opt=0] number seconds to wait for messages, at most
-- @treturn ?boolean true while it provides the environment
-- @treturn ?Error why the server refuses this environment, if it does
function Provider:poll(seconds)
  seconds = seconds or 0
  if self.connection and seconds > 0 then
    self.connection:wait(seconds)
  elseif not self.connection and not self.over then
    local left = self.due - socket.gettime()
    if left > 0 and seconds > 0 then
      socket.sleep(math.min(seconds, left))
    elseif left <= 0 then
      self.connection, self.welcome_by = self.open(self.target), nil
    end
  end
  if self.connection then
    go_on(self, self.connection)
  end
  return self.failed == nil and not self.over or nil, self.failed
end

--- Serve until `stop` is called, or the server refuses this environment.
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] Error the refusal
function Provider:run()
  repeat until not self:poll(LOOK_SECONDS)
  return self.failed == nil or nil, self.failed
end

--- Stop providing the environment. An agent that uses it gets `external-away`.
function Provider:stop()
  if not self.over then
    finish(self, nil)
  end
end

return Provider
