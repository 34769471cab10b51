--- Drives the client for tests that are the same in all languages.
--
--     driver.lua conformance VECTORS_DIR [URL] [--only FILE.json]
--     driver.lua show VECTORS_DIR
--     driver.lua agree URL ENV_ID SEED rest|stream ACTIONS_FILE
--     driver.lua probe URL rest|stream [TIMEOUT_S]
--     driver.lua create URL ENV_ID WAIT_S [TIMEOUT_S]
--     driver.lua bench URL rest|stream SECONDS
--     driver.lua converse VECTORS_DIR
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = table.concat({
  here .. "/?.lua", here .. "/../?.lua", here .. "/../?/init.lua", package.path,
}, ";")

local socket = require("socket")

local conversations = require("conversations")
local gym = require("gym_http_client")
local json = require("gym_http_client.json")
local models = require("models")
local packing = require("gym_http_client.packing")

local FILES = {
  "values.json", "numbers.json", "spaces.json", "elements.json", "frames.json",
  "signatures.json", "malformed.json", "errors.json", "websocket.json", "transcripts.json",
}
-- The vectors have some that no value may be nested as deep as.
local VECTORS_DEPTH = 5000

local function cases_in(folder, name)
  local file = io.open(folder .. "/" .. name, "rb")
  if not file then
    io.stderr:write("there is no " .. folder .. "/" .. name .. "\n")
    os.exit(2)
  end
  local text = file:read("*a")
  file:close()
  return json.read(text, VECTORS_DEPTH).cases
end

local function run_file(folder, name, url, tally)
  local run = require("vectors")[name]
  for _, case in ipairs(cases_in(folder, name)) do
    local function check(passed, aspect, expected, actual)
      if passed then
        tally.passed = tally.passed + 1
        return
      end
      tally.failed = tally.failed + 1
      print(("FAIL %s %s: expected %s, actual %s (%s)"):format(name, case.id,
        tostring(expected):sub(1, 300), tostring(actual):sub(1, 300), aspect))
    end
    local fine, why = pcall(run, case, check, url)
    if not fine then
      check(false, "no error", "no error", tostring(why))
    end
  end
end

local function conformance(folder, ...)
  local url, only
  local given = { ... }
  local index = 1
  while given[index] do
    if given[index] == "--only" then
      only, index = given[index + 1], index + 1
    else
      url = given[index]
    end
    index = index + 1
  end
  local tally = { passed = 0, failed = 0 }
  for _, name in ipairs(only and { only } or FILES) do
    if name ~= "transcripts.json" or url then
      run_file(folder, name, url, tally)
    end
  end
  print(("%d passed, %d failed"):format(tally.passed, tally.failed))
  os.exit(tally.failed == 0 and 0 or 1)
end

local NAMES = {
  null = "gym.null", integer = "gym.integer", bytes = "gym.bytes", mapping = "gym.dict",
  tuple = "gym.tuple", autoreset = "gym.autoreset", graph = "gym.graph", scalar = "gym.scalar",
  space = "gym.space", complex = "gym.complex", unsent = "table (unsent)",
}

local function type_name(value)
  local kind = type(value)
  if kind == "number" then
    return math.type and math.type(value) or kind -- luacheck: ignore 143
  elseif kind == "table" then
    kind = gym.kind(value)
    if kind == "array" or kind == "objects" then
      return "table (" .. value.dtype .. ")"
    end
    return NAMES[kind] or "table"
  end
  return kind
end

local function show(folder)
  local binary = require("gym_http_client.binary")
  for _, case in ipairs(cases_in(folder, "values.json")) do
    if case.binary ~= gym.null then
      print(case.id .. "\t" .. type_name(binary.decode(models.unhex(case.binary))))
    end
  end
end

local function observation_hex(value)
  if type(value) == "number" or type(value) == "table" and gym.kind(value) == "integer" then
    local is_float = math.type and math.type(value) == "float" -- luacheck: ignore 143
    if is_float or (type(value) == "number" and value % 1 ~= 0) then
      return models.hex(packing.write_f64(value))
    end
    return models.hex(packing.write_i64(value))
  elseif type(value) == "boolean" then
    return value and "01" or "00"
  elseif gym.kind(value) == "array" then
    return models.hex((require("gym_http_client.arrays").bytes(value)))
  end
  local parts = {}
  if gym.kind(value) == "dict" then
    for index, key in ipairs(gym.keys(value)) do
      parts[index] = observation_hex(value[key])
    end
  else
    for index, item in ipairs(value) do
      parts[index] = observation_hex(item)
    end
  end
  return table.concat(parts, ",")
end

-- A short limit for answers: on a bad network they are requested again soon.
local function patient(url, way)
  return { url = url, stream = way == "stream", answer_limit = 3 }
end

local function agree(url, env_id, seed, way, actions_file)
  local instance_id = env_id:match("^@(.*)")
  local env
  if instance_id then
    env = gym.assert(gym.attach(instance_id, patient(url, way)))
  else
    env = gym.assert(gym.make(env_id, patient(url, way)))
  end
  local observation = gym.assert(env:reset({ seed = gym.integer(seed) }))
  print("reset " .. observation_hex(observation))
  for line in io.lines(actions_file) do
    local seen, reward, terminated, truncated = gym.assert(env:step(json.read(line)))
    print(("%s %s %d %d"):format(observation_hex(seen), models.hex(packing.write_f64(reward)),
      terminated and 1 or 0, truncated and 1 or 0))
    if terminated or truncated then
      print("reset " .. observation_hex(gym.assert(env:reset())))
    end
  end
  gym.assert(env:close())
end

local function try_out(url, way, time_limit)
  local env, failed = gym.make("CartPole-v1", {
    url = url, stream = way == "stream", time_limit = tonumber(time_limit),
  })
  if not env then
    return failed
  end
  local done
  done, failed = env:reset({ seed = 1 })
  for _ = 1, 2 do
    if done then
      done, failed = env:step(0)
    end
  end
  if not done then
    env:detach()
    return failed
  end
  done, failed = env:close()
  return not done and failed or nil
end

local function notify(failed)
  if not failed then
    print("ok")
    return
  end
  print(("error kind=%s status=%s code=%s url=%s message=%s"):format(failed.kind,
    tostring(failed.status or "-"), failed.code or "-", failed.url or "-",
    json.quote(failed.message)))
end

local function probe(url, way, time_limit)
  notify(try_out(url, way, time_limit))
end

local function create(url, env_id, wait, time_limit)
  local env, failed = gym.make(env_id, {
    url = url, wait_s = tonumber(wait), time_limit = tonumber(time_limit),
  })
  if env then
    gym.assert(env:close())
  end
  notify(failed)
end

local function bench(url, way, seconds)
  local env = gym.assert(gym.make("CartPole-v1", { url = url, stream = way == "stream" }))
  gym.assert(env:reset({ seed = 1 }))
  local steps, began = 0, socket.gettime()
  local stop = began + tonumber(seconds)
  repeat
    local _, _, terminated, truncated = gym.assert(env:step(steps % 2))
    steps = steps + 1
    if terminated or truncated then
      gym.assert(env:reset())
    end
  until socket.gettime() >= stop
  print(("%.1f"):format(steps / (socket.gettime() - began)))
  gym.assert(env:close())
end

local function converse(folder)
  for _, case in ipairs(cases_in(folder, "external.json")) do
    if conversations.can_converse(case) then
      conversations.converse(case, function(message)
        io.write(case.id, "\t", message, "\n")
      end)
    end
  end
end

local COMMANDS = {
  conformance = conformance, show = show, agree = agree, probe = probe, create = create,
  bench = bench, converse = converse,
}
local command = COMMANDS[arg[1]]
if not command then
  io.stderr:write("one of conformance, show, agree, probe, create, bench and converse is needed\n")
  os.exit(2)
end
command((unpack or table.unpack)(arg, 2)) -- luacheck: ignore 113 143
