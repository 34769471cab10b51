--- URLs of servers, and their tokens.
-- @module gym_http_client.address
local usage = require("gym_http_client.usage")

local address = {}

local PORTS = { http = 80, https = 443 }
local LOOKS = "the address of a server looks like http://127.0.0.1:5000"

local function unquoted(text)
  return (text:gsub("%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

--- Quote a text as one segment of a path, or a part of a query.
function address.quoted(text)
  return (text:gsub("[^%w%-._~]", function(byte)
    return ("%%%02X"):format(byte:byte())
  end))
end

local function checked_token(token)
  if token == nil or token == "" then
    return nil
  elseif token:find("[%c\127-\255]") then
    usage.raise("a token has no line breaks and no characters beyond ASCII in it")
  end
  return token
end

local function host_and_port(place)
  local host, port = place:match("^(%[[%x:.]+%]):?(%d*)$")
  if not host then
    host, port = place:match("^([%w%-._]+):?(%d*)$")
  end
  if not host or (port ~= "" and tonumber(port) > 65535) then
    return nil
  end
  return host, tonumber(port)
end

--- Parse a URL.
-- @tparam string url such as `http://127.0.0.1:5000`; it may contain a token, as in
-- `http://:TOKEN@host:5000`, and a path
-- @tparam[opt] string token by default the one in the URL, or in `GHS_TOKEN`;
-- an empty one means no token
-- @treturn table `url` (without the token), `scheme`, `host`, `port`, `prefix`,
-- `host_header` and `token`
function address.parse(url, token)
  local scheme, rest = tostring(url):match("^(%a+)://(.*)$")
  scheme = scheme and scheme:lower()
  if not PORTS[scheme] then
    -- The URL is not shown: a malformed one may contain a token.
    usage.raise(LOOKS .. "; this one does not begin with http:// or https://")
  end
  local authority, path = rest:match("^([^/?#]*)([^?#]*)$")
  if not authority or path:find("[%c ]") then
    usage.raise(LOOKS)
  end
  local user, place = authority:match("^(.*)@(.-)$")
  local host, port = host_and_port(place or authority)
  if not host then
    usage.raise(LOOKS)
  end
  if token == nil then
    token = user and user:match(":(.+)$")
    token = token and unquoted(token) or os.getenv("GHS_TOKEN")
  end
  local shown = host
  if port and port ~= PORTS[scheme] then
    shown = host .. ":" .. port
  end
  -- Each request has "/v1" in its own path.
  local prefix = path:gsub("/+$", ""):gsub("/+v1$", "")
  return {
    url = scheme .. "://" .. shown .. prefix,
    scheme = scheme,
    host = (host:gsub("[%[%]]", "")),
    port = port or PORTS[scheme],
    prefix = prefix,
    host_header = shown,
    token = checked_token(token),
  }
end

return address
