--- TLS, through LuaSec if installed, and checks of a host's certificate.
-- @module gym_http_client.certificates
local certificates = {}

local SUBJECT_ALTERNATIVES = "2.5.29.17"
local FOLDERS = { "/etc/ssl/certs", "/etc/pki/tls/certs" }

--- Whether this machine supports TLS.
-- @treturn ?table LuaSec
-- @treturn ?string why not
function certificates.library()
  local found, ssl = pcall(require, "ssl")
  if not found then
    return nil, "https:// needs LuaSec, which is not installed (luarocks install luasec)"
  end
  return ssl
end

local function matches(pattern, host)
  pattern, host = pattern:lower(), host:lower()
  if pattern == host then
    return true
  end
  -- A star stands for one label, the first.
  local rest = pattern:match("^%*(%..+%..+)$")
  return rest ~= nil and host:match("^[^.]+(%..*)$") == rest
end

local function names_host(certificate, host)
  local names = (certificate:extensions() or {})[SUBJECT_ALTERNATIVES] or {}
  local is_address = host:find("^[%d.]+$") or host:find(":", 1, true)
  for _, name in ipairs(names[is_address and "iPAddress" or "dNSName"] or {}) do
    if matches(name, host) then
      return true
    end
  end
  return false
end

local function folder()
  for _, path in ipairs(FOLDERS) do
    local file = io.open(path)
    if file then
      file:close()
      return path
    end
  end
  return nil
end

local function settings(tls)
  tls = tls or {}
  local cafile = tls.cafile or os.getenv("SSL_CERT_FILE")
  return {
    mode = "client",
    protocol = "any",
    options = { "all", "no_sslv2", "no_sslv3", "no_tlsv1", "no_tlsv1_1" },
    verify = tls.verify == false and "none" or "peer",
    -- A failed handshake has no reason; `doubt` finds it before anything is sent.
    verifyext = tls.verify ~= false and { "lsec_continue" } or nil,
    cafile = cafile,
    capath = tls.capath or (not cafile and folder()) or nil,
    certificate = tls.certificate,
    key = tls.key,
  }
end

--- Begin TLS on a connection, which is closed if that fails.
-- @treturn ?table LuaSec's socket, for the handshake
-- @treturn ?string why not
function certificates.wrap(raw, host, tls)
  local ssl, missing = certificates.library()
  if not ssl then
    raw:close()
    return nil, missing
  end
  local secured, reason = ssl.wrap(raw, settings(tls))
  if not secured then
    raw:close()
    return nil, "no TLS: " .. tostring(reason)
  end
  secured:sni(host)
  return secured
end

-- The errors that LuaSec found: a text, or lists of texts by distance from the root.
local function problem_in(found)
  local seen, words = {}, {}
  for _, each in pairs(type(found) == "table" and found or { { found } }) do
    for _, text in pairs(each) do
      if not seen[text] then
        seen[text] = true
        words[#words + 1] = tostring(text)
      end
    end
  end
  table.sort(words)
  return "certificate verify failed: " .. table.concat(words, ", ")
end

--- Return why a server's certificate is not valid for it, after the handshake.
-- @treturn ?string nil if it is valid
function certificates.doubt(secured, host, tls)
  if tls and tls.verify == false then
    return nil
  end
  local trusted, found = secured:getpeerverification()
  if not trusted then
    return problem_in(found)
  end
  if not names_host(secured:getpeercertificate(), host) then
    return "its certificate is not for " .. host
  end
  return nil
end

--- Speak TLS on a connection, which is closed if that fails.
-- @treturn ?table LuaSec's socket
-- @treturn ?string why not
function certificates.secure(raw, host, tls, seconds)
  local secured, missing = certificates.wrap(raw, host, tls)
  if not secured then
    return nil, missing
  end
  secured:settimeout(math.max(0.001, seconds), "t")
  local ok, refused = secured:dohandshake()
  refused = ok and certificates.doubt(secured, host, tls) or not ok and refused or nil
  if not ok or refused then
    secured:close()
    return nil, "the server could not prove its identity: " .. tostring(refused)
  end
  return secured
end

return certificates
