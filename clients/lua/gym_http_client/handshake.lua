--- Handshakes: how the connection of a stream begins.
-- @module gym_http_client.handshake
local base64 = require("gym_http_client.base64")
local random_bytes = require("gym_http_client.random_bytes")
local http1 = require("gym_http_client.http1")
local connections = require("gym_http_client.connection")
local websocket = require("gym_http_client.websocket")

local handshake = {}

local STREAM = "gym-http.v1"

local function refused(connection, head, requester, deadline)
  local body, rest = http1.read_body(connection, head, requester.options.max_body, deadline)
  if not body then
    return nil, rest
  end
  return nil, nil, { status = head.status, fields = head.fields, body = body }
end

--- Make a connection a WebSocket.
-- @tparam table connection a `Connection`, or an object like it
-- @tparam Requester requester of the server
-- @tparam string path of the WebSocket
-- @tparam string protocol of the WebSocket
-- @tparam number deadline
-- @treturn ?boolean true
-- @treturn ?table failure
-- @treturn ?table reply, if the server answers without a WebSocket
function handshake.upgrade(connection, requester, path, protocol, deadline)
  local key = base64.encode(random_bytes.bytes(16))
  local sent, failed = connection:send(requester:head("GET", path, {
    { "Accept", "application/problem+json" },
    { "Connection", "Upgrade" },
    { "Upgrade", "websocket" },
    { "Sec-WebSocket-Version", "13" },
    { "Sec-WebSocket-Protocol", protocol },
    { "Sec-WebSocket-Key", key },
  }), deadline)
  if not sent then
    return nil, failed
  end
  local head
  head, failed = http1.read_head(connection, deadline)
  if not head then
    return nil, failed
  elseif head.status ~= 101 then
    return refused(connection, head, requester, deadline)
  elseif head.fields["sec-websocket-accept"] ~= websocket.accept_of(key)
    or head.fields["sec-websocket-protocol"] ~= protocol then
    return nil, connections.failure("malformed", "the handshake's answer is not to our handshake")
  end
  return true
end

--- Open a connection, and make it a stream.
-- @tparam Requester requester to the server
-- @tparam string path of the stream
-- @tparam number deadline
-- @treturn ?Connection
-- @treturn ?table failure
-- @treturn ?table reply, if the server answers without a stream
function handshake.open(requester, path, deadline)
  local connection, failed = connections.open(requester.address, deadline, requester.options.tls)
  if not connection then
    return nil, failed
  end
  local ok, lost, reply = handshake.upgrade(connection, requester, path, STREAM, deadline)
  if not ok then
    connection:close()
    return nil, lost, reply
  end
  return connection
end

return handshake
