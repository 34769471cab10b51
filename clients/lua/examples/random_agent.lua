--- An agent that takes random actions.
--
--     lua random_agent.lua [URL] [ENV_ID] [EPISODES]
local gym = require("gym_http_client")

local url = arg[1] or gym.DEFAULT_URL
local env_id = arg[2] or "CartPole-v1"
local episodes = tonumber(arg[3] or 3)

local env, failed = gym.make(env_id, { url = url })
if not env then
  io.stderr:write(tostring(failed), "\n")
  os.exit(1)
end

for episode = 1, episodes do
  local total, steps, over = 0, 0, false
  gym.assert(env:reset({ seed = episode }))
  while not over do
    local action = env.action_space:sample()
    local _, reward, terminated, truncated = gym.assert(env:step(action))
    total, steps, over = total + reward, steps + 1, terminated or truncated
  end
  print(("episode %d: return %g in %d steps"):format(episode, total, steps))
end

gym.assert(env:close())
