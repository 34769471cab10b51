--- Plays a level of examples/sokoban, a game in a page, by a solution that is known.
--
--     lua sokoban.lua URL LEVEL MOVES
--
-- Moves are letters, as players of Sokoban write them: u, d, l and r.
local gym = require("gym_http_client")

local ACTIONS = { u = 0, d = 1, l = 2, r = 3 }

local url, level, moves = arg[1], tonumber(arg[2]), arg[3]
if not (level and moves) then
  io.stderr:write("usage: lua sokoban.lua URL LEVEL MOVES, as http://127.0.0.1:5000 7 udlr\n")
  os.exit(2)
end
local env = gym.assert(gym.make("external/sokoban", {
  url = url,
  -- Seconds until the page has to be there.
  wait_s = 20,
  kwargs = { fast = true },
}))
gym.assert(env:reset({ options = { level = level } }))

local total, steps, solved = 0, 0, false
for move in moves:gmatch("%a") do
  local _, reward, terminated = gym.assert(env:step(ACTIONS[move:lower()]))
  total, steps, solved = total + reward, steps + 1, terminated
end
print(("level %d: return %.1f in %d steps, %s"):format(level, total, steps,
  solved and "solved" or "not solved"))

gym.assert(env:close())
