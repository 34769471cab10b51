--- Tests against a server, whose address is the first argument.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
local checking = require("checking")

local gym = require("gym_http_client")
local packing = require("gym_http_client.packing")

local test, equal, items, misuse = checking.test, checking.equal, checking.items, checking.misuse
local url = assert(arg[1], "the address of a server is needed")

-- By Gymnasium: Pendulum-v1 with the seed 42, and the actions 0 and 1.5.
local SEEDED = {
  -0.14995256066322327, -0.18048952519893646, -2.9644252412400434,
  -0.25764304399490356,
}

local function both(name, body)
  for _, stream in ipairs({ true, false }) do
    test(name .. (stream and ", by stream" or ", by REST"), function() body(stream) end)
  end
end

local function make(env_id, stream, options)
  options = options or {}
  options.url, options.stream = url, stream
  return gym.assert(gym.make(env_id, options))
end

both("warnings of the server are shown", function(stream)
  local content = {}
  local env = make("CartPole-v0", stream, {
    on_warning = function(warning) content[#content + 1] = warning end,
  })
  gym.assert(env:reset({ seed = 42 }))
  -- Gymnasium's own, of the version and of steps behind the end.
  equal(#content, 1)
  equal(content[1].category, "DeprecationWarning")
  equal(content[1].message:find("CartPole-v0 is out of date", 1, true) ~= nil, true)
  for _ = 1, 20 do
    gym.assert(env:step(1))
  end
  equal(#content, 2)
  equal(content[2].message:find("already returned terminated = True", 1, true) ~= nil, true)
  gym.assert(env:close())
end)

both("several agents have values by agent", function(stream)
  local env = make("pettingzoo/classic.rps_v2", stream, { kwargs = { max_cycles = 2 } })
  gym.assert(env:reset({ seed = 1 }))
  local observation, reward, _, truncated, info =
    gym.assert(env:step({ player_0 = 0, player_1 = 2 }))
  equal(reward.player_0, 1)
  equal(reward.player_1, -1)
  equal(truncated.player_0, false)
  equal(gym.kind(info.player_0), "dict")
  equal(observation.player_1[1], 0)
  _, _, _, truncated = gym.assert(env:step({ player_0 = 1, player_1 = 1 }))
  equal(truncated.player_0, true)
  gym.assert(env:close())
end)

both("a seed determines an episode", function(stream)
  local env = make("CartPole-v1", stream)
  local observation, info = gym.assert(env:reset({ seed = 42 }))
  -- By Gymnasium.
  equal(observation[1], 0.0273956041783094406)
  equal(gym.kind(info), "dict")
  equal(next(info), nil)
  local following, reward, terminated, truncated = gym.assert(env:step(1))
  equal(following.dtype, "float32")
  items(following.shape, { 4 })
  equal(reward, 1)
  equal(terminated, false)
  equal(truncated, false)
  equal(env:transport(), stream and "stream" or "rest")
  equal(gym.assert(env:close()), true)
  equal(gym.assert(env:close()), true)
  misuse("closed", env.step, env, 1)
end)

both("an invalid action is refused, and the stream stays open", function(stream)
  local env = make("CartPole-v1", stream)
  gym.assert(env:reset({ seed = 1 }))
  for _, action in ipairs({ 2, -1, 0.5, "left", { 1, 2 } }) do
    local observation, failed = env:step(action)
    equal(observation, nil)
    equal(failed.kind, "api")
    equal(failed.status, 400)
    equal(failed.code, "invalid-action")
  end
  gym.assert(env:step(1))
  gym.assert(env:step("1"))
  misuse("an action is needed", env.step, env)
  gym.assert(env:close())
end)

both("a call that was interrupted leaves nothing for the next one", function(stream)
  local env, other = make("CartPole-v1", stream), make("CartPole-v1", stream)
  gym.assert(env:reset({ seed = 5 }))
  gym.assert(other:reset({ seed = 5 }))
  local requester = env.session.stream or env.session.requester
  local name = stream and "receive" or "request"
  requester[name] = function() error("interrupted") end
  misuse("interrupted", env.step, env, 1)
  requester[name] = nil
  -- Over a stream the step had been sent.
  if stream then
    gym.assert(other:step(1))
  end
  items(gym.assert(env:step(0)), gym.assert(other:step(0)))
  gym.assert(env:close())
  gym.assert(other:close())
end)

both("a step before the reset is an error", function(stream)
  local env = make("CartPole-v1", stream)
  local observation, failed = env:step(0)
  equal(observation, nil)
  equal(failed.code, "reset-needed")
  equal(failed.status, 409)
  gym.assert(env:close())
end)

both("steps and episodes go in one request", function(stream)
  local env = make("CartPole-v1", stream)
  gym.assert(env:reset({ seed = 42 }))
  local some = gym.assert(env:step_many({ 1, 0, 1 }))
  equal(some.steps, 3)
  equal(some.stopped, nil)
  items(some.rewards, { 1, 1, 1 })
  items(some.terminated, { false, false, false })
  items(some.observations.shape, { 3, 4 })
  local rest = gym.assert(env:step_many({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }))
  equal(rest.stopped, "episode")
  local played = gym.assert(env:rollout({ episodes = 2, seed = 7, max_steps = 5 }))
  equal(played.steps, 10)
  equal(played.episodes[2].length, 5)
  gym.assert(env:close())
end)

both("boxes are stepped with tables and arrays", function(stream)
  local env = make("Pendulum-v1", stream)
  local first = gym.assert(env:reset({ seed = 9 }))
  equal(#first, 3)
  local expected = gym.assert(env:step({ 1.5 }))
  -- gym-http-api accepted one number at any depth.
  for _, action in ipairs({ gym.array("float32", { 1.5 }), { { 1.5 } } }) do
    gym.assert(env:reset({ seed = 9 }))
    items(gym.assert(env:step(action)), expected)
  end
  -- Not of the shape of the space.
  local seen, failed = env:step({ 1.5, 1.5 })
  equal(seen, nil)
  equal(failed.code, "invalid-action")
  assert(env.action_space:contains(env.action_space:sample()))
  gym.assert(env:step(env.action_space:sample()))
  gym.assert(env:close())
end)

both("options, kwargs and wrappers arrive", function(stream)
  local env = make("FrozenLake-v1", stream, {
    kwargs = { is_slippery = false, map_name = "8x8" }, max_episode_steps = 2,
    wrappers = { "RecordEpisodeStatistics" },
  })
  equal(env.observation_space.n, 64)
  equal(gym.assert(env:reset({ seed = 1, options = {} })), 0)
  local second = gym.assert(env:step(2))
  equal(second, 1)
  local _, _, terminated, truncated, info = gym.assert(env:step(2))
  equal(terminated, false)
  equal(truncated, true)
  equal(info.episode.l, 2)
  gym.assert(env:close())
end)

both("frames are arrays, text and files", function(stream)
  local env = make("CartPole-v1", stream, { render_mode = "rgb_array" })
  gym.assert(env:reset({ seed = 1 }))
  local frame = gym.assert(env:render())
  equal(frame.dtype, "uint8")
  items(frame.shape, { 400, 600, 3 })
  equal(#frame, 720000)
  equal(gym.assert(env:png()):sub(1, 8), "\137PNG\r\n\26\n")
  gym.assert(env:close())
  local text = make("CliffWalking-v1", stream, { render_mode = "ansi" })
  gym.assert(text:reset())
  assert(gym.assert(text:render()):find("x  C  C", 1, true))
  gym.assert(text:close())
end)

both("arrays are raw with the option raw", function(stream)
  local env = make("CartPole-v1", stream, { raw = true })
  local observation = gym.assert(env:reset({ seed = 42 }))
  if rawget(_G, "jit") then
    equal(observation[0], 0.0273956041783094406)
  else
    equal(#observation, 16)
    equal(packing.u32(observation, 1), 1021340863) -- 0x3ce06cbf
  end
  gym.assert(env:close())
end)

both("a vector steps as one", function(stream)
  local env = gym.assert(gym.make_vec("CartPole-v1", {
    url = url, stream = stream, num_envs = 3, vectorization_mode = "sync",
    autoreset_mode = "disabled",
  }))
  equal(env.num_envs, 3)
  equal(env.single_action_space.n, 2)
  equal(env.action_space.type, "MultiDiscrete")
  local observations = gym.assert(env:reset({ seed = { 42, 43, gym.null } }))
  items(observations.shape, { 3, 4 })
  equal(gym.rows(observations)[1][1], 0.0273956041783094406)
  for _, actions in ipairs({ { 1, 0, 1 }, env.action_space:sample() }) do
    local _, rewards, terminated = gym.assert(env:step(actions))
    items(rewards, { 1, 1, 1 })
    items(terminated, { false, false, false })
  end
  local seen, failed = env:step({ 1, 2, 0 })
  equal(seen, nil)
  equal(failed.code, "invalid-action")
  gym.assert(env:close())
end)

test("attributes, methods and the generator are reached", function()
  local env = make("Taxi-v4", true)
  gym.assert(env:reset({ seed = 3 }))
  equal(gym.assert(env:call("encode", 3, 1, 2, 0)), 328)
  local before = gym.assert(env:generator())
  local observation = gym.assert(env:reset())
  gym.assert(env:set_generator(before))
  equal(gym.assert(env:reset()), observation)
  equal(gym.assert(env:set("mood", "good")), true)
  equal(gym.assert(env:get("mood")), "good")
  local value, failed = env:get("weather")
  equal(value, nil)
  equal(failed.code, "no-attribute")
  equal(failed.status, 404)
  equal(gym.assert(env:sample_action({ seed = 1, mask = { 0, 0, 1, 0, 0, 0 } })), 2)
  equal(gym.assert(env:sample_observation({ seed = 1 })), 236)
  gym.assert(env:close())
end)

-- Lua before 5.4 cannot read such a program.
local compiled = (rawget(_G, "loadstring") or load)([[
  local gym, url = ...
  local id, observation
  do
    local env <close> = gym.assert(gym.make("CartPole-v1", { url = url }))
    id, observation = env.instance_id, gym.assert(env:reset({ seed = 42 }))
  end
  return id, observation
]])

if compiled then
  test("an environment is closed at the end of its block", function()
    local id = compiled(gym, url)
    local gone, failed = gym.attach(id, { url = url })
    equal(gone, nil)
    equal(failed.code, "unknown-instance")
  end)
end

test("an observation and the spaces can be printed", function()
  local env = make("CartPole-v1", true)
  equal(tostring(gym.assert(env:reset({ seed = 42 }))),
    "array of float32, shape {4}: 0.0273956, -0.00611216, 0.0358598, 0.0197368")
  equal(tostring(env.action_space), "Discrete(2)")
  equal(tostring(env.observation_space), "Box(float32, {4})")
  -- By Gymnasium.
  equal(env.observation_space.high[1], 4.800000190734863)
  equal(env.observation_space.low[2], -math.huge)
  gym.assert(env:close())
end)

both("without a render mode there is nothing to see", function(stream)
  local env = make("CartPole-v1", stream)
  gym.assert(env:reset())
  equal(gym.assert(env:render()), gym.null)
  local file, failed = env:png()
  equal(file, nil)
  equal(failed.code, "no-render-mode")
  gym.assert(env:close())
end)

test("an instance is shared, and gone when it is closed", function()
  local env = make("CartPole-v1", true)
  gym.assert(env:reset({ seed = 42 }))
  local other = gym.assert(gym.attach(env.instance_id, { url = url }))
  equal(other.env_id, "CartPole-v1")
  gym.assert(other:step(1))
  other:detach()
  gym.assert(env:step(1))
  gym.assert(env:close())
  local gone, failed = gym.attach(env.instance_id, { url = url })
  equal(gone, nil)
  equal(failed.kind, "api")
  equal(failed.code, "unknown-instance")
end)

test("a server lists instances and environments", function()
  local client = gym.new(url)
  local env = gym.assert(client:make("CartPole-v1", { label = "from Lua" }))
  equal(gym.assert(client:list())[env.instance_id], "CartPole-v1")
  local labels = {}
  for _, each in ipairs(gym.assert(client:instances({ search = "from LUA" })).instances) do
    labels[each.instance_id] = each.label
  end
  equal(labels[env.instance_id], "from Lua")
  equal(gym.assert(client:registry({ search = "taxi", available = true }))[1].env_id, "Taxi-v4")
  equal(gym.assert(client:server_info()).api, "v1")
  equal(#gym.assert(client:instances({ search = "from lua", state = "busy" })).instances, 0)
  gym.assert(env:reset())
  equal(gym.assert(env:episodes()).total, 0)
  equal(gym.assert(env:episodes(1, 0)).current[1].length, 0)
  equal(gym.assert(env:keys()).noop, 0)
  local done = gym.assert(client:batch_step({ { instance_id = env.instance_id, action = 0 } }))
  equal(done.results[1].status, 200)
  gym.assert(env:close())
  client:close()
  local missing, failed = client:make("CartPole-v7")
  equal(missing, nil)
  equal(failed.code, "unknown-env")
  equal(failed.url, url .. "/v1/envs/")
  client:close()
end)

both("a clock ends time steps", function(stream)
  local env = make("Pendulum-v1", stream, { realtime = { mode = "elastic", hz = 100 } })
  local observation, info = gym.assert(env:reset({ seed = 42 }))
  equal(observation[1], SEEDED[1])
  equal(info.realtime.episode, 1)
  local reward, terminated, truncated, _
  observation, reward, terminated, truncated, info = gym.assert(env:step({ 1.5 }))
  -- Of the action before, which was the default one.
  equal(observation[1], SEEDED[2])
  equal(reward, SEEDED[3])
  equal(terminated or truncated, false)
  equal(info.realtime.action.value[1], 0)
  observation, _, _, _, info = gym.assert(env:step({ 0 }))
  equal(observation[1], SEEDED[4])
  equal(info.realtime.action.value[1], 1.5)
  equal(gym.assert(env:pause()).state, "paused")
  local stepped, failed = env:step({ 0 })
  equal(stepped, nil)
  equal(failed.code, "paused")
  equal(gym.assert(env:resume()).state, "running")
  equal(gym.assert(env:set_timing({ hz = 50 })).settings.hz, 50)
  equal(gym.assert(env:timing()).state, "running")
  equal(#gym.assert(env:trace({ last = 3, format = "json" })).events, 3)
  gym.assert(env:close())
  misuse("closed", env.act, env, { 0 })
end)

both("an agent answers updates", function(stream)
  local clock = { mode = "free_running", hz = 100 }
  local env = make("Pendulum-v1", stream, { realtime = clock })
  gym.assert(env:reset({ seed = 42 }))
  local updates, last = env:updates(), 1
  for acts = 1, 10 do
    local update = gym.assert(updates:next())
    equal(update.observation.dtype, "float32")
    assert(update.info.realtime.update > last)
    last = update.info.realtime.update
    equal(gym.assert(env:act({ 0.5 })).sequence, acts)
  end
  equal(updates.lost, 0)
  equal(gym.assert(env:act(nil, { actions = { { 0.5 }, { 0 } }, at = last + 1000 })).sequence, 11)
  equal(gym.assert(env:act()).sequence, 12)
  local actions = gym.assert(env:timing()).actions
  equal(actions.received, 12)
  equal(actions.received, actions.applied + actions.superseded + actions.expired
    + actions.rejected + actions.waiting)
  misuse("did you mean valid_s", env.act, env, { 0 }, { valid = 1 })
  gym.assert(env:close())
  local plain = make("CartPole-v1", stream)
  equal(select(2, plain:act(0)).code, "not-real-time")
  equal(select(2, plain:updates():next()).code, "not-real-time")
  gym.assert(plain:close())
end)

both("all updates arrive, up to the end of the world", function(stream)
  local clock = { mode = "free_running", hz = 100, episodes = 1 }
  local env = make("Pendulum-v1", stream, { realtime = clock, max_episode_steps = 20 })
  gym.assert(env:reset({ seed = 42 }))
  local updates, numbers, last = env:updates({ deliver = "all" }), {}, nil
  for update in updates do
    numbers[#numbers + 1] = update.info.realtime.update
    last = update
  end
  -- The first is that of the reset.
  for index, number in ipairs(numbers) do
    equal(number, index + 1)
  end
  equal(#numbers, 20)
  equal(updates.lost, 0)
  equal(last.truncated, true)
  equal(last.info.realtime.last, true)
  equal(select(2, env:act({ 0.5 })).code, "world-ended")
  gym.assert(env:close())
end)

test("any request can be sent", function()
  local client = gym.new(url)
  local body = { env_id = "CartPole-v1" }
  local made = gym.assert(client:request("POST", "/v1/envs/", { body = body }))
  equal(made.status, 200)
  equal(made.headers["content-type"], "application/json")
  local path = "/v1/envs/" .. made.value.instance_id .. "/"
  local reset = gym.assert(client:request("POST", path .. "reset/", {
    body = '{"seed": 42}', content_type = "application/json",
    headers = { Accept = "application/vnd.gym-http.binary" },
  }))
  equal(reset.value, nil)
  equal(reset.headers["content-type"], "application/vnd.gym-http.binary")
  -- The first number by Gymnasium, as bytes.
  assert(reset.body:find("\191\108\224\060", 1, true))
  local ended = gym.assert(client:request("DELETE", path))
  equal(ended.status, 204)
  equal(ended.value, nil)
  local answer, failed = client:request("GET", "/v1/envs/ffffffff/", {
    headers = { Accept = "application/problem+json" },
  })
  equal(answer, nil)
  equal(failed.status, 404)
  equal(failed.code, "unknown-instance")
  equal(select(2, client:request("PUT", "/v1/envs/", { body = "bytes" })).code,
    "method-not-allowed")
  client:close()
end)

test("bytes are put, and returned as they were", function()
  local client = gym.new(url)
  local name = ("lua-%d"):format(os.time())
  gym.assert(client:request("POST", "/v1/runs/", { body = { run = name } }))
  local path = "/v1/runs/" .. name .. "/"
  local bytes = {}
  for byte = 0, 255 do
    bytes[#bytes + 1] = string.char(byte)
  end
  local weights = table.concat(bytes)
  local first = { ["If-None-Match"] = "*" }
  local stored = gym.assert(client:request("PUT", path .. "weights/", {
    body = weights, headers = first,
  }))
  equal(stored.status, 201)
  local got = gym.assert(client:request("GET", path .. "weights/"))
  equal(got.body, weights)
  equal(got.headers.etag, stored.headers.etag)
  local known = { ["If-None-Match"] = got.headers.etag }
  equal(gym.assert(client:request("GET", path .. "weights/", { headers = known })).status, 304)
  local refused = select(2, client:request("PUT", path .. "weights/", {
    body = "x", headers = first,
  }))
  equal(refused.code, "version-conflict")
  equal(refused.problem.version, 1)
  equal(gym.assert(client:request("DELETE", path)).status, 204)
  client:close()
end)

test("the functions of gym-http-api are as they were", function()
  local client = gym.new(url)
  local id = gym.assert(client:env_create("CartPole-v0"))
  equal(#id, 8)
  equal(gym.assert(client:env_list_all())[id], "CartPole-v0")
  equal(#gym.assert(client:env_reset(id)), 4)
  local observation, reward, done, info = gym.assert(client:env_step(id, 1, true))
  equal(#observation, 4)
  equal(reward, 1)
  equal(done, false)
  equal(next(info), nil)
  equal(gym.assert(client:env_action_space_info(id)).name, "Discrete")
  equal(gym.assert(client:env_observation_space_info(id)).shape[1], 4)
  equal(client:env_action_space_contains(id, gym.assert(client:env_action_space_sample(id))), true)
  equal(client:env_action_space_contains(id, 2), false)
  equal(client:env_observation_space_contains(id, { 0, 0, 0, 0 }), true)
  gym.assert(client:env_monitor_start(id, "lua", true))
  gym.assert(client:env_monitor_close(id))
  equal(client:env_close(id), true)
  local reset, failed = client:env_reset(id)
  equal(reset, nil)
  equal(failed.code, "unknown-instance")
  for _, call in ipairs({ "shutdown_server", "upload" }) do
    reset, failed = client[call](client, "results", "agent", "key")
    equal(reset, nil)
    equal(failed.kind, "api")
    assert(failed.status == 403 or failed.status == 410)
  end
  local frame = gym.assert(client:env_create("CliffWalking-v1", { render_mode = "ansi" }))
  gym.assert(client:env_reset(frame))
  assert(gym.assert(client:env_render(frame)):find("C  C", 1, true))
  gym.assert(client:env_close(frame))
  client:close()
end)

checking.run()
