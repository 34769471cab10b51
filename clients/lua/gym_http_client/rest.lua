--- Requests by REST whose answers are values.
-- @module gym_http_client.rest
local binary = require("gym_http_client.binary")
local errors = require("gym_http_client.errors")
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local media = require("gym_http_client.media")
local plain = require("gym_http_client.plain")
local malformed = require("gym_http_client.malformed")
local server_warnings = require("gym_http_client.server_warnings")

local rest = {}

local function media_of(reply)
  return (reply.fields["content-type"] or ""):match("^[^;%s]*")
end

-- Decode an answer, or return its error.
local function read(reply, url, decode, wanted, ...)
  if reply.status == 204 then
    return true
  elseif reply.status ~= 200 or media_of(reply) ~= wanted then
    return nil, errors.of_reply(reply, url)
  end
  local value, why = malformed.attempt(decode, reply.body, ...)
  if why then
    return nil, errors.protocol("the answer is malformed, a value " .. why, url, reply.status)
  end
  return value
end

--- Send a request, and read plain JSON out of the answer.
-- @tparam Requester requester
-- @tparam string method
-- @tparam string path
-- @tparam[opt] table body a value, for plain JSON
-- @treturn[1] table the answer; `true` if it is empty
-- @treturn[2] nil
-- @treturn[2] Error
function rest.plain(requester, method, path, body)
  local reply, failed = requester:request(method, path, {
    body = body ~= nil and plain.encode(body) or nil,
    accept = media.PLAIN,
  })
  if not reply then
    return nil, failed
  end
  return read(reply, requester:url(path), json.read, media.PLAIN)
end

--- Create an instance; arguments that plain JSON does not have are sent without loss.
-- @tparam Requester requester
-- @tparam table body the members of the request
-- @tparam number wait see `Requester:request`
-- @treturn[1] string instance ID
-- @treturn[2] nil
-- @treturn[2] Error
function rest.create(requester, body, wait)
  local path, exact = "/v1/envs/", kinds.is_exact(body)
  local reply, failed = requester:request("POST", path, {
    body = exact and binary.encode(body) or plain.encode(body),
    content_type = exact and media.BINARY or nil,
    accept = media.PLAIN,
    creation_wait = wait,
  })
  if not reply then
    return nil, failed
  end
  local answer
  answer, failed = read(reply, requester:url(path), json.read, media.PLAIN)
  if answer == nil then
    return nil, failed
  end
  return rest.member(requester, path, answer, "instance_id", "string")
end

--- Send a request, and read a value out of the answer, without loss.
-- @tparam Requester requester
-- @tparam string method
-- @tparam string path
-- @param[opt] body a value; it is sent without loss, too
-- @tparam[opt] boolean raw return arrays as their bytes
-- @treturn[1] table the answer; `true` if it is empty
-- @treturn[2] nil
-- @treturn[2] Error
function rest.exact(requester, method, path, body, raw)
  local reply, failed = requester:request(method, path, {
    body = body ~= nil and binary.encode(body) or nil,
    content_type = body ~= nil and media.BINARY or nil,
    accept = media.BINARY,
  })
  if not reply then
    return nil, failed
  end
  local value, why = read(reply, requester:url(path), binary.decode, media.BINARY, raw)
  return server_warnings.taken(requester, value), why
end

--- Send any request; return its answer if it succeeded.
-- @tparam Requester requester
-- @tparam string method
-- @tparam string path
-- @tparam table given see `Client:request`
-- @treturn[1] table `status`, `headers`, `body`, and `value` if that is JSON
-- @treturn[2] nil
-- @treturn[2] Error
function rest.any(requester, method, path, given)
  local body, is_value = given.body, type(given.body) == "table"
  local reply, failed = requester:request(method, path, {
    body = is_value and plain.encode(body) or body,
    content_type = given.content_type or (is_value and media.PLAIN) or "application/octet-stream",
    headers = given.headers,
  })
  if not reply then
    return nil, failed
  end
  local url = requester:url(path)
  if reply.status ~= 304 and (reply.status < 200 or reply.status > 299) then
    return nil, errors.of_reply(reply, url)
  end
  local answer = { status = reply.status, headers = reply.fields, body = reply.body }
  if media_of(reply) == media.PLAIN and reply.body ~= "" then
    local why
    answer.value, why = malformed.attempt(json.read, reply.body)
    if why then
      return nil, errors.protocol("the answer is malformed, a value " .. why, url, reply.status)
    end
  end
  return answer
end

--- Return a required member of an answer.
-- @return the member, or nil
-- @treturn ?Error
function rest.member(requester, path, answer, name, kind)
  local value = type(answer) == "table" and kinds.of(answer) == "dict" and answer[name]
  if value == nil or value == false and kind ~= "boolean" or (kind and type(value) ~= kind) then
    local words = ("the answer has no %s: is it a gym_http_server?"):format(name)
    return nil, errors.protocol(words, requester:url(path))
  end
  return value
end

return rest
