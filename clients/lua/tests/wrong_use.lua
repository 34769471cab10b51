--- Tests of wrong use: the error is raised at the caller's line, and names the correct
-- use. The first argument is the address of a server.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
local checking = require("checking")

local gym = require("gym_http_client")

local test, equal = checking.test, checking.equal
local url = assert(arg[1], "the address of a server is needed")

-- Check that a function whose body is one line raises exactly this message for that line.
local function raises(words, body)
  local fine, why = pcall(body)
  equal(fine, false, words)
  local source = debug.getinfo(body, "S")
  equal(source.linedefined, source.lastlinedefined, "lines of the body")
  equal(why, ("%s:%d: %s"):format(source.short_src, source.linedefined, words))
end

test("options of making", function()
  raises("there is no option urll: did you mean url?",
    function() local _ = gym.make("CartPole-v1", { urll = url }) end)
  raises("there is no option Num_Envs: did you mean num_envs?",
    function() local _ = gym.make("CartPole-v1", { Num_Envs = 2 }) end)
  raises('gym.make takes a table, as {url = "http://127.0.0.1:5000"}; got a string',
    function() local _ = gym.make("CartPole-v1", "http://:secret@127.0.0.1:5000") end)
  raises("gym.new takes a table, as {time_limit = 60}; got 5",
    function() local _ = gym.new(url, 5) end)
  raises("the option time_limit is a number; got a string",
    function() local _ = gym.new(url, { time_limit = "60" }) end)
  raises("the address of a server looks like http://127.0.0.1:5000; "
    .. "this one does not begin with http:// or https://",
    function() local _ = gym.make("CartPole-v1", { url = "127.0.0.1:5000" }) end)
  raises('the name of an environment is a string, as "CartPole-v1"; got 1',
    function() local _ = gym.make(1) end)
  raises("num_envs is needed, as {num_envs = 8}: how many environments step as one",
    function() local _ = gym.make_vec("CartPole-v1", { url = url }) end)
  raises("plain JSON cannot represent a function",
    function() local _ = gym.make("CartPole-v1", { url = url, kwargs = { a = print } }) end)
end)

test("options of attaching", function()
  local client = gym.new(url)
  raises("an instance_id is a string, as env.instance_id; got nil",
    function() local _ = gym.attach(nil, { url = url }) end)
  raises('gym.attach takes a table, as {url = "http://127.0.0.1:5000"}; got a string',
    function() local _ = gym.attach("7a51be3d", url) end)
  raises("there is no option steam: did you mean stream?",
    function() local _ = client:attach("7a51be3d", { steam = false }) end)
  raises("there is no option render_mode: there are url, token, time_limit, answer_limit, "
    .. "max_body, stream, raw, tls, on_warning",
    function() local _ = gym.attach("7a51be3d", { url = url, render_mode = "ansi" }) end)
end)

test("any request", function()
  local client = gym.new(url)
  raises('a method is "GET", "POST", "PUT" or "DELETE"; got "PATCH"',
    function() local _ = client:request("PATCH", "/v1/") end)
  raises('a path is as "/v1/runs/", with blanks and the like as %20; got "/v1/a b"',
    function() local _ = client:request("GET", "/v1/a b") end)
  raises("there is no option header: did you mean headers?",
    function() local _ = client:request("GET", "/v1/", { header = {} }) end)
  raises("a body is a string of bytes, or a table; got 5",
    function() local _ = client:request("PUT", "/v1/", { body = 5 }) end)
  raises('a header is a name and a text in one line, as {["If-Match"] = etag}',
    function() local _ = client:request("PUT", "/v1/", { headers = { ["X"] = "a\r\nY: b" } }) end)
end)

test("calls of an environment", function()
  local env = gym.assert(gym.make("CartPole-v1", { url = url }))
  raises("reset takes a table, as {seed = 42}; got 42",
    function() local _ = env:reset(42) end)
  raises("there is no option Seed: did you mean seed?",
    function() local _ = env:reset({ Seed = 42 }) end)
  raises("there is no option 1: there are seed, options",
    function() local _ = env:reset({ 42 }) end)
  raises("there is no option max_step: did you mean max_steps?",
    function() local _ = env:rollout({ max_step = 42 }) end)
  raises("sample_action takes a table, as {seed = 42}; got 42",
    function() local _ = env:sample_action(42) end)
  for _, call in ipairs({
    function() local _ = env.step(0) end,
    function() local _ = env.reset() end,
    function() local _ = env.reset({ seed = 42 }) end,
  }) do
    raises("a call of an environment has a colon, as env:step(0); this one has a dot", call)
  end
  raises("an action is needed, as env:step(env.action_space:sample())",
    function() local _ = env:step() end)
  raises("sample takes a function such as math.random; got 42",
    function() local _ = env.action_space:sample(42) end)
  local client = gym.new(url)
  raises("reset takes a table, as {seed = 42}; got 42",
    function() local _ = client:env_reset(env.instance_id, 42) end)
  client:close()
  -- A refused reset has not begun an episode on the server.
  local seen, failed = env:step(0)
  equal(seen, nil)
  equal(failed.code, "reset-needed")
  gym.assert(env:close())
  raises("the environment is closed: " .. env.instance_id,
    function() local _ = env:step(0) end)
end)

test("values", function()
  raises('gym.array: no dtype: float33, expected as in gym.array("float32", {1, 2})',
    function() local _ = gym.array("float33", { 1 }) end)
  raises("gym.array: rows of different sizes",
    function() local _ = gym.array("int8", { { 1 }, { 2, 3 } }) end)
  raises("gym.integer: not an integer: 1.5", function() local _ = gym.integer(1.5) end)
  raises("gym.dict: the key a is there twice",
    function() local _ = gym.dict({ { "a", 1 }, { "a", 2 } }) end)
end)

checking.run()
