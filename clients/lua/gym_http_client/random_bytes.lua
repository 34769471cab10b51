--- Unpredictable bytes: masks of frames, names of sessions, keys.
--
-- They do not come from `math.random`: its draws are the agent's, and must not depend
-- on the network.
-- @module gym_http_client.random_bytes
local socket = require("socket")

local sha1 = require("gym_http_client.sha1")

local random_bytes = {}

local AT_ONCE = 4096
local drawn, used = "", 0
local counter = 0

-- If the system has no source: a digest of values that differ from run to run.
local function scraped()
  local blocks = {}
  for index = 1, AT_ONCE / 20 do
    counter = counter + 1
    local seed = ("%s %.9f %.9f %d"):format(tostring({}), socket.gettime(), os.clock(), counter)
    blocks[index] = sha1(seed .. (blocks[index - 1] or ""))
  end
  return table.concat(blocks)
end

local function draw()
  local source = io.open("/dev/urandom", "rb")
  if source then
    source:setvbuf("no")
    local bytes = source:read(AT_ONCE)
    source:close()
    if bytes and #bytes == AT_ONCE then
      return bytes
    end
  end
  return scraped()
end

--- Return a number of random bytes, at most 4,000.
function random_bytes.bytes(count)
  if used + count > #drawn then
    drawn, used = draw(), 0
  end
  used = used + count
  return drawn:sub(used - count + 1, used)
end

--- Return a unique name: 24 hex digits.
function random_bytes.name()
  return (random_bytes.bytes(12):gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end))
end

--- Draw a number from 0 (included) to 1 (excluded).
function random_bytes.fraction()
  local a, b, c, d = random_bytes.bytes(4):byte(1, 4)
  return (((a * 256 + b) * 256 + c) * 256 + d) / 4294967296
end

return random_bytes
