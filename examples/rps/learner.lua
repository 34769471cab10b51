-- Learns rock-paper-scissors as one of its players, by regret matching.
--
-- lua learner.lua [URL [SEAT [EPISODES [SEED]]]]

local gym = require("gym_http_client")

local url = arg[1] or "http://127.0.0.1:5000"
local seat = arg[2] or "external/rps.player_1"
local episodes = tonumber(arg[3] or 50)
math.randomseed(tonumber(arg[4] or 2))

local NAMES = { [0] = "rock", "paper", "scissors" }
local PAYOFF = { [0] = 0, 1, -1 }
local regrets = { [0] = 0, 0, 0 }
local total = { [0] = 0, 0, 0 }

-- Return the probability of each action: in proportion to its regret, if it has any.
local function policy()
  local sum = 0
  for action = 0, 2 do
    sum = sum + math.max(regrets[action], 0)
  end
  local chances = {}
  for action = 0, 2 do
    chances[action] = sum > 0 and math.max(regrets[action], 0) / sum or 1 / 3
    total[action] = total[action] + chances[action]
  end
  return chances
end

local function draw(chances)
  local left = math.random()
  for action = 0, 1 do
    left = left - chances[action]
    if left < 0 then
      return action
    end
  end
  return 2
end

local function learn(own, other)
  for action = 0, 2 do
    regrets[action] = regrets[action] + PAYOFF[(action - other) % 3] - PAYOFF[(own - other) % 3]
  end
end

local env = gym.assert(gym.make(seat, { url = url, wait_s = 20 }))
local sum, count = 0, 0
for _ = 1, episodes do
  gym.assert(env:reset())
  local other, reward, terminated, truncated, info
  repeat
    local action = draw(policy())
    other, reward, terminated, truncated, info = gym.assert(env:step(action))
    -- The other player may have left before the action was taken.
    if info.cut == nil then
      -- An array without dimensions has one element.
      learn(action, other[1])
      sum, count = sum + reward, count + 1
    end
  until terminated or truncated
end
env:close()

local all = total[0] + total[1] + total[2]
print(("mean reward %.2f"):format(sum / math.max(count, 1)))
for action = 0, 2 do
  io.write(("%s %.2f "):format(NAMES[action], total[action] / all))
end
print()
