--- Connections of provided environments: messages to and from a server, without waiting.
-- @module gym_http_client.serving.connections
local socket = require("socket")

local addresses = require("gym_http_client.address")
local certificates = require("gym_http_client.certificates")
local random_bytes = require("gym_http_client.random_bytes")
local errors = require("gym_http_client.errors")
local handshake = require("gym_http_client.handshake")
local requesters = require("gym_http_client.requester")
local usage = require("gym_http_client.usage")
local websocket = require("gym_http_client.websocket")
local polled_sockets = require("gym_http_client.serving.polled_socket")
local standard_streams = require("gym_http_client.serving.standard_streams")
local packing = require("gym_http_client.packing")

local connections = {}

local PATH = "/v1/external/"
local PROTOCOL = "gym-http.external.v1"
local STDIO = "stdio:"
local OPENING_SECONDS = 10
local MAX_MESSAGE = 64 * 1024 * 1024
local MAX_REFUSAL = 65536
local SCHEMES = { ws = "http", wss = "https", tcp = "http" }

local Connection = {}
Connection.__index = Connection

--- Parse the target of connections.
-- @tparam string url with http, https, ws, wss, or tcp; or `stdio:`
-- @tparam ?string token as for `address.parse`
-- @tparam ?table tls
function connections.target(url, token, tls)
  if url == STDIO then
    standard_streams.take()
    return { stdio = true, address = { url = url, counted = true } }
  end
  local scheme, rest = tostring(url):match("^(%a+)(://.*)$")
  scheme = scheme and scheme:lower()
  local known = SCHEMES[scheme] and SCHEMES[scheme] .. rest or url
  local address = addresses.parse(known, token)
  if scheme == "tcp" and (address.port == 80 and not rest:find(":80$") or address.prefix ~= "") then
    usage.raise("an address with tcp looks like tcp://127.0.0.1:5555")
  elseif address.scheme == "https" then
    local _, missing = certificates.library()
    if missing then
      usage.raise(missing)
    end
  end
  address.counted = scheme == "tcp"
  local requester = requesters.new(address, { max_body = MAX_REFUSAL, tls = tls })
  local target = { address = address, requester = requester, tls = tls }
  -- Names are looked up before the first frame, since that waits.
  connections.look_up(target)
  return target
end

--- Look the host's name up, if it is not known yet; this may wait.
function connections.look_up(target)
  local address = target.address
  if not address.places or not address.places[1] then
    address.places = {}
    for index, found in ipairs(socket.dns.getaddrinfo(address.host) or {}) do
      address.places[index] = found.addr
    end
  end
end

local function upgraded(self, deadline)
  local ok, failed, reply = handshake.upgrade(
    self.socket, self.target.requester, PATH, PROTOCOL, deadline)
  if ok then
    return true
  elseif reply then
    return nil, "the server refuses: " .. errors.of_reply(reply, "").message
  end
  return nil, "the handshake failed: " .. failed.words
end

local function next_counted(self)
  local count, failed = self.socket:exactly(4)
  if not count then
    return nil, failed.words
  end
  local size = packing.u32(count, 1)
  if size > MAX_MESSAGE then
    return nil, ("a message announces %.0f bytes; the limit is %d"):format(size, MAX_MESSAGE)
  end
  local message
  message, failed = self.socket:exactly(size)
  return message, failed and failed.words
end

local function next_of_websocket(self)
  while true do
    local opcode, payload = self.reader:next()
    if not opcode then
      return nil, payload.words
    elseif opcode == websocket.TEXT or opcode == websocket.BINARY then
      return payload
    elseif opcode == websocket.PING then
      self.socket:send(websocket.frame(websocket.PONG, payload, random_bytes.bytes(4)))
    elseif opcode == websocket.CLOSE then
      local reason = payload:sub(3)
      return nil, reason ~= "" and reason or "the server ended the connection"
    end
  end
end

-- The body of the coroutine; returns why the connection has ended.
local function live(self)
  local address = self.target.address
  local deadline = socket.gettime() + OPENING_SECONDS
  local ok, failed = self.socket:connect(address, deadline, self.target.tls)
  if not ok then
    local where = (address.counted and address.url:gsub("^http", "tcp") or address.url)
    return ("there is no server at %s: %s"):format(where, failed.words)
  elseif not address.counted then
    ok, failed = upgraded(self, deadline)
    if not ok then
      return failed
    end
    self.reader = websocket.reader(self.socket, MAX_MESSAGE)
  end
  self.is_open = true
  local next_message = address.counted and next_counted or next_of_websocket
  while true do
    local message, lost = next_message(self)
    if not message then
      return lost
    end
    self.arrived[#self.arrived + 1] = message
  end
end

--- Begin to open a connection.
-- @tparam table target from `connections.target`
-- @treturn Connection
function connections.open(target)
  if not target.stdio then
    connections.look_up(target)
  end
  local wire = (target.stdio and standard_streams or polled_sockets).new()
  local self = setmetatable({ target = target, socket = wire, arrived = {} }, Connection)
  self.living = coroutine.create(live)
  return self
end

--- Do all that is possible without waiting.
-- @treturn table the received messages
-- @treturn ?string why the connection has ended, if it has
function Connection:advance()
  self.socket:flush()
  local ok, lost = coroutine.resume(self.living, self)
  if not ok then
    error(debug.traceback(self.living, tostring(lost)), 0)
  end
  local arrived = self.arrived
  self.arrived = {}
  return arrived, lost
end

--- Whether bytes have arrived since the last call.
function Connection:has_received()
  local received = self.socket.has_received
  self.socket.has_received = false
  return received
end

--- Send a message.
-- @tparam string message
-- @tparam boolean is_text
function Connection:send(message, is_text)
  if self.target.address.counted then
    self.socket:send(packing.write_u32(#message) .. message)
  else
    local opcode = is_text and websocket.TEXT or websocket.BINARY
    self.socket:send(websocket.frame(opcode, message, random_bytes.bytes(4)))
  end
end

--- Wait until there may be something to do, at most for so many seconds.
function Connection:wait(seconds)
  self.socket:wait(seconds)
end

--- Close the connection.
function Connection:close()
  if self.is_open and not self.target.address.counted then
    -- Its code is 1000: the environment leaves.
    self.socket:send(websocket.frame(websocket.CLOSE, "\3\232", random_bytes.bytes(4)))
  end
  self.socket:close()
end

return connections
