--- Streams at the node of a fleet that has an instance, instead of through another one.
--
-- A ticket opens them: the token is sent only to the address that the user named.
-- @module gym_http_client.node_streams
local socket = require("socket")

local address = require("gym_http_client.address")
local handshake = require("gym_http_client.handshake")
local json = require("gym_http_client.json")
local malformed = require("gym_http_client.malformed")
local plain = require("gym_http_client.plain")
local requesters = require("gym_http_client.requester")

local node_streams = {}

-- Seconds in which a node must answer; then the stream goes through the first address.
local SECONDS = 1
local SCHEMES = { ws = "http", wss = "https" }

--- Return the address of a stream's node, if its URL is good.
-- @param url of the stream, as the server has it
-- @tparam string scheme of the first address; with TLS there, none goes without
-- @tparam string quoted_id of the instance
-- @treturn ?table the address, without a token
-- @treturn ?string the path of the stream below it
function node_streams.parse(url, scheme, quoted_id)
  local own, place, path
  if type(url) == "string" then
    own, place, path = url:match("^(wss?)://([%w.:/%%%[%]~_-]+)(/v1/envs/[^/]+/stream)/?$")
  end
  if path ~= "/v1/envs/" .. quoted_id .. "/stream" or (own == "ws" and scheme ~= "http") then
    return nil
  end
  local good, found = pcall(address.parse, SCHEMES[own] .. "://" .. place, "")
  if not good then
    return nil
  end
  return found, path
end

-- Request a ticket and the URL of its stream; returns nil if the request fails.
local function ticket_of(self, deadline)
  local reply = self.requester:request("POST", "/v1/tickets/", {
    body = plain.encode({ instance_id = self.quoted_id }),
    deadline = deadline,
  })
  if not reply or reply.status ~= 200 then
    return nil
  end
  local answer = malformed.attempt(json.read, reply.body)
  return type(answer) == "table" and answer or nil
end

--- Open a stream at the instance's node. On a server without a fleet, this sends nothing.
-- @tparam Session self with `requester` and `quoted_id`; `nodeless` is set if the node
-- has no URL of its own
-- @tparam string query of the stream's path
-- @tparam number deadline
-- @treturn ?Connection nil if there is none
function node_streams.open(self, query, deadline)
  if not self.requester.in_fleet or self.nodeless then
    return nil
  end
  local answer = ticket_of(self, math.min(deadline, socket.gettime() + SECONDS))
  if not answer then
    return nil
  end
  local first = self.requester
  local found, path = node_streams.parse(answer.stream_url, first.address.scheme, self.quoted_id)
  if not found or type(answer.ticket) ~= "string" then
    self.nodeless = true
    return nil
  end
  path = path .. query .. "&ticket=" .. address.quoted(answer.ticket)
  local node = requesters.new(found, first.options)
  return (handshake.open(node, path, math.min(deadline, socket.gettime() + SECONDS)))
end

return node_streams
