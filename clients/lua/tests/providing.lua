--- Provides an environment, as a game that has 60 frames a second, and prints all requests
-- and results of its handlers.
--
--     lua providing.lua URL NAME KIND DIALECT STOP_FILE
--
-- Each line is JSON. It ends when there is a file of that name. With the variable
-- PROVIDER_REPLACE it takes the place of an earlier one. The URL may be stdio: if a server
-- starts it. The same environment in Python is in local_toy.py.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
require("checking")

local gym = require("gym_http_client")
local plain = require("gym_http_client.plain")
local serve = require("gym_http_client.serve")
local socket = require("socket")

local url, name, kind, dialect, stop_file = arg[1], arg[2], arg[3], arg[4], arg[5]
io.stdout:setvbuf("line")

local SPACES = {
  discrete = { type = "Discrete", n = 1000 },
  box = { type = "Box", low = -1, high = 1, shape = { 2, 3 }, dtype = "float32" },
  dict = {
    type = "Dict",
    spaces = {
      { "place", { type = "Discrete", n = 1000 } },
      { "seen", { type = "Box", low = 0, high = 255, shape = { 4 }, dtype = "uint8" } },
    },
  },
}
local FRAME = 1 / 60

local state, steps, frame = 0, 0, 0
-- Frames from a step to its answer, from the agent's options; and the pending answer.
local later, owed = 0, nil
local longest, long = 0, 0
local mood

local function print_json(content)
  print(plain.encode(content))
end

-- The interpreters' own generators differ.
local function draw()
  state = (state * 1664525 + 1013904223) % 4294967296
  return state / 4294967296
end

local function observed()
  if kind == "discrete" then
    return math.floor(draw() * 1000)
  elseif kind == "box" then
    local rows = {}
    for row = 1, 2 do
      rows[row] = { draw() * 2 - 1, draw() * 2 - 1, draw() * 2 - 1 }
    end
    return rows
  end
  local place = math.floor(draw() * 1000)
  local seen = {}
  for index = 1, 4 do
    seen[index] = math.floor(draw() * 256)
  end
  return { place = place, seen = seen }
end

local function shown(action)
  return type(action) == "table" and gym.list({ action[1], action[2] }) or action
end

-- Behave as the options of the reset say.
local function behave()
  if mood == "asleep" then
    print_json({ log = "falls asleep" })
    socket.sleep(3600)
  elseif mood == "talkative" then
    print("said by print", nil)
    io.write("said by io.write\n")
    io.stdout:write("said by io.stdout\n")
  end
end

local function outcome(action)
  behave()
  steps = steps + 1
  if steps > 50 then
    error("the crate is stuck", 0)
  end
  local content = {
    observation = observed(), reward = draw(), terminated = steps == 50,
    info = { steps = steps },
  }
  print_json({ request = "step", action = shown(action), steps = steps })
  return content
end

local provider = serve.env({
  url = url,
  name = name,
  dialect = dialect,
  observation_space = SPACES[kind],
  action_space = kind == "box" and { type = "Box", low = -1, high = 1, shape = { 2 } }
    or { type = "Discrete", n = 5 },
  capabilities = { "seed", "options", "pause" },
  render_modes = { "ansi" },
  replace = os.getenv("PROVIDER_REPLACE") ~= nil,
  log = function(line)
    print_json({ log = line })
  end,
  on_agent = function()
    print_json({ agent = true })
  end,
  on_agent_gone = function()
    print_json({ agent = false })
  end,
  init = function(making)
    later = making.kwargs.later or 0
    local render_mode = making.render_mode or gym.null
    print_json({ request = "init", kwargs = making.kwargs, render_mode = render_mode })
  end,
  reset = function(how)
    if how.options.impossible then
      error({ code = "bad-parameter", message = "no such option" })
    end
    if how.seed then
      state = how.seed % 4294967296
    end
    steps, owed, mood = 0, nil, how.options.mood
    print_json({ request = "reset", seed = how.seed or gym.null })
    return { observation = observed(), info = { options = how.options } }
  end,
  step = function(action, answer)
    if later == 0 then
      return outcome(action)
    end
    -- Never, if it is less.
    if later > 0 then
      owed = { due = frame + later, answer = answer, action = action }
    end
    return answer
  end,
  render = function()
    return "step " .. steps
  end,
})

local function is_stopped()
  local file = io.open(stop_file)
  return file ~= nil and file:close()
end

local first_frame = socket.gettime()
local next_frame = first_frame
while frame % 6 > 0 or not is_stopped() do
  frame = frame + 1
  local began = socket.gettime()
  assert(provider:poll())
  local took = socket.gettime() - began
  longest, long = math.max(longest, took), long + (took > FRAME and 1 or 0)
  if owed and frame >= owed.due then
    local present = owed
    owed = nil
    present.answer(outcome(present.action))
  end
  next_frame = math.max(next_frame + FRAME, socket.gettime() - FRAME)
  socket.sleep(math.max(0, next_frame - socket.gettime()))
end
local seconds = socket.gettime() - first_frame
provider:stop()
print_json({ frames = frame, seconds = seconds, longest = longest, long = long })
