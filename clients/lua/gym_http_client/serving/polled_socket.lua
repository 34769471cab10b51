--- Sockets that never block.
--
-- A polled socket is used in a coroutine, which it suspends where a `Connection` would
-- wait; so code that reads from connections reads from polled sockets, too. The caller
-- resumes the coroutine when there is new data, or from time to time.
-- @module gym_http_client.serving.polled_socket
local socket = require("socket")

local certificates = require("gym_http_client.certificates")
local connections = require("gym_http_client.connection")

local wire = {}

local Wire = {}
Wire.__index = Wire

local failure = connections.failure

-- Error texts of luasocket and LuaSec for an operation that would wait.
local WAITS = { timeout = "reads", wantread = "reads", wantwrite = "writes" }
local PIECE = 8192
-- Bytes that are read before the game has its turn again.
local AT_ONCE = 262144

--- Make a wire that leads nowhere yet.
function wire.new()
  return setmetatable({ pieces = {}, size = 0, turn = 0, waiting = {}, sent = 0 }, Wire)
end

-- Suspend the coroutine; fails once the time is over.
local function pause(self, wants, deadline)
  if deadline and socket.gettime() >= deadline then
    return nil, failure("timeout", "nothing happens within the time limit")
  end
  self.wants = wants
  coroutine.yield()
  self.turn = 0
  return true
end

local function dial(self, place, port, deadline)
  local raw = socket.tcp()
  raw:settimeout(0)
  self.raw = raw
  local ok, reason = raw:connect(place, port)
  while not ok and reason ~= "already connected" do
    if not WAITS[reason] and reason ~= "Operation already in progress" then
      raw:close()
      self.raw = nil
      return nil, failure("absent", tostring(reason))
    end
    local going, failed = pause(self, "writes", deadline)
    if not going then
      return nil, failed
    end
    local _, writable = socket.select(nil, { raw }, 0)
    if writable[raw] then
      ok, reason = raw:connect(place, port)
    end
  end
  raw:setoption("tcp-nodelay", true)
  return true
end

local function secure(self, host, tls, deadline)
  local secured, why = certificates.wrap(self.raw, host, tls)
  if not secured then
    return nil, failure("untrusted", why)
  end
  secured:settimeout(0)
  self.raw = secured
  while true do
    local ok, reason = secured:dohandshake()
    if ok then
      break
    elseif not WAITS[reason] then
      return nil, failure("untrusted", "the server could not prove its identity: " .. reason)
    end
    local going, failed = pause(self, WAITS[reason], deadline)
    if not going then
      return nil, failed
    end
  end
  why = certificates.doubt(secured, host, tls)
  if why then
    return nil, failure("untrusted", "the server could not prove its identity: " .. why)
  end
  return true
end

--- Connect.
-- @tparam table address from `address.parse`, with its `places`
-- @tparam number deadline in the time of `socket.gettime`
-- @tparam ?table tls further options of LuaSec
-- @treturn ?boolean true
-- @treturn ?table failure
function Wire:connect(address, deadline, tls)
  local ok, failed = nil, failure("absent", "there is no such host")
  for _, place in ipairs(address.places) do
    ok, failed = dial(self, place, address.port, deadline)
    if ok or failed.kind == "timeout" then
      break
    end
  end
  if ok and address.scheme == "https" then
    return secure(self, address.host, tls, deadline)
  end
  return ok, failed
end

-- Read the available bytes, or wait for some.
local function fill(self, deadline)
  if self.turn >= AT_ONCE then
    return pause(self, "reads", deadline)
  end
  local data, reason, partial = self.raw:receive(PIECE)
  data = data or partial or ""
  if data ~= "" then
    self.has_received = true
    self.pieces[#self.pieces + 1] = data
    self.size, self.turn = self.size + #data, self.turn + #data
    return true
  elseif WAITS[reason] then
    return pause(self, WAITS[reason], deadline)
  end
  return nil, failure("lost", "the connection was " .. (reason == "closed" and "closed" or
    "lost: " .. tostring(reason)))
end

--- Receive exactly so many bytes.
-- @treturn ?string
-- @treturn ?table failure
function Wire:exactly(count, deadline)
  while self.size < count do
    local ok, failed = fill(self, deadline)
    if not ok then
      return nil, failed
    end
  end
  local data = table.concat(self.pieces)
  self.pieces, self.size = { data:sub(count + 1) }, self.size - count
  return data:sub(1, count)
end

--- Receive the available bytes, at least one.
-- @treturn ?string empty at the end of the connection
-- @treturn ?table failure
function Wire:some(deadline)
  while self.size == 0 do
    local ok, failed = fill(self, deadline)
    if not ok then
      return failed.kind == "lost" and "" or nil, failed
    end
  end
  return self:exactly(self.size)
end

--- Put bytes back that were received, to be received again.
function Wire:put_back(data)
  table.insert(self.pieces, 1, data)
  self.size = self.size + #data
end

--- Send as many bytes as possible; `flush` sends the others.
-- @treturn boolean true
function Wire:send(data)
  self.waiting[#self.waiting + 1] = data
  self:flush()
  return true
end

--- Continue sending. A failure is found by the next read.
function Wire:flush()
  while self.raw and self.waiting[1] do
    local data = self.waiting[1]
    local last, _, partial = self.raw:send(data, self.sent + 1)
    if not last then
      self.sent = partial or self.sent
      return
    end
    table.remove(self.waiting, 1)
    self.sent = 0
  end
end

--- Wait until the coroutine can continue, at most for these seconds.
function Wire:wait(seconds)
  if not self.raw then
    socket.sleep(seconds)
    return
  end
  local writes = self.wants == "writes" or self.waiting[1] ~= nil
  socket.select({ self.raw }, writes and { self.raw } or nil, seconds)
end

--- Close it.
function Wire:close()
  if self.raw then
    self.raw:close()
    self.raw = nil
  end
end

return wire
