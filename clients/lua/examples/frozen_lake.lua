--- Learns to cross the frozen lake, by Q-learning with a table.
--
--     lua frozen_lake.lua [URL]
--
-- With its seed it reaches a mean return of 0.7 in 100 episodes, of which no policy
-- gets more than some 0.8: the lake is slippery. It ends with an error if it does not.
local gym = require("gym_http_client")

local GOAL = 0.7
local SEED = 2
local EPISODES, TRIALS = 600, 100
local DISCOUNT = 0.99

-- A generator of its own: `math.random` differs from version to version of Lua.
local state = SEED
local function random()
  state = (state * 16807) % 2147483647
  return state / 2147483647
end

local env = gym.assert(gym.make("FrozenLake-v1", { url = arg[1] }))
local actions = env.action_space.n
local values = {}
for observation = 0, env.observation_space.n - 1 do
  values[observation] = {}
  for action = 0, actions - 1 do
    values[observation][action] = 0
  end
end

local function best(observation)
  local row, found = values[observation], math.floor(random() * actions)
  for action = 0, actions - 1 do
    if row[action] > row[found] then
      found = action
    end
  end
  return found
end

local function play(exploring, learning_rate, seed)
  local observation, total, over = gym.assert(env:reset({ seed = seed })), 0, false
  while not over do
    local action = best(observation)
    if random() < exploring then
      action = math.floor(random() * actions)
    end
    local following, reward, terminated, truncated = gym.assert(env:step(action))
    if learning_rate > 0 then
      local future = terminated and 0 or values[following][best(following)]
      local missing = reward + DISCOUNT * future - values[observation][action]
      values[observation][action] = values[observation][action] + learning_rate * missing
    end
    observation, total, over = following, total + reward, terminated or truncated
  end
  return total
end

for episode = 1, EPISODES do
  local left = 1 - episode / EPISODES
  local exploring = math.max(0.01, 1 - 1.2 * episode / EPISODES)
  play(exploring, math.max(0.02, 0.8 * left), episode == 1 and SEED or nil)
end

local total = 0
for _ = 1, TRIALS do
  total = total + play(0, 0)
end
gym.assert(env:close())

local mean = total / TRIALS
print(("mean return of %d episodes: %.2f (to be reached: %.2f)"):format(TRIALS, mean, GOAL))
os.exit(mean >= GOAL and 0 or 1)
