--- Heartbeats: whether the other side is still there.
-- @module gym_http_client.serving.heartbeats
local socket = require("socket")

local heartbeats = {}

local Heartbeats = {}
Heartbeats.__index = Heartbeats

--- Begin to listen.
-- @tparam number seconds between beats
function heartbeats.new(seconds)
  local due = socket.gettime() + seconds
  return setmetatable({ seconds = seconds, due = due, quiet = 0 }, Heartbeats)
end

--- Return what to do after silence.
-- @tparam boolean arrived whether bytes have arrived since the last call
-- @treturn ?string `"ping"`, or `"leave"`
function Heartbeats:beat(arrived)
  if arrived then
    self.quiet = 0
  end
  local now = socket.gettime()
  if now < self.due then
    return nil
  end
  -- Counted in beats, since frames may be late.
  self.due, self.quiet = now + self.seconds, self.quiet + 1
  return self.quiet == 1 and "ping" or self.quiet > 2 and "leave" or nil
end

return heartbeats
