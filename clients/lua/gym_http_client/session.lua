--- Sessions: numbered requests to one instance, over a stream if possible.
--
-- Request n of session S has the key `S-n` over every transport. So after a lost answer
-- it is sent again over another stream, or by REST, and is not executed twice.
-- @module gym_http_client.session
local socket = require("socket")

local address = require("gym_http_client.address")
local binary = require("gym_http_client.binary")
local random_bytes = require("gym_http_client.random_bytes")
local errors = require("gym_http_client.errors")
local frames = require("gym_http_client.frames")
local kinds = require("gym_http_client.kinds")
local handshake = require("gym_http_client.handshake")
local connections = require("gym_http_client.connection")
local media = require("gym_http_client.media")
local malformed = require("gym_http_client.malformed")
local node_streams = require("gym_http_client.node_streams")
local streams = require("gym_http_client.stream")
local retries = require("gym_http_client.retries")
local server_warnings = require("gym_http_client.server_warnings")
local packing = require("gym_http_client.packing")

local session = {}

-- Methods and paths of operations over HTTP, unless these are POST and the name.
local ROUTES = {
  act = { "POST", "action/" },
  updates = { "GET", "updates/" },
  realtime = { "GET", "realtime/" },
  set_realtime = { "POST", "realtime/" },
  pause = { "POST", "realtime/pause/" },
  resume = { "POST", "realtime/resume/" },
  trace = { "GET", "realtime/trace/" },
}

local Session = {}
Session.__index = Session

local HANDSHAKE_SECONDS = 10
-- Failed handshakes in a row after which streams rest: seconds without a handshake, twice
-- as many after each further one that fails.
local FAILED_HANDSHAKES = 3
local FIRST_REST, LONGEST_REST = 0.5, 300
local SERVER_ERRORS = 500
local MAX_NUMBER = 4294967295
-- The kernel accepts smaller messages whole, so that the reason for the end of the stream
-- can be read. While a larger one is sent, sending fails.
local SURELY_READ = 65536
-- These codes mean that there are no streams; other problems concern the instance.
local NO_STREAMS = {
  ["malformed-request"] = true, ["method-not-allowed"] = true, ["not-found"] = true,
  ["upgrade-required"] = true,
}

--- Begin a session.
-- @tparam Requester requester to the server
-- @tparam string quoted_id the instance's ID, as it stands in a path
-- @tparam table options `streams` and `raw`
function session.new(requester, quoted_id, options)
  return setmetatable({
    requester = requester,
    quoted_id = quoted_id,
    path = "/v1/envs/" .. quoted_id .. "/",
    name = random_bytes.name(),
    number = 0,
    streams = options.streams,
    failed_handshakes = 0,
    rests_until = 0,
    raw = options.raw,
  }, Session)
end

local function lose(self)
  if self.stream then
    self.stream:close()
    self.stream = nil
  end
end

-- Have the present request go by REST; a later one tries a stream again.
local function do_without(self)
  self.failed_handshakes = self.failed_handshakes + 1
  local further = self.failed_handshakes - FAILED_HANDSHAKES
  if further >= 0 then
    local seconds = math.min(FIRST_REST * 2 ^ math.min(further, 10), LONGEST_REST)
    self.rests_until = socket.gettime() + seconds
  end
end

-- Whether a handshake may succeed later, as when the server behind a proxy is back.
local function is_passing(reply)
  if retries.is_repeated(reply) then
    return true
  end
  local _, code = errors.message_and_code(reply)
  return reply.status >= SERVER_ERRORS and not code
end

-- Open a stream if possible; returns an error if the instance is the reason.
local function reopen(self, deadline)
  local query = "?session=" .. self.name
  local now = socket.gettime()
  if self.lost_at then
    -- If the instance ended meanwhile, it did so in the call that waits.
    query = query .. ("&lost=%.3f"):format(math.max(0, now - self.lost_at)):gsub(",", ".")
  end
  local answer_limit = self.requester.options.answer_limit
  local connection, failed, reply = node_streams.open(self, query, deadline)
  if not connection then
    now = socket.gettime()
    local limit = math.min(deadline, now + HANDSHAKE_SECONDS, now + answer_limit)
    local path = self.path .. "stream" .. query
    connection, failed, reply = handshake.open(self.requester, path, limit)
  end
  if connection then
    self.failed_handshakes, self.lost_at = 0, nil
    self.stream = streams.new(connection, self.requester.options.max_body + 65552, self.raw)
  elseif failed or is_passing(reply) then
    do_without(self)
  else
    local message, code = errors.message_and_code(reply)
    if code and not NO_STREAMS[code] then
      return errors.of_reply(reply, self.requester:url(self.path .. "stream"))
    end
    self.streams = false
    if code == "upgrade-required" then
      -- A proxy may be the cause, and its operator needs to know.
      local where = self.requester:url(self.path .. "stream")
      io.stderr:write("steps go over HTTP, which is slower than a stream: ", where,
        " answered 426, ", tostring(message), "\n")
    end
  end
  return nil
end

-- The result of an answer: a value, or nil and an error; or nil, nil and a failure.
local function outcome_of(self, frame, query)
  if frame.number ~= query.number then
    local why = ("answer %d arrived instead of answer %d"):format(frame.number, query.number)
    return nil, nil, connections.failure("malformed", why)
  elseif frame.status == 204 then
    return true
  elseif frame.status ~= 200 then
    local body = frame.message:sub(frame.body_at)
    local failed = errors.of_problem(body, frame.status,
      self.requester:url(self.path .. query.path))
    server_warnings.show(self.requester, failed.problem and failed.problem.warnings)
    return nil, failed
  elseif frame.forms % 16 ~= frames.BINARY then
    return nil, nil, connections.failure("malformed", "a value is not in the requested form")
  end
  local value, failed = self.stream:value(frame)
  return value, nil, failed
end

local function by_stream(self, query, deadline)
  local limit = math.min(deadline, socket.gettime() + self.requester.options.answer_limit)
  local sent, failed = self.stream:send(query, limit)
  local frame
  if sent then
    frame, failed = self.stream:receive(limit)
  end
  if not frame then
    return nil, nil, failed
  end
  return outcome_of(self, frame, query)
end

local function by_rest(self, query, deadline, last_failure)
  local body = query.plain or ""
  if query.signature then
    body = packing.write_u32(#query.signature) .. "\0\0\0\0" .. query.signature .. query.leaves
  end
  local path = self.path .. query.path
  local sent = query.method ~= "GET"
  if query.search then
    path = path .. "?" .. query.search
  end
  local reply, failed = self.requester:request(query.method, path, {
    body = sent and body or nil,
    content_type = query.signature and media.BINARY or media.PLAIN,
    accept = media.BINARY,
    key = sent and self.name .. "-" .. query.number or nil,
    deadline = deadline,
    last_failure = last_failure,
  })
  if not reply then
    return nil, failed
  elseif reply.status == 204 then
    return true
  elseif reply.status ~= 200 or reply.fields["content-type"] ~= media.BINARY then
    return nil, errors.of_reply(reply, self.requester:url(path))
  end
  local value, why = malformed.attempt(binary.decode, reply.body, self.raw)
  if why then
    return nil, errors.protocol("a value " .. why, self.requester:url(path), reply.status)
  end
  return value
end

local function search_of(given)
  local parts = {}
  for _, name in ipairs(kinds.keys(given)) do
    parts[#parts + 1] = name .. "=" .. address.quoted(tostring(given[name]))
  end
  return table.concat(parts, "&")
end

local function may_be_too_large(query, failure)
  local size = #(query.plain or "") + #(query.leaves or "")
  return failure.kind == "too-large" or (failure.kind == "lost" and size > SURELY_READ)
end

local function outcome(self, query, deadline)
  local trying
  while self.stream or self.streams and socket.gettime() >= self.rests_until do
    if not self.stream then
      local failed = reopen(self, deadline)
      if failed then
        return nil, failed
      elseif not self.stream then
        break
      end
    end
    local value, problem, failure = by_stream(self, query, deadline)
    if problem and retries.is_repeated(problem) then
      -- It was not done, and may be later.
      break
    elseif not failure then
      return value, problem
    end
    lose(self)
    self.lost_at = socket.gettime()
    if may_be_too_large(query, failure) then
      -- Over REST the server returns this error with its limit.
      break
    end
    trying = trying or retries.new(deadline, true)
    if not trying:again(nil, failure) then
      return nil, trying:error_of(failure, self.requester:url(self.path .. query.path))
    end
  end
  return by_rest(self, query, deadline, trying and trying.last_failure)
end

--- Send a request, and wait for the answer.
-- @tparam string name of the operation, such as `"step"`
-- @tparam[opt] string plain JSON of the body
-- @tparam[opt] string signature of the body, if it is not JSON
-- @tparam[opt] string leaves
-- @tparam[opt] table given the members of the body, which over HTTP are a query
-- @return the value of the answer, or nil
-- @treturn ?Error
function Session:perform(name, plain, signature, leaves, given)
  if self.requesting then
    -- The last call was interrupted: its answer would be mistaken for this one's.
    lose(self)
  end
  self.requesting = true
  if self.number == MAX_NUMBER then
    lose(self)
    self.name, self.number = random_bytes.name(), 0
  end
  self.number = self.number + 1
  local route = ROUTES[name]
  local query = {
    method = route and route[1] or "POST", path = route and route[2] or name .. "/",
    operation = frames.OPERATIONS[name], number = self.number,
    plain = plain, signature = signature, leaves = leaves,
    search = given and next(given) and search_of(given) or nil,
  }
  local value, failed = outcome(self, query, self.requester:deadline())
  self.requesting = false
  if value == nil and failed.kind ~= "api" then
    -- A late answer would be mistaken for another's.
    lose(self)
  else
    self.lost_at = nil
  end
  server_warnings.taken(self.requester, value)
  return value, failed
end

--- Return the transport of requests: `"stream"` or `"rest"`.
function Session:transport()
  return self.stream and "stream" or "rest"
end

--- Close the stream; a later request opens another.
function Session:close()
  lose(self)
end

return session
