--- Tests of provided environments, without a server.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
local checking = require("checking")

local dialects = require("gym_http_client.serving.dialects")
local elements = require("gym_http_client.serving.elements")
local gym = require("gym_http_client")
local heartbeats = require("gym_http_client.serving.heartbeats")
local provided = require("gym_http_client.serving.provided_env")
local plain = require("gym_http_client.plain")
local malformed = require("gym_http_client.malformed")
local serve = require("gym_http_client.serve")

local test, equal, items, misuse = checking.test, checking.equal, checking.items, checking.misuse

-- The members of an environment, with changes; null removes one.
local function corridor(changes)
  local given = {
    name = "corridor",
    url = "http://127.0.0.1:1",
    observation_space = { type = "Discrete", n = 5 },
    action_space = { type = "Discrete", n = 2 },
    reset = function() return { observation = 0 } end,
    step = function(action) return { observation = action, reward = 1 } end,
    log = function() end,
  }
  for name, value in pairs(changes or {}) do
    given[name] = value ~= gym.null and value or nil
  end
  return given
end

-- Send a request, and return the result, which may come later.
local function perform(env, request)
  local content = {}
  env:perform(request, function(result, problem)
    content[#content + 1] = { result = result, problem = problem }
  end)
  return content
end

test("wrong options raise at the line of the program", function()
  misuse("serving.lua:44", function() serve.env(corridor({ step = gym.null })) end)
  misuse("needs the option step", serve.env, corridor({ step = gym.null }))
  misuse("needs the option name", serve.env, corridor({ name = gym.null }))
  misuse("needs the option action_space", serve.env, corridor({ action_space = gym.null }))
  misuse("reset; or observe", serve.env, corridor({ reset = gym.null }))
  misuse("did you mean render", serve.env, corridor({ rendr = print }))
  misuse("the option step is a function; got a number", serve.env, corridor({ step = 1 }))
  misuse('expected "json" or "binary"', serve.env, corridor({ dialect = "morse" }))
  misuse("describes a space of no type", serve.env, corridor({ action_space = { type = "Ring" } }))
  misuse("looks like http://", serve.env, corridor({ url = "127.0.0.1:5000" }))
  misuse("looks like tcp://", serve.env, corridor({ url = "tcp://127.0.0.1" }))
end)

test("frames and large arrays are binary by default", function()
  local pixels = { type = "Box", low = 0, high = 255, shape = { 84, 84 }, dtype = "uint8" }
  equal(provided.new(corridor()).dialect, "json")
  equal(provided.new(corridor({ observation_space = pixels })).dialect, "binary")
  equal(provided.new(corridor({ render_modes = { "ansi", "rgb_array" } })).dialect, "binary")
  equal(provided.new(corridor({ observation_space = pixels, dialect = "json" })).dialect, "json")
end)

test("an answer is given once, and only while it is wanted", function()
  local kept
  local env = provided.new(corridor({
    step = function(_, answer)
      kept = answer
      return answer
    end,
  }))
  local content = perform(env, { type = "step", action = 1 })
  equal(#content, 0)
  equal(kept:is_wanted(), true)
  equal(kept({ observation = 3, reward = 1 }), true)
  equal(#content, 1)
  equal(content[1].result.terminated, false)
  equal(kept({ observation = 3, reward = 1 }), false)
  equal(kept:fail("no more"), false)

  content = perform(env, { type = "step", action = 1 })
  local late = kept
  equal(#perform(env, { type = "reset" }), 1)
  equal(late:is_wanted(), false)
  equal(late({ observation = 3, reward = 1 }), false)
  equal(#content, 0)
end)

test("an answer that is given within the handler is the answer", function()
  local env = provided.new(corridor({
    step = function(_, answer)
      answer({ observation = 2, reward = 1 })
      return { observation = 4, reward = 1 }
    end,
  }))
  local content = perform(env, { type = "step", action = 1 })
  equal(#content, 1)
  equal(content[1].result.observation.value, 2)
end)

test("errors of handlers are sent with their code", function()
  local raised
  local env = provided.new(corridor({ step = function() error(raised, 0) end }))
  for _, case in ipairs({
    { "stuck", "env-error", "step failed: stuck" },
    { { message = "stuck" }, "env-error", "step failed: stuck" },
    { { message = "stuck", code = "rust" }, "env-error", "step failed: stuck" },
    { { message = "not so", code = "invalid-action" }, "invalid-action", "not so" },
    { "gr\195\188n", "env-error", "step failed: gr\195\188n" },
    -- In Latin 1, as some systems still speak.
    { "gr\252n", "env-error", "step failed: gr?n" },
  }) do
    raised = case[1]
    local problem = perform(env, { type = "step", action = 1 })[1].problem
    equal(problem.code, case[2])
    equal(problem.message, case[3])
  end
  local nothing = provided.new(corridor({ step = function() end }))
  local problem = perform(nothing, { type = "step", action = 1 })[1].problem
  assert(problem.message:find("returned no observation", 1, true), problem.message)
  equal(perform(env, { type = "dance" })[1].problem.code, "unsupported")
  equal(perform(env, { type = "render" })[1].problem.code, "unsupported")
  equal(perform(env, { type = "init", kwargs = { wide = true } })[1].problem.code, "bad-parameter")
end)

test("init may have other spaces, for its instance only", function()
  local env = provided.new(corridor({
    init = function(making)
      return making.kwargs.wide and { observation_space = { type = "Discrete", n = 50 } }
    end,
  }))
  local content = perform(env, { type = "init", kwargs = { wide = true }, render_mode = gym.null })
  equal(content[1].result.observation_space.n, 50)
  equal(env.taken, true)
  perform(env, { type = "close" })
  equal(env.taken, false)
  equal(env.observation_space.n, 5)
end)

test("elements are made of numbers, tables flat or nested, and plain dicts", function()
  local box = gym.space({ type = "Box", low = 0, high = 9, shape = { 2, 2 }, dtype = "uint8" })
  for _, given in ipairs({ { 1, 2, 3, 4 }, { { 1, 2 }, { 3, 4 } } }) do
    local made = elements.given(box, given)
    items(made, { 1, 2, 3, 4 })
    items(made.shape, { 2, 2 })
    equal(made.dtype, "uint8")
    equal(plain.encode(made), "[[1,2],[3,4]]")
  end
  -- Whole floats, as divisions return them.
  equal(plain.encode(elements.given(box, { 2 / 1, 4 / 2, 1, 0 })), "[[2,2],[1,0]]")
  equal(plain.encode(elements.given(gym.space({ type = "Discrete", n = 9 }), 8 / 2)), "4")
  -- Invalid values are left for the server to refuse.
  equal(plain.encode(elements.given(box, { 1, 2, 3 })), "[1,2,3]")
  local dict = gym.space({
    type = "Dict",
    spaces = {
      { "at", { type = "Discrete", n = 3 } },
      {
        "seen",
        { type = "Tuple", spaces = { box:describe(), { type = "Text", max_length = 3 } } },
      },
    },
  })
  local made = elements.given(dict, { seen = { { 1, 2, 3, 4 }, "abc" }, at = 1 })
  equal(plain.encode(made), '{"at":1,"seen":[[[1,2],[3,4]],"abc"]}')
  equal(made.at.dtype, "int64")
  equal(gym.kind(made.seen), "tuple")
  equal(plain.encode(elements.given(dict, { at = 1, more = 2 })), '{"at":1,"more":2}')
end)

test("pictures are arrays, without what is transparent", function()
  local picture = elements.frame({ width = 1, height = 2, data = "abcXdefX" })
  items(picture.shape, { 2, 1, 3 })
  equal(picture.data, "abcdef")
  equal(elements.frame({ width = 1, height = 2, data = "abcdef" }).data, "abcdef")
  equal(elements.frame("text"), "text")
end)

test("silence is counted in beats", function()
  local beats = heartbeats.new(0)
  equal(beats:beat(false), "ping")
  equal(beats:beat(false), nil)
  equal(beats:beat(true), "ping")
  equal(beats:beat(false), nil)
  equal(beats:beat(false), "leave")
  equal(heartbeats.new(60):beat(false), nil)
end)

test("a dialect refuses what is of the other", function()
  local json, binary = dialects.new("json"), dialects.new("binary")
  equal(malformed.attempt(json.read, json, ("\0"):rep(16)), nil)
  equal(malformed.attempt(json.read, json, "[]"), nil)
  equal(malformed.attempt(binary.read, binary, '{"type":"ping"}'), nil)
  equal(json:read('{"type":"ping"}').type, "ping")
  equal(binary:read(binary:control("ping")).type, "ping")
end)

checking.run()
