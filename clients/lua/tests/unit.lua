--- Tests of parts that the vectors do not reach, without a server.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path
local checking = require("checking")

local address = require("gym_http_client.address")
local base64 = require("gym_http_client.base64")
local binary = require("gym_http_client.binary")
local drawing = require("gym_http_client.spaces.drawing")
local random_bytes = require("gym_http_client.random_bytes")
local errors = require("gym_http_client.errors")
local floats = require("gym_http_client.floats")
local gym = require("gym_http_client")
local integers = require("gym_http_client.integers")
local masked = require("gym_http_client.masks")
local models = require("models")
local node_streams = require("gym_http_client.node_streams")
local plain = require("gym_http_client.plain")
local sha1 = require("gym_http_client.sha1")
local retries = require("gym_http_client.retries")

local test, equal, items, misuse = checking.test, checking.equal, checking.items, checking.misuse

test("integers that numbers hold are numbers, and others their digits", function()
  equal(type(gym.integer("9007199254740992")), "number")
  equal(tostring(gym.integer("18446744073709551616")), "18446744073709551616")
  equal(gym.integer("18446744073709551616"), gym.integer("018446744073709551616"))
  equal(gym.integer("18446744073709551616") .. "!", "18446744073709551616!")
  assert(gym.integer("18446744073709551616") < gym.integer("18446744073709551617"))
  assert(gym.integer("-18446744073709551616") < gym.integer("18446744073709551616"))
  misuse("not an integer", gym.integer, "1.5")
  misuse("not an integer", gym.integer, 1.5)
end)

test("integers are added beyond what numbers hold", function()
  local largest = integers.parse("9223372036854775807")
  equal(tostring(integers.sum(largest, 1)), "9223372036854775808")
  equal(tostring(integers.sum(integers.parse("-9223372036854775808"), -1)), "-9223372036854775809")
  equal(integers.sum(5, -7), -2)
  equal(integers.digits(integers.sum(integers.parse("9007199254740993"), -1)), "9007199254740992")
end)

test("plain JSON has no NaN and no infinity", function()
  for _, number in ipairs({ 0 / 0, math.huge, -math.huge }) do
    misuse("no NaN and no infinity", plain.encode, { a = number })
    misuse("no NaN and no infinity", plain.encode, { a = gym.float(number) })
  end
end)

test("a description with a dtype and a shape is no array", function()
  local space = gym.space({ type = "Box", low = 0, high = 9, shape = { 2 }, dtype = "uint8" })
  equal(space.dtype, "uint8")
  equal(gym.kind(space:describe()), "dict")
end)

test("floats are rounded to the nearest, halves to even", function()
  -- 2049 and 2051 lie between two float16; 65519 is the last below infinity.
  for value, rounded in pairs({ [2049] = 2048, [2051] = 2052, [65519] = 65504, [-2049] = -2048 }) do
    equal(floats.number(floats.bytes(value, 2), 2), rounded)
  end
  equal(floats.number(floats.bytes(65520, 2), 2), math.huge)
  equal(floats.number(floats.bytes(0.1, 4), 4), 0.100000001490116119384765625)
  equal(floats.number(floats.bytes(0.1, 8), 8), 0.1)
end)

test("masks turn each byte, and turn it back", function()
  local mask = "\1\128\255\0"
  for size = 0, 150 do
    local payload = {}
    for index = 1, size do
      payload[index] = string.char((index * 7) % 256)
    end
    payload = table.concat(payload)
    local once = masked(payload, mask)
    equal(#once, size)
    equal(masked(once, mask), payload)
    if size > 4 then
      equal(once:byte(1), payload:byte(1) - 2 * (payload:byte(1) % 2) + 1)
      equal(once:byte(3), 255 - payload:byte(3))
      equal(once:byte(4), payload:byte(4))
    end
  end
end)

test("SHA-1 digests texts of all lengths around a block", function()
  -- By FIPS 180-1, and by coreutils.
  equal(models.hex(sha1("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d")
  equal(models.hex(sha1("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709")
  equal(models.hex(sha1(("a"):rep(55))), "c1c8bbdc22796e28c0e15163d20899b65621d65a")
  equal(models.hex(sha1(("a"):rep(64))), "0098ba824b5c16427bd7a1122a5a442a25ec644d")
end)

test("base64 is read strictly", function()
  equal(base64.decode("aGk="), "hi")
  for _, wrong in ipairs({ "aGl=", "aGk", "aG=k", "a===", "aGk!", "aGk=aGk=" }) do
    equal(base64.decode(wrong), nil, wrong)
  end
end)

test("addresses are taken apart, and tokens kept out of what is shown", function()
  local place = address.parse("http://:s%65cret@example.org:81/gym/", nil)
  equal(place.url, "http://example.org:81/gym")
  equal(place.token, "secret")
  equal(place.prefix, "/gym")
  equal(address.parse("https://[::1]", "").port, 443)
  equal(address.parse("https://[::1]", "").host, "::1")
  equal(address.parse("http://:a@host", "b").token, "b")
  for _, wrong in ipairs({ "", "host:80", "ftp://host", "http://", "http://host:99999",
    "http://ho st", "http://:secret@", "http://host/ x" }) do
    misuse("looks like", address.parse, wrong)
  end
  misuse("line breaks", address.parse, "http://host", "a\r\nX: y")
end)

test("misuse is raised, with the name of what is wrong", function()
  misuse("no option colour", gym.new, nil, { colour = "red" })
  misuse("no option colour", gym.make, "CartPole-v1", { colour = "red" })
  misuse("num_envs", gym.make_vec, "CartPole-v1", {})
  misuse("a string", gym.make, 1)
  misuse("looks like", gym.make, "CartPole-v1", { url = "127.0.0.1:5000" })
  misuse("no dtype", gym.array, "float33", { 1 })
  misuse("2 elements", gym.array, "float32", { 1, 2 }, { 3 })
  misuse("rows of different sizes", gym.array, "float32", { { 1 }, { 2, 3 } })
  misuse("twice", gym.dict, { { "a", 1 }, { "a", 2 } })
  misuse("Sphere", gym.space, { type = "Sphere" })
  misuse("cannot send a function", binary.encode, print)
  misuse("gym.bytes", binary.encode, "\255")
  misuse("gym.dict", binary.encode, { a = 1, [2] = 3 })
  misuse("no NaN", plain.encode, 0 / 0)
end)

test("dicts keep their order, and what came later is sorted behind it", function()
  local dict = gym.dict({ { "z", 1 }, { "a", gym.null } })
  dict.y, dict.b = 2, 3
  items(gym.keys(dict), { "z", "a", "b", "y" })
  dict.z = nil
  items(gym.keys(dict), { "a", "b", "y" })
  local mapping = gym.dict({ { 1, "one" }, { "get", "word" }, { true, "yes" } })
  equal(mapping[1], "one")
  equal(mapping:get("get"), "word")
  equal(mapping[true], "yes")
  equal(mapping[2], nil)
end)

test("arrays are flat, and have rows", function()
  local array = gym.array("int16", { { 1, 2, 3 }, { 4, 5, 6 } })
  items(array, { 1, 2, 3, 4, 5, 6 })
  items(array.shape, { 2, 3 })
  local rows = gym.rows(array)
  items(rows[2], { 4, 5, 6 })
  items(rows[2].shape, { 3 })
  items(gym.array("uint8", "\1\2\3\4", { 2, 2 }).shape, { 2, 2 })
  equal(plain.encode(gym.array("uint8", "\1\2\3\4", { 2, 2 })), "[[1,2],[3,4]]")
end)

test("arrays are printed with their first elements", function()
  equal(tostring(gym.array("int16", { { 1, 2, 3 }, { 4, 5, 6 } })),
    "array of int16, shape {2, 3}: 1, 2, 3, 4, 5, 6")
  equal(tostring(gym.array("float32", { 0.0273956045, 1, -1 / 0, 0 / 0 })),
    "array of float32, shape {4}: 0.0273956, 1, -inf, nan")
  equal(tostring(gym.array("uint8", { 0, 1, 2, 3, 4, 5, 6, 7, 8 })),
    "array of uint8, shape {9}: 0, 1, 2, 3, 4, 5, 6, 7, ...")
  equal(tostring(gym.array("bool", { true, false })), "array of bool, shape {2}: true, false")
  equal(tostring(gym.array("uint64", { gym.integer("18446744073709551615") })),
    "array of uint64, shape {1}: 18446744073709551615")
  equal(tostring(gym.array("int16", "\1\2\3\4")), "array of int16, shape {2}")
  misuse("3 bytes", gym.array, "int16", "\1\2\3")
end)

test("spaces are printed as Gymnasium does", function()
  local two, box = { type = "Discrete", n = 2 }, { type = "Box", shape = { 4 }, low = 0, high = 1 }
  local short = { type = "Text", min_length = 2, max_length = 5, charset = "ab" }
  for text, description in pairs({
    ["Discrete(2)"] = two,
    ["Discrete(3, start=-1)"] = { type = "Discrete", n = 3, start = -1 },
    ["Box(float32, {4})"] = box,
    ["MultiDiscrete([3 2])"] = { type = "MultiDiscrete", nvec = { 3, 2 } },
    ["MultiDiscrete([[3 2] [4 5]], start=[[0 0] [0 1]])"] = {
      type = "MultiDiscrete", nvec = { 3, 2, 4, 5 }, start = { 0, 0, 0, 1 }, shape = { 2, 2 },
    },
    ["MultiDiscrete([2 2 2 2 2 2 2 2 ...])"] = {
      type = "MultiDiscrete", nvec = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 },
    },
    ["MultiBinary(4)"] = { type = "MultiBinary", n = 4 },
    ["MultiBinary((2, 3))"] = { type = "MultiBinary", n = { 2, 3 } },
    ["Text(2, 5, charset=ab)"] = short,
    ["Dict('a': Discrete(2), 'b': Box(float32, {4}))"] = {
      type = "Dict", spaces = { { "a", two }, { "b", box } },
    },
    ["Tuple(Discrete(2), Text(2, 5, charset=ab))"] = { type = "Tuple", spaces = { two, short } },
    ["OneOf(Discrete(2))"] = { type = "OneOf", spaces = { two } },
    ["Sequence(Discrete(2), stack=False)"] = { type = "Sequence", space = two },
    ["Graph(Discrete(2), None)"] = { type = "Graph", node_space = two },
  }) do
    equal(tostring(gym.space(description)), text)
  end
end)

test("a Box has its bounds as arrays", function()
  local box = gym.space({ type = "Box", shape = { 2, 1 }, low = { -4.8, "-inf" }, high = 1 })
  equal(box.low.dtype, "float32")
  items(box.low.shape, { 2, 1 })
  -- The float32 next to -4.8.
  items(box.low, { -4.800000190734863, -math.huge })
  items(box.high, { 1, 1 })
  assert(box:contains(box.high) and box.low == box.low)
  equal(box.middle, nil)
  equal(gym.space({ type = "Discrete", n = 2 }).low, nil)
end)

test("raw arrays are bytes, or arrays of C", function()
  local body = binary.encode(gym.array("float32", { 0.5, -2 }))
  local raw = binary.decode(body, true)
  if rawget(_G, "jit") then
    equal(type(raw), "cdata")
    equal(raw[0], 0.5)
    equal(raw[1], -2)
  else
    equal(models.hex(raw), "0000003f000000c0")
  end
end)

test("large arrays are read whole", function()
  for _, dtype in ipairs({ "uint8", "int16", "float32", "float64", "int64" }) do
    local numbers = {}
    for index = 1, 1000 do
      numbers[index] = index % 100
    end
    items(binary.decode(binary.encode(gym.array(dtype, numbers))), numbers, dtype)
  end
end)

-- A generator with the same numbers in every interpreter.
local function generator()
  local state = 42
  return function()
    state = (state * 16807) % 2147483647
    return (state - 1) / 2147483646
  end
end

test("samples come from the caller's generator, and are uniform", function()
  local space = gym.space({ type = "Discrete", n = 4, start = -1 })
  local counts, rng = { [-1] = 0, [0] = 0, [1] = 0, [2] = 0 }, generator()
  for _ = 1, 4000 do
    local sample = space:sample(rng)
    counts[sample] = counts[sample] + 1
  end
  for value, count in pairs(counts) do
    assert(count > 850 and count < 1150, value .. " came " .. count .. " times of 4000")
  end
  local again, once = generator(), generator()
  for _ = 1, 10 do
    equal(space:sample(again), space:sample(once))
  end
  for _, n in ipairs({ "4611686018427387904", "9007199254740993", "1099511627776" }) do
    local large, high = gym.space({ type = "Discrete", n = n }), 0
    local half = integers.from_bytes(integers.to_bytes(integers.parse(n), 9, false), false)
    local bound = tonumber(tostring(half)) / 2
    for _ = 1, 400 do
      local sample = large:sample(rng)
      assert(large:contains(sample))
      high = high + (tonumber(tostring(sample)) >= bound and 1 or 0)
    end
    assert(high > 150 and high < 250, n .. ": " .. high .. " of 400 in the upper half")
  end
end)

test("a Box is drawn from as Gymnasium does", function()
  local rng, total, below = generator(), 0, 0
  local box = gym.space({ type = "Box", shape = { 1000 }, low = 2, high = 4 })
  for _, value in ipairs(box:sample(rng)) do
    total = total + value
    below = below + (value < 2.5 and 1 or 0)
  end
  assert(math.abs(total / 1000 - 3) < 0.1 and below > 200 and below < 300)
  local half = gym.space({ type = "Box", shape = { 1000 }, low = 1, high = "inf" })
  total = 0
  for _, value in ipairs(half:sample(rng)) do
    assert(value >= 1)
    total = total + value - 1
  end
  assert(math.abs(total / 1000 - 1) < 0.15, "the mean of exponential draws is 1")
  local free = gym.space({ type = "Box", shape = { 1000 }, low = "-inf", high = "inf" })
  local squares = 0
  for _, value in ipairs(free:sample(rng)) do
    squares = squares + value * value
  end
  assert(math.abs(squares / 1000 - 1) < 0.2, "the variance of normal draws is 1")
  assert(drawing.below(function() return 0.999999 end, 3) == 2)
end)

test("elements may be plain tables", function()
  local box = gym.space({ type = "Box", shape = { 2, 2 }, low = -1, high = 1 })
  assert(box:contains({ 0, 1, -1, 0.5 }))
  assert(box:contains({ { 0, 1 }, { -1, 0.5 } }))
  assert(not box:contains({ 0, 1, -1 }))
  assert(not box:contains({ 0, 1, -1, 2 }))
  assert(not box:contains({ 0, 1, -1, "0" }))
  local dict = gym.space({ type = "Dict", spaces = { { "a", { type = "Discrete", n = 2 } } } })
  assert(dict:contains({ a = 1 }) and not dict:contains({ a = 1, b = 1 }))
  assert(dict.type == "Dict" and dict:get("a").n == 2)
end)

test("bounds of float32 are those numbers", function()
  local bounds = { type = "Box", shape = { 1 }, low = -4.8, high = 4.8 }
  local box = gym.space(bounds)
  assert(box:contains(gym.array("float32", { 4.800000190734863 })))
  assert(not box:contains(gym.array("float32", { 4.80000066757 })))
end)

test("the network draws nothing from the agent's generator", function()
  math.randomseed(1)
  local first = math.random()
  math.randomseed(1)
  assert(#random_bytes.name() == 24 and random_bytes.name() ~= random_bytes.name())
  assert(random_bytes.fraction() < 1)
  equal(math.random(), first)
end)

test("errors are printed with their message", function()
  local body = '{"code":"unknown-env","message":"no such environment","extra":1}'
  local failed = errors.of_reply({ status = 400, body = body }, "http://host/v1/envs/")
  equal(tostring(failed),
    "no such environment (status 400, unknown-env, http://host/v1/envs/)")
  equal(failed.problem.extra, 1)
  assert(gym.is_error(failed) and not gym.is_error({}) and not gym.is_error(nil))
  misuse("no such environment", gym.assert, nil, failed)
  equal(select("#", gym.assert(1, nil, 3)), 3)
end)

test("a pause that would outlast the time ends the tries", function()
  local socket = require("socket")
  local reply = { status = 503, fields = { ["retry-after"] = "30" } }
  equal(retries.new(socket.gettime() + 10, true):again(reply), false)
  local busy = { status = 503, fields = {}, body = "" }
  equal(retries.new(socket.gettime() + 10, true):again(busy), true)
  equal(retries.new(socket.gettime() + 10, true):again({ status = 500, fields = {} }), false)
  equal(retries.new(socket.gettime() + 10, true):again(nil, { kind = "malformed" }), false)
  equal(retries.new(socket.gettime() + 10, true):again(nil, { kind = "untrusted" }), false)
end)

test("a final answer of a create is retried in other calls", function()
  local function reply(code)
    return { status = 503, fields = {}, body = ('{"code":"%s","message":"no"}'):format(code) }
  end
  equal(retries.is_repeated(reply("external-away"), true), false)
  equal(retries.is_repeated(reply("external-away"), false), true)
  equal(retries.is_repeated(reply("draining"), true), true)
  equal(retries.is_repeated({ status = 503, fields = {}, body = "no JSON" }, true), true)
  equal(retries.is_repeated({ status = 503, fields = {}, body = '{"message":"","code":[]}' }, true),
    true)
end)

test("URLs of streams at nodes are checked", function()
  local path = "/v1/envs/00a3c657/stream"
  local function url_of(first, url)
    local found, below = node_streams.parse(url, first, "00a3c657")
    if found then
      equal(below, path)
      equal(found.token, nil)
    end
    return found and found.url
  end
  equal(url_of("http", "ws://10.0.0.7:5000" .. path .. "/"), "http://10.0.0.7:5000")
  equal(url_of("http", "ws://[fd00::7]:5000" .. path), "http://[fd00::7]:5000")
  equal(url_of("http", "wss://node-2" .. path .. "/"), "https://node-2")
  equal(url_of("https", "wss://node-2/gym" .. path .. "/"), "https://node-2/gym")
  equal(url_of("https", "ws://node-2" .. path .. "/"), nil)
  for _, url in ipairs({
    "http://node-2" .. path, "ws://user:secret@node-2" .. path, "ws://node-2/?x=" .. path,
    "ws://node-2/#" .. path, "ws://node-2:99999" .. path, "ws://node 2" .. path,
    "ws://node-2\r\nX: y" .. path, "ws://" .. path, "ws://node-2/v1/envs/00a00000/stream/",
    "ws://node-2" .. path .. "/other", "", 5, false,
  }) do
    equal(url_of("http", url), nil)
  end
end)

test("a timeout contains the last failure", function()
  local socket = require("socket")
  local late = { kind = "timeout", words = "nothing within the time limit" }
  local function message(...)
    local trying = retries.new(socket.gettime() + 10, true)
    for _, outcome in ipairs({ ... }) do
      equal(trying:again(outcome.status and outcome, outcome), true)
    end
    return trying:error_of(late, "http://host/").message
  end
  local alone = "there is no answer: nothing within the time limit"
  equal(message(), alone)
  equal(message(late), alone)
  local content = { status = 429, fields = {}, body = '{"message":"too many"}' }
  equal(message(content, late), alone .. "; before that: too many (status 429)")
  equal(message({ status = 503, fields = {}, body = "<html>" }),
    alone .. "; before that: status 503")
  equal(message(content, { kind = "lost", words = "the connection was closed" }),
    alone .. "; before that: the connection was closed")
end)

checking.run()
