--- HTTP/1.1 as a client needs it: one exchange on a connection.
-- @module gym_http_client.http1
local connections = require("gym_http_client.connection")

local http1 = {}

local MAX_HEAD = 65536
local MAX_LINE = 4096
local PIECE = 65536

local failure = connections.failure

local function malformed(words, ...)
  return nil, failure("malformed", words:format(...))
end

local function read_fields(head)
  local fields = {}
  for name, value in head:gmatch("\r\n([^:\r\n]+):[ \t]*([^\r\n]*)") do
    name = name:lower()
    value = value:gsub("[ \t]+$", "")
    -- Two lengths of one body must not pass for one.
    fields[name] = fields[name] and fields[name] .. "," .. value or value
  end
  return fields
end

--- Read the head of an answer, "continue" and the like before it included.
-- @treturn ?table `version`, `status` and `fields` by their names in lower case
-- @treturn ?table failure
function http1.read_head(connection, deadline)
  local data, skipped = "", 0
  while true do
    local stop = data:find("\r\n\r\n", 1, true)
    if stop then
      local version, status = data:match("^HTTP/1%.([01]) (%d%d%d)[ \r]")
      if not status then
        return malformed("it is not HTTP/1")
      end
      local fields = read_fields(data:sub(1, stop - 1))
      skipped = skipped + stop + 3
      data = data:sub(stop + 4)
      status = tonumber(status)
      if status >= 200 or status == 101 then
        connection:put_back(data)
        return { version = version, status = status, fields = fields }
      end
    else
      if skipped + #data > MAX_HEAD then
        return malformed("its headers have more than %d bytes", MAX_HEAD)
      elseif data:sub(1, 7) ~= ("HTTP/1."):sub(1, #data) then
        return malformed("it is not HTTP/1")
      end
      local more, failed = connection:some(deadline)
      if not more then
        return nil, failed
      elseif more == "" then
        return nil, failure("lost", "the connection was closed before the answer was whole")
      end
      data = data .. more
    end
  end
end

local function read_sized(connection, size, deadline)
  local pieces = {}
  while size > 0 do
    local piece, failed = connection:exactly(math.min(size, PIECE), deadline)
    if not piece then
      return nil, failed
    end
    pieces[#pieces + 1] = piece
    size = size - #piece
  end
  return table.concat(pieces)
end

local function read_line(connection, deadline)
  local data = ""
  while true do
    local stop = data:find("\n", 1, true)
    if stop then
      connection:put_back(data:sub(stop + 1))
      if data:sub(stop - 1, stop) ~= "\r\n" then
        return malformed("a line between chunks does not end as it should")
      end
      return data:sub(1, stop - 2)
    elseif #data > MAX_LINE then
      return malformed("a line between chunks is too long")
    end
    local more, failed = connection:some(deadline)
    if not more or more == "" then
      return nil, failed or failure("lost", "the connection was closed between chunks")
    end
    data = data .. more
  end
end

local function skip_trailers(connection, deadline)
  local size = 0
  while size < MAX_HEAD do
    local trailer, failed = read_line(connection, deadline)
    if not trailer then
      return nil, failed
    elseif trailer == "" then
      return true
    end
    size = size + #trailer + 2
  end
  return malformed("there are too many trailers")
end

local function read_chunked(connection, limit, deadline)
  local pieces, total = {}, 0
  while true do
    local head, failed = read_line(connection, deadline)
    if not head then
      return nil, failed
    end
    local digits = head:match("^(%x+)[ \t]*$") or head:match("^(%x+)[ \t]*;")
    if not digits or #digits > 12 then
      return malformed("a chunk has no size")
    end
    local size = tonumber(digits, 16)
    if size == 0 then
      local ended, cut = skip_trailers(connection, deadline)
      if not ended then
        return nil, cut
      end
      return table.concat(pieces)
    end
    total = total + size
    if total > limit then
      return malformed("the body has more than %d bytes", limit)
    end
    local piece, lost = read_sized(connection, size + 2, deadline)
    if not piece then
      return nil, lost
    elseif piece:sub(-2) ~= "\r\n" then
      return malformed("a chunk does not end where it should")
    end
    pieces[#pieces + 1] = piece:sub(1, -3)
  end
end

local function read_to_end(connection, limit, deadline)
  local pieces, total = {}, 0
  while true do
    local piece, failed = connection:some(deadline)
    if not piece then
      return nil, failed
    elseif piece == "" then
      return table.concat(pieces)
    end
    total = total + #piece
    if total > limit then
      return malformed("the body has more than %d bytes", limit)
    end
    pieces[#pieces + 1] = piece
  end
end

local function keeps_alive(head)
  local received = (head.fields.connection or ""):lower()
  if head.version == "1" then
    return not received:find("close", 1, true)
  end
  return received:find("keep%-alive") ~= nil
end

--- Read the body that belongs to a head.
-- @treturn ?string
-- @treturn boolean|table whether the connection allows another exchange; or the failure
function http1.read_body(connection, head, limit, deadline)
  local fields = head.fields
  if head.status == 204 or head.status == 304 then
    return "", keeps_alive(head)
  end
  local coding, length = fields["transfer-encoding"], fields["content-length"]
  local body, failed
  if coding then
    if coding:lower() ~= "chunked" or length then
      return malformed("its body is framed in a way that is not known: %s", coding:sub(1, 40))
    end
    body, failed = read_chunked(connection, limit, deadline)
  elseif length then
    if not length:find("^%d+$") or #length > 15 then
      return malformed("its length is malformed")
    elseif tonumber(length) > limit then
      return malformed("the body has more than %d bytes", limit)
    end
    body, failed = read_sized(connection, tonumber(length), deadline)
  else
    body, failed = read_to_end(connection, limit, deadline)
    return body, body == nil and failed
  end
  if not body then
    return nil, failed
  end
  return body, keeps_alive(head)
end

return http1
