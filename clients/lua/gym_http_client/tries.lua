--- Tries: what is sent again, when, and for how long.
-- @module gym_http_client.tries
local socket = require("socket")

local entropy = require("gym_http_client.entropy")

local tries = {}

--- Statuses by which a server says that it has not done it, and may do it later.
tries.REPEATED = { [408] = true, [429] = true, [503] = true }

local FIRST, LONGEST = 0.05, 5.0
-- Seconds for all tries where nobody has ever been: the address may be mistyped.
local FIRST_CONTACT = 5.0
local REPEATED_KINDS = { absent = true, lost = true, timeout = true }

local Tries = {}
Tries.__index = Tries

--- The tries of one request.
-- @tparam number deadline of all of them
-- @tparam boolean met whether there has been somebody at the address before
function tries.new(deadline, met)
  local fields = { deadline = deadline, met = met, count = 1, began = socket.gettime() }
  return setmetatable(fields, Tries)
end

local function asked_pause(reply)
  local asked = reply.fields["retry-after"] or ""
  return asked:find("^%d+$") and tonumber(asked:sub(1, 9)) or 0
end

--- Pause if there is to be another try; tell whether.
-- @tparam ?table reply what the present one brought
-- @tparam ?table failed why it brought nothing
function Tries:again(reply, failed)
  self.met = self.met or reply ~= nil or failed.kind ~= "absent"
  if reply and not tries.REPEATED[reply.status] then
    return false
  elseif not reply and not REPEATED_KINDS[failed.kind] then
    return false
  end
  local last = self.deadline
  if not self.met then
    last = math.min(last, self.began + FIRST_CONTACT)
  end
  local bound = math.min(FIRST * 2 ^ math.min(self.count - 1, 30), LONGEST)
  local pause = (reply and asked_pause(reply) or 0) + entropy.fraction() * bound
  if socket.gettime() + pause >= last then
    return false
  end
  socket.sleep(pause)
  self.count = self.count + 1
  return true
end

return tries
