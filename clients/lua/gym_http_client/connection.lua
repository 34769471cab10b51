--- One connection to a server, with a deadline for each wait.
-- @module gym_http_client.connection
local socket = require("socket")

local certificates = require("gym_http_client.certificates")

local connection = {}

-- Error texts of luasocket and LuaSec for a timeout.
local TIMEOUTS = { timeout = true, wantread = true, wantwrite = true }
local AT_ONCE = 8192
local SEND_AT_ONCE = 65536

local Connection = {}
Connection.__index = Connection

--- A failure: why there is no answer, before it becomes the error of a call.
-- @tparam string kind `"absent"`, `"lost"`, `"timeout"`, `"untrusted"` or `"malformed"`
function connection.failure(kind, words)
  return { kind = kind, words = words }
end

local failure = connection.failure

local function left(deadline)
  return deadline - socket.gettime()
end

local function failed(reason)
  if TIMEOUTS[reason] then
    return failure("timeout", "nothing within the time limit")
  end
  return failure("lost", "the connection was " .. (reason == "closed" and "closed" or
    "lost: " .. tostring(reason)))
end

local function absent(reason)
  if TIMEOUTS[reason] then
    return failed(reason)
  end
  local is_absent = reason == "connection refused" or tostring(reason):find("host", 1, true)
    or tostring(reason):find("resolution", 1, true) or tostring(reason):find("service", 1, true)
  return failure(is_absent and "absent" or "lost", "no connection: " .. tostring(reason))
end

--- Open a connection.
-- @tparam table address from `address.parse`
-- @tparam number deadline in the time of `socket.gettime`
-- @tparam table tls further options of LuaSec; see `gym.new`
-- @treturn ?Connection
-- @treturn ?table failure
function connection.open(address, deadline, tls)
  if address.scheme == "https" then
    local _, missing = certificates.library()
    if missing then
      return nil, failure("untrusted", missing)
    end
  end
  local raw = socket.tcp()
  raw:settimeout(math.max(0.001, left(deadline)), "t")
  local ok, reason = raw:connect(address.host, address.port)
  if not ok then
    raw:close()
    return nil, absent(reason)
  end
  raw:setoption("tcp-nodelay", true)
  if address.scheme == "https" then
    local secured, refused = certificates.secure(raw, address.host, tls, left(deadline))
    if not secured then
      return nil, failure("untrusted", refused)
    end
    raw = secured
  end
  return setmetatable({ raw = raw, early = "", hasty = false }, Connection)
end

local function allow(self, deadline)
  local rest = left(deadline)
  if rest <= 0 then
    return false
  elseif self.hasty then
    self.raw:settimeout(-1)
    self.hasty = false
  end
  self.raw:settimeout(rest, "t")
  return true
end

-- From here on read only available bytes, and do not wait.
local function hurry(self)
  self.raw:settimeout(0)
  self.hasty = true
end

--- Send bytes.
-- @treturn ?boolean true
-- @treturn ?table failure
function Connection:send(data, deadline)
  local at = 1
  repeat
    if not allow(self, deadline) then
      return nil, failed("timeout")
    end
    local stop = math.min(#data, at + SEND_AT_ONCE - 1)
    local last, reason = self.raw:send(data, at, stop)
    if not last then
      return nil, failed(reason)
    end
    at = last + 1
  until at > #data
  return true
end

--- Receive exactly so many bytes.
-- @treturn ?string
-- @treturn ?table failure
function Connection:exactly(count, deadline)
  local early = self.early
  if #early >= count then
    self.early = early:sub(count + 1)
    return early:sub(1, count)
  elseif not allow(self, deadline) then
    return nil, failed("timeout")
  end
  local data, reason = self.raw:receive(count - #early)
  if not data then
    return nil, failed(reason)
  end
  if early ~= "" then
    self.early = ""
    data = early .. data
  end
  return data
end

--- Receive the available bytes, at least one.
-- @treturn ?string empty at the end of the connection
-- @treturn ?table failure
function Connection:some(deadline)
  if self.early ~= "" then
    local early = self.early
    self.early = ""
    return early
  elseif not allow(self, deadline) then
    return nil, failed("timeout")
  end
  -- With its first byte, all received bytes are in luasocket's own buffer.
  local first, reason = self.raw:receive(1)
  if not first then
    if reason == "closed" then
      return ""
    end
    return nil, failed(reason)
  end
  hurry(self)
  local more, _, partial = self.raw:receive(AT_ONCE)
  return first .. (more or partial or "")
end

--- Put bytes back that were received, to be received again.
function Connection:put_back(data)
  self.early = data .. self.early
end

--- Whether an idle connection has ended, or has received unexpected bytes.
function Connection:is_stale()
  if self.early ~= "" then
    return true
  end
  hurry(self)
  local _, reason, partial = self.raw:receive(1)
  return not TIMEOUTS[reason] or (partial or "") ~= ""
end

--- Close the connection.
function Connection:close()
  self.raw:close()
end

return connection
