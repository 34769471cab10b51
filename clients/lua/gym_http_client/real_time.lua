--- Real time: environments whose clock does not wait for the agent.
--
-- These are methods of an `Env` that was made with `realtime`. They have connections of
-- their own, so that `updates` leaves the environment's other calls their order.
-- @module gym_http_client.real_time
local address = require("gym_http_client.address")
local errors = require("gym_http_client.errors")
local kinds = require("gym_http_client.kinds")
local options = require("gym_http_client.options")
local plain = require("gym_http_client.plain")
local random_bytes = require("gym_http_client.random_bytes")
local sessions = require("gym_http_client.session")
local sign = require("gym_http_client.signature_writer")

local real_time = {}

-- Seconds that the server waits for an update before it answers without one.
local WAIT_S = 10
-- Members of an update that are told within its `realtime`.
local MEMBERS = { "agent_lost", "last", "reset" }
-- Values of these constructors are exact, and not cast.
local EXACT = { array = true, bytes = true, float = true, scalar = true }

-- The connection for actions and other calls, with the agent's name and counts.
local function agent_of(self)
  if not self.agent then
    self.agent = {
      session = sessions.new(self.requester, address.quoted(self.instance_id), self.transfer),
      name = random_bytes.name(),
      sequence = 0,
      seen = 0,
    }
  end
  return self.agent
end

local function malformed(self, name)
  local words = ("the answer to %s is not one: is it a gym_http_server?"):format(name)
  return nil, errors.protocol(words, self.url)
end

--- Return the info of an answer, with its members of real time.
-- @local
function real_time.info_of(self, answer)
  local info = answer.info
  if type(answer.realtime) ~= "table" or type(info) ~= "table" then
    return info
  end
  info.realtime, info.rewards = answer.realtime, answer.rewards
  for _, name in ipairs(MEMBERS) do
    if answer[name] ~= nil then
      answer.realtime[name] = answer[name]
    end
  end
  local agent = agent_of(self)
  agent.seen = math.max(agent.seen, tonumber(answer.realtime.update) or 0)
  return info
end

local function request(self, name, given, query)
  self:check_open()
  local body = given and plain.encode(given) or nil
  local answer, failed = agent_of(self).session:perform(name, body, nil, nil, query)
  if not answer then
    return nil, failed
  elseif type(answer) ~= "table" then
    return malformed(self, name)
  end
  return answer
end

local ACT = { "actions", "at", "blend", "update", "valid_s", "priority" }

--- Set the action of the next ticks, and do not wait.
-- @param[opt] action it stays in force until another one replaces it; without one, the
-- call only reports that the agent lives
-- @tparam[opt] table arguments `actions`, a chunk in the place of `action` with one for
-- each tick; `at`, the tick of its first action; `blend`, its weight where it overlaps an
-- earlier chunk; `update`, the number of the update that this answers, by default the last
-- one that arrived here; `valid_s`, seconds after which it expires; `priority`
-- @treturn table `tick`, `now_ns`, `sequence`, `queued`
function real_time:act(action, arguments)
  self:check_open()
  arguments = options.checked(arguments, "act", "{valid_s = 0.5}", ACT)
  local agent = agent_of(self)
  local given = {}
  for _, name in ipairs(ACT) do
    given[name] = arguments[name]
  end
  given.action, given.update = action, nil
  if type(given.actions) == "table" and kinds.of(given.actions) ~= "array" then
    given.actions = kinds.list(given.actions)
  end
  if action ~= nil or given.actions then
    given["for"] = arguments.update or (agent.seen > 0 and agent.seen or nil)
  end
  agent.sequence = agent.sequence + 1
  given.session, given.sequence = agent.name, agent.sequence
  local answer, failed
  if type(action) == "table" and EXACT[kinds.of(action)] then
    answer, failed = agent.session:perform("act", nil, sign(given))
  else
    answer, failed = agent.session:perform("act", plain.encode(given))
  end
  if not answer then
    return nil, failed
  elseif type(answer) ~= "table" then
    return malformed(self, "act")
  end
  return answer
end

--- Describe the clock.
-- @treturn table `state`, `settings` and statistics
function real_time:timing()
  return request(self, "realtime")
end

--- Change settings of the clock from the next time step on.
-- @tparam table settings `hz` or `period_s`, `capture_s`, `elasticity`, `default_action`,
-- `agent_timeout_s`
-- @treturn table as of `timing`
function real_time:set_timing(settings)
  return request(self, "set_realtime", settings)
end

--- Pause the clock at the end of the time step.
-- @treturn table `state` and `now_ns`
function real_time:pause()
  return request(self, "pause", {})
end

--- Continue a paused clock.
-- @treturn table `state` and `now_ns`
function real_time:resume()
  return request(self, "resume", {})
end

local TRACE = { "last", "format" }

--- Return the last events of the clock.
-- @tparam[opt] table arguments `last`, how many at most, and `format`: `"chrome"`, for a
-- file that Perfetto opens, or `"json"`
-- @treturn table
function real_time:trace(arguments)
  local given = options.checked(arguments, "trace", "{last = 100}", TRACE)
  return request(self, "trace", next(given) and given or nil, given)
end

local Updates = {}
Updates.__index = Updates

--- Wait for the next update.
-- @treturn ?table `observation`, `reward`, `terminated`, `truncated` and `info`; nil when
-- all episodes have ended
-- @treturn ?Error
function Updates:next()
  while #self.arrived == 0 do
    if self.ended or self.env.closed then
      return nil
    end
    local given = {
      after = self.after, deliver = self.deliver, wait_s = self.wait_s, max = self.most,
    }
    local answer, failed = self.session:perform("updates", plain.encode(given), nil, nil, given)
    if not answer then
      self.ended = failed.code == "world-ended"
      return nil, not self.ended and failed or nil
    elseif type(answer) ~= "table" or type(answer.updates) ~= "table" then
      return malformed(self.env, "updates")
    end
    self.arrived, self.lost = answer.updates, self.lost + answer.lost
    self.ended = answer.state == "ended" and #answer.updates == 0
  end
  local answer = table.remove(self.arrived, 1)
  if type(answer.realtime) ~= "table" or answer.observation == nil then
    return malformed(self.env, "updates")
  end
  self.after = answer.realtime.update
  self.ended = answer.last == true
  return {
    observation = answer.observation, reward = answer.reward,
    terminated = answer.terminated, truncated = answer.truncated,
    info = real_time.info_of(self.env, answer),
  }
end

-- For `for update in env:updates() do`, where an error cannot be returned.
function Updates:__call()
  local update, failed = self:next()
  if failed then
    error(tostring(failed), 0)
  end
  return update
end

--- Close the connection; there are no more updates.
function Updates:close()
  self.session:close()
  self.arrived, self.ended = {}, true
end

local UPDATES = { "after", "deliver", "most" }

--- Iterate over the world's updates: `for update in env:updates() do`.
-- A request asks for one when the agent wants it, so no update is older than necessary.
-- In a loop, an error is raised; `next` returns it.
-- @tparam[opt] table arguments `after`, the number of the last known update, by default
-- the last one that arrived here, else the newest comes first; `deliver`: `"latest"`, the
-- default, merges updates that the agent has missed, `"all"` returns each; `most`, how many
-- an answer has at most
-- @return an iterator with `next`, `close` and `lost`, the number of updates that the
-- server's buffer could not hold
function real_time:updates(arguments)
  self:check_open()
  local given = options.checked(arguments, "updates", '{deliver = "all"}', UPDATES)
  local made = setmetatable({
    env = self,
    session = sessions.new(self.requester, address.quoted(self.instance_id), self.transfer),
    after = given.after or agent_of(self).seen > 0 and agent_of(self).seen or nil,
    deliver = given.deliver or "latest",
    most = given.most,
    wait_s = math.min(WAIT_S, math.floor(self.requester.options.answer_limit * 500) / 1000),
    arrived = {},
    lost = 0,
    ended = false,
  }, Updates)
  self.iterators = self.iterators or {}
  self.iterators[#self.iterators + 1] = made
  return made
end

--- Close the connections of these calls.
-- @local
function real_time.close_agent(self)
  if self.agent then
    self.agent.session:close()
  end
  for _, each in ipairs(self.iterators or {}) do
    each:close()
  end
end

return real_time
