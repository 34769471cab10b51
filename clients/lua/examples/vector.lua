--- Many environments that step as one, such as 1,024 Ataris of EnvPool:
--
--     lua vector.lua http://127.0.0.1:5000 envpool/Pong-v5 1024 100
local gym = require("gym_http_client")

local url = arg[1] or gym.DEFAULT_URL
local env_id = arg[2] or "CartPole-v1"
local num_envs = tonumber(arg[3] or 8)
local steps = tonumber(arg[4] or 100)

-- With a seed in a reset, EnvPool would make its environments again.
local envs, failed = gym.make_vec(env_id, {
  url = url,
  num_envs = num_envs,
  seed = 1,
  time_limit = 600,
})
if not envs then
  io.stderr:write(tostring(failed), "\n")
  os.exit(1)
end

-- The first action of each environment: for most, to do nothing.
local single = envs:describe().single_action_space
local actions = {}
for number = 1, num_envs do
  actions[number] = single.start or 0
end

local total = 0
gym.assert(envs:reset())
for _ = 1, steps do
  local _, rewards = gym.assert(envs:step(actions))
  for number = 1, num_envs do
    total = total + rewards[number]
  end
end
print(("%d steps of %d %s, rewards %.3f"):format(steps * num_envs, num_envs, env_id, total))
gym.assert(envs:close())
