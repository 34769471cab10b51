--- Requesters: send requests to one server until there is an answer.
--
-- A repeated request has the same key and the same bytes, so that a server
-- which has executed it already returns the answer that was lost.
-- @module gym_http_client.requester
local socket = require("socket")

local random_bytes = require("gym_http_client.random_bytes")
local http1 = require("gym_http_client.http1")
local connections = require("gym_http_client.connection")
local retries = require("gym_http_client.retries")
local server_warnings = require("gym_http_client.server_warnings")

local requester = {}

local Requester = {}
Requester.__index = Requester

--- Make a requester.
-- @tparam table address from `address.parse`
-- @tparam table options `time_limit`, `answer_limit`, `max_body`, `tls`
function requester.new(address, options)
  return setmetatable({ address = address, options = options, met = false }, Requester)
end

--- Return the deadline of a call that begins now.
-- @tparam[opt] number wait seconds that the server may wait, on top of the time limit
function Requester:deadline(wait)
  return self.common or socket.gettime() + self.options.time_limit + (wait or 0)
end

--- Call a function whose requests together have the time of one call.
-- @tparam number wait seconds that the server may wait, on top of that
-- @tparam function call
-- @param ... its arguments
function Requester:together(wait, call, ...)
  self.common = self:deadline(wait)
  local function done(fine, ...)
    self.common = nil
    if not fine then
      error((...), 0)
    end
    return ...
  end
  return done(pcall(call, ...))
end

--- Write the head of a request.
-- @tparam string method
-- @tparam string path below the server's address
-- @tparam table fields pairs of names and values
function Requester:head(method, path, fields)
  local address = self.address
  local lines = {
    ("%s %s%s HTTP/1.1"):format(method, address.prefix, path),
    "Host: " .. address.host_header,
    "User-Agent: gym_http_client-lua",
  }
  if address.token then
    lines[#lines + 1] = "Authorization: Bearer " .. address.token
  end
  for _, field in ipairs(fields) do
    lines[#lines + 1] = field[1] .. ": " .. field[2]
  end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- After any failure, the connection is reusable only after its answer.
local function take_line(self, deadline)
  local kept = self.connection
  self.connection = nil
  if kept and not kept:is_stale() then
    return kept
  elseif kept then
    kept:close()
  end
  return connections.open(self.address, deadline, self.options.tls)
end

local function converse(self, connection, message, deadline)
  local sent, lost = connection:send(message, deadline)
  if not sent then
    return nil, lost
  end
  local head, failed = http1.read_head(connection, deadline)
  if not head then
    return nil, failed
  elseif head.status == 101 then
    return nil, connections.failure("malformed", "it switches to a protocol that was not requested")
  end
  local body, rest = http1.read_body(connection, head, self.options.max_body, deadline)
  if not body then
    return nil, rest
  end
  return { status = head.status, fields = head.fields, body = body, keeps_alive = rest }
end

-- One attempt; returns the reply, or nil and the failure.
local function exchange(self, message, deadline)
  local connection, failed = take_line(self, deadline)
  if not connection then
    return nil, failed
  end
  local reply
  reply, failed = converse(self, connection, message, deadline)
  if reply and reply.keeps_alive then
    self.connection = connection
  else
    connection:close()
  end
  return reply, failed
end

--- Return the URL of a path, without the token.
function Requester:url(path)
  return self.address.url .. path
end

--- Send a request until there is an answer.
-- @tparam string method GET, POST, PUT or DELETE
-- @tparam string path below the server's address
-- @tparam[opt] table request `body`, `content_type`, `accept`, `key`, `deadline`;
-- `headers`, pairs of names and values; `last_failure`, an earlier failure, as text;
-- and `creation_wait`, if it makes an instance: the seconds that the server may wait
-- for external environments, on top of all limits; without one, the answer is final
-- @treturn ?table `status`, `fields` and `body`
-- @treturn ?Error
function Requester:request(method, path, request)
  request = request or {}
  local body = request.body or ""
  local fields = {}
  local key = request.key or (method ~= "GET" and random_bytes.name()) or nil
  if key then
    fields[1] = { "Idempotency-Key", key }
  end
  if request.accept then
    fields[#fields + 1] = { "Accept", request.accept }
  end
  for _, field in ipairs(request.headers or {}) do
    fields[#fields + 1] = field
  end
  if method ~= "GET" then
    fields[#fields + 1] = { "Content-Type", request.content_type or "application/json" }
    fields[#fields + 1] = { "Content-Length", #body }
  end
  local message = self:head(method, path, fields) .. body
  local wait = request.creation_wait
  local deadline = request.deadline or self:deadline(wait)
  local answer_limit = self.options.answer_limit + (wait or 0)
  local trying = retries.new(deadline, self.met, wait ~= nil, request.last_failure)
  while true do
    local limit = math.min(deadline, socket.gettime() + answer_limit)
    local reply, failed = exchange(self, message, limit)
    local again = trying:again(reply, failed)
    self.met = trying.met
    if not again and reply then
      -- Servers of a fleet name the node of an instance that is made or described.
      self.in_fleet = self.in_fleet or reply.fields["gym-node"] ~= nil
      server_warnings.show_header(self, reply)
      return reply
    elseif not again then
      return nil, trying:error_of(failed, self:url(path))
    end
  end
end

--- Close the connection; a later request opens it again.
function Requester:close()
  if self.connection then
    self.connection:close()
    self.connection = nil
  end
end

return requester
