--- A heating device, simulated, that connects to a server as `external/thermostat`.
--
--     lua thermostat.lua [URL] [HZ] [NAME]
--
-- It has its own clock: HZ times a second five minutes pass in it, whether an agent has
-- acted or not. Made with `fast = true`, it waits for the agent.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

local devices = require("device")
local serve = require("gym_http_client.serve")
local socket = require("socket")

io.stdout:setvbuf("line")

local url = arg[1] or serve.DEFAULT_URL
local hz = tonumber(arg[2] or 4)
local POWERS = { [0] = 0, 0.5, 1 }

local device = devices.new()
local fast = false
-- Reward and ticks since the last answer, and the pending answer of the next tick.
local worth, ticks, owed = 0, 0, nil

local function outcome()
  local step = {
    observation = device:observation(), reward = worth, truncated = device:is_over(),
    info = { ticks = ticks },
  }
  worth, ticks, owed = 0, 0, nil
  return step
end

local function tick()
  worth, ticks = worth + device:go_on(), ticks + 1
end

local handlers = {}

function handlers.init(making)
  for name in pairs(making.kwargs) do
    if name ~= "fast" then
      error({ code = "bad-parameter", message = "the thermostat takes fast, and not " .. name })
    end
  end
  fast = making.kwargs.fast == true
end

function handlers.reset(how)
  device:begin(how.seed)
  worth, ticks, owed = 0, 0, nil
  return { observation = device:observation() }
end

function handlers.step(action, answer)
  device.power = POWERS[action]
  if fast then
    tick()
    return outcome()
  end
  owed = answer
  return answer
end

local provider = serve.env({
  url = url,
  name = arg[3] or "thermostat",
  observation_space = {
    type = "Box", shape = { 4 }, low = { -50, -50, -50, 0 }, high = { 120, 120, 50, 24 },
  },
  action_space = { type = "Discrete", n = 3 },
  capabilities = { "seed" },
  realtime = { hz = hz },
  init = handlers.init,
  reset = handlers.reset,
  step = handlers.step,
  on_agent_gone = function()
    fast, owed = false, nil
  end,
})

local due = socket.gettime() + 1 / hz
while true do
  local ok, failed = provider:poll(math.max(0, due - socket.gettime()))
  if not ok then
    io.stderr:write(tostring(failed), "\n")
    os.exit(1)
  end
  if socket.gettime() >= due then
    due = math.max(due + 1 / hz, socket.gettime())
    if not provider.taken then
      device:regulate()
      device:go_on()
    elseif not fast then
      tick()
      if owed then
        owed(outcome())
      end
    end
  end
end
