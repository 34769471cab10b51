--- WebSocket (RFC 6455) as a client needs it: no extensions.
-- @module gym_http_client.websocket
local base64 = require("gym_http_client.base64")
local connections = require("gym_http_client.connection")
local masked = require("gym_http_client.masks")
local sha1 = require("gym_http_client.sha1")
local text = require("gym_http_client.text")

local websocket = {}

websocket.TEXT, websocket.BINARY = 1, 2
websocket.CLOSE, websocket.PING, websocket.PONG = 8, 9, 10

local GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
local MAX_CONTROL = 125
local MAX_FRAGMENTS = 65536
local PIECE = 1048576
local char = string.char

--- Compute the Sec-WebSocket-Accept for a Sec-WebSocket-Key.
function websocket.accept_of(key)
  return base64.encode(sha1(key .. GUID))
end

local function size_bytes(size, marked)
  if size < 126 then
    return char(marked + size)
  elseif size < 65536 then
    return char(marked + 126, math.floor(size / 256), size % 256)
  end
  local bytes = {}
  for index = 8, 1, -1 do
    bytes[index] = char(size % 256)
    size = math.floor(size / 256)
  end
  return char(marked + 127) .. table.concat(bytes)
end

--- Encode a frame.
-- @tparam number opcode
-- @tparam string payload
-- @tparam[opt] string mask four bytes, for clients
-- @tparam[opt] boolean unfinished further frames of the message follow
function websocket.frame(opcode, payload, mask, unfinished)
  local first = char((unfinished and 0 or 128) + opcode)
  if not mask then
    return first .. size_bytes(#payload, 0) .. payload
  end
  return first .. size_bytes(#payload, 128) .. mask .. masked(payload, mask)
end

local Reader = {}
Reader.__index = Reader

--- Read a message of a server.
-- @tparam table source has `exactly(count, deadline)`, as connections have
-- @tparam number max_message bytes that a message may have
function websocket.reader(source, max_message)
  return setmetatable({ source = source, max_message = max_message }, Reader)
end

local function malformed(words, ...)
  return nil, connections.failure("malformed", words:format(...))
end

local function number_of(bytes)
  local number = 0
  for index = 1, #bytes do
    number = number * 256 + bytes:byte(index)
  end
  return number
end

local function read_size(self, short, deadline)
  if short < 126 then
    return short
  end
  local bytes, failed = self.source:exactly(short == 126 and 2 or 8, deadline)
  if not bytes then
    return nil, failed
  end
  local size = number_of(bytes)
  if size < (short == 126 and 126 or 65536) then
    return malformed("a length of a frame is not the shortest")
  end
  return size
end

local function check_opcode(self, first, size)
  local opcode, finished = first % 16, first >= 128
  if first % 128 >= 16 then
    return malformed("a reserved bit of a frame is set")
  elseif opcode > 10 or (opcode > 2 and opcode < 8) then
    return malformed("opcode %d is unknown", opcode)
  elseif opcode >= 8 then
    if size > MAX_CONTROL or not finished then
      return malformed("a control frame is too long or in fragments")
    end
  elseif (opcode == 0) ~= (self.parts ~= nil) then
    return malformed("a message begins within another, or goes on without one")
  elseif size + (self.parts and self.size or 0) > self.max_message then
    return malformed("a message has more than %d bytes", self.max_message)
  end
  return true
end

local function read_payload(self, size, deadline)
  if size <= PIECE then
    return self.source:exactly(size, deadline)
  end
  local pieces = {}
  while size > 0 do
    local piece, failed = self.source:exactly(math.min(size, PIECE), deadline)
    if not piece then
      return nil, failed
    end
    pieces[#pieces + 1], size = piece, size - #piece
  end
  return table.concat(pieces)
end

local function read_frame(self, deadline)
  local head, failed = self.source:exactly(2, deadline)
  if not head then
    return nil, failed
  end
  local first, second = head:byte(1, 2)
  if second >= 128 then
    return malformed("a frame is masked")
  end
  local size
  size, failed = read_size(self, second, deadline)
  if not size then
    return nil, failed
  end
  local fine
  fine, failed = check_opcode(self, first, size)
  if not fine then
    return nil, failed
  elseif size == 0 then
    return first, ""
  end
  local payload
  payload, failed = read_payload(self, size, deadline)
  if not payload then
    return nil, failed
  end
  return first, payload
end

local function check_close(payload)
  if #payload == 1 then
    return malformed("a close has half a status")
  elseif #payload > 1 then
    local code = number_of(payload:sub(1, 2))
    local known = code >= 1000 and code <= 1014 and not (code >= 1004 and code <= 1006)
    if not known and not (code >= 3000 and code < 5000) then
      return malformed("closes with status %d", code)
    elseif not text.is_unicode(payload:sub(3)) then
      return malformed("a reason to close is no UTF-8")
    end
  end
  return true
end

local function whole(opcode, payload)
  if opcode == websocket.TEXT and not text.is_unicode(payload) then
    return malformed("a text is no UTF-8")
  end
  return opcode, payload
end

--- Read the next message, or control frame.
-- @treturn ?number opcode
-- @treturn string|table payload; or the failure
function Reader:next(deadline)
  while true do
    local first, payload = read_frame(self, deadline)
    if not first then
      return nil, payload
    end
    local opcode = first % 16
    if opcode >= 8 then
      if opcode == websocket.CLOSE then
        local fine, failed = check_close(payload)
        if not fine then
          return nil, failed
        end
      end
      return opcode, payload
    elseif first >= 128 and opcode > 0 then
      return whole(opcode, payload)
    end
    local parts = self.parts or { opcode = opcode }
    parts[#parts + 1] = payload
    self.parts, self.size = parts, (self.size or 0) + #payload
    if #parts > MAX_FRAGMENTS then
      return malformed("a message has too many fragments")
    elseif first >= 128 then
      self.parts, self.size = nil, 0
      return whole(parts.opcode, table.concat(parts))
    end
  end
end

return websocket
