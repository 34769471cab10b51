--- Which requests are sent again, when, and for how long.
-- @module gym_http_client.retries
local socket = require("socket")

local random_bytes = require("gym_http_client.random_bytes")
local errors = require("gym_http_client.errors")

local retries = {}

-- Statuses of requests that were not executed, and may succeed later.
local REPEATED = { [408] = true, [429] = true, [503] = true }
-- Codes that are final for a create, with any status: the server has
-- already waited for `wait_s`.
local FINAL_OF_CREATION = { ["external-away"] = true }

local FIRST, LONGEST = 0.05, 5.0
-- Seconds for all attempts if no server ever answered: the address may be mistyped.
local FIRST_CONTACT = 5.0
local REPEATED_KINDS = { absent = true, lost = true, timeout = true }

--- Return whether a request may succeed later, by its answer.
-- @tparam table reply
-- @tparam[opt] boolean creates whether the request makes an instance
function retries.is_repeated(reply, creates)
  if not REPEATED[reply.status] or not creates then
    return REPEATED[reply.status] or false
  end
  local _, code = errors.message_and_code(reply)
  return not FINAL_OF_CREATION[code or ""]
end

local Tries = {}
Tries.__index = Tries

--- The attempts of one request.
-- @tparam number deadline of all of them
-- @tparam boolean met whether the server has answered before
-- @tparam[opt] boolean creates whether the request makes an instance
-- @tparam[opt] string last_failure an earlier failure
function retries.new(deadline, met, creates, last_failure)
  local fields = {
    deadline = deadline, met = met, creates = creates, last_failure = last_failure,
    count = 1, began = socket.gettime(),
  }
  return setmetatable(fields, Tries)
end

local function required_pause(reply)
  local query = reply.fields["retry-after"] or ""
  return query:find("^%d+$") and tonumber(query:sub(1, 9)) or 0
end

local function words_of(reply)
  local message = errors.message_and_code(reply)
  return message and ("%s (status %d)"):format(message, reply.status) or "status " .. reply.status
end

-- Keep the last failure, unless it is only a timeout.
local function remember(self, reply, failed)
  if reply then
    self.last_failure = words_of(reply)
  elseif failed.kind ~= "timeout" then
    self.last_failure = failed.words
  end
end

--- Pause before another attempt; return whether there is one.
-- @tparam ?table reply of the last attempt
-- @tparam ?table failed its failure
function Tries:again(reply, failed)
  self.met = self.met or reply ~= nil or failed.kind ~= "absent"
  if reply and not retries.is_repeated(reply, self.creates) then
    return false
  elseif not reply and not REPEATED_KINDS[failed.kind] then
    return false
  end
  local last = self.deadline
  if not self.met then
    last = math.min(last, self.began + FIRST_CONTACT)
  end
  local bound = math.min(FIRST * 2 ^ math.min(self.count - 1, 30), LONGEST)
  local pause = (reply and required_pause(reply) or 0) + random_bytes.fraction() * bound
  if socket.gettime() + pause >= last then
    return false
  end
  remember(self, reply, failed)
  socket.sleep(pause)
  self.count = self.count + 1
  return true
end

--- Make the error of a call of which the last try failed.
-- @tparam table failed why
-- @tparam string url where it went
function Tries:error_of(failed, url)
  if failed.kind == "malformed" then
    local words = "the answer is malformed, %s: is it a gym_http_server?"
    return errors.protocol(words:format(failed.words), url)
  end
  local words = "there is no answer: " .. failed.words
  if failed.kind == "timeout" and self.last_failure then
    words = words .. "; before that: " .. self.last_failure
  end
  return errors.transport(words, url)
end

return retries
