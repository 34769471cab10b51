--- The checks of the vectors, file by file.
local received_signatures = require("gym_http_client.received_signatures")
local binary = require("gym_http_client.binary")
local errors = require("gym_http_client.errors")
local frames = require("gym_http_client.frames")
local gym = require("gym_http_client")
local json = require("gym_http_client.json")
local models = require("models")
local numbers = require("gym_http_client.numbers")
local plain = require("gym_http_client.plain")
local malformed = require("gym_http_client.malformed")
local spaces = require("gym_http_client.spaces")
local retries = require("gym_http_client.retries")
local typed = require("gym_http_client.typed")
local typed_writer = require("gym_http_client.typed_writer")
local websocket = require("gym_http_client.websocket")

local unhex, hex = models.unhex, models.hex
local attempt = malformed.attempt

local vectors = {}

-- A generator with the same numbers in every interpreter.
local function generator(seed)
  local state = seed
  return function()
    state = (state * 16807) % 2147483647
    return (state - 1) / 2147483646
  end
end

local function shown(value, why)
  if value == nil then
    return "refused: " .. tostring(why)
  end
  local content, text = pcall(typed_writer.encode, value)
  return (content and text or tostring(value)):sub(1, 200)
end

local function decoded(check, aspect, model, value, why)
  check(value ~= nil and models.matches(model, value), aspect, json.write(model):sub(1, 200),
    shown(value, why))
end

vectors["values.json"] = function(case, check)
  if case.typed ~= gym.null then
    decoded(check, "typed", case.value, attempt(typed.decode, case.typed))
  end
  if case.binary ~= gym.null then
    decoded(check, "binary", case.value, attempt(binary.decode, unhex(case.binary)))
  end
  if case.decode_only then
    return
  end
  local value = models.build(case.value)
  if case.binary ~= gym.null then
    local written = hex(binary.encode(value))
    check(written == case.binary, "encode binary", case.binary, written)
  end
  if case.typed ~= gym.null then
    local written = typed_writer.encode(value)
    local same = models.same_tree(json.read(case.typed), json.read(written))
    check(same, "encode typed", case.typed, written)
  end
end

vectors["numbers.json"] = function(case, check)
  local value, why = attempt(json.read, case.text)
  if case.refused then
    check(value == nil, "refused", "refused", shown(value, why))
    return
  end
  decoded(check, "read", case.value, value, why)
  local built = models.build(case.value)
  local text = type(built) == "table" and gym.kind(built) == "float"
    and numbers.float_text(built.number) or numbers.text(built)
  decoded(check, "write " .. text, case.value, attempt(json.read, text))
end

vectors["spaces.json"] = function(case, check)
  local space, why = attempt(spaces.read, case.space)
  if case.refused then
    check(space == nil, "refused", "refused", "a space")
    return
  end
  check(space ~= nil, "read", "a space", why)
  if not space then
    return
  end
  local again = json.read(json.write(space:describe()))
  check(models.same_tree(case.space, again, true), "describe", json.write(case.space),
    json.write(again))
  local rng = generator(1)
  for _ = 1, case.samples or 20 do
    local sample = space:sample(rng)
    check(space:contains(sample), "sample", "an element", sample)
  end
end

vectors["elements.json"] = function(case, check)
  local space = spaces.read(case.space)
  local value = models.build(case.value)
  local is_member = space:contains(value)
  check(is_member == case.member, "contains", case.member, is_member)
  if not case.member or case.plain == gym.null then
    return
  end
  local text = plain.encode(value)
  check(models.same_tree(json.read(case.plain), json.read(text), true), "plain", case.plain, text)
  local tree = json.read(case.plain)
  local element, why = attempt(space.read_plain, space, tree)
  -- A scalar is read as the number that stands for it.
  decoded(check, "read plain", case.value, element, why)
end

vectors["frames.json"] = function(case, check)
  local message = unhex(case.hex)
  local frame, why = frames.decode(message)
  if case.refused then
    check(frame == nil, "refused", "refused", "a frame")
    return
  end
  check(frame ~= nil, "read", "a frame", why)
  local expected = case.frame
  for _, name in ipairs({ "status", "operation", "number" }) do
    check(frame[name] == expected[name], name, expected[name], frame[name])
  end
  local forms = expected.form + 16 * expected.answer_form
  check(frame.forms == forms, "forms", forms, frame.forms)
  local body = hex(message:sub(frame.body_at))
  check(body == expected.body, "body", expected.body, body)
  local head = frame.head or gym.null
  check(models.same_tree(expected.head, head), "head", json.write(expected.head), json.write(head))
  local written = hex(frames.encode(expected.operation, expected.number, expected.status, forms,
    unhex(expected.body), expected.head ~= gym.null and json.write(expected.head) or nil))
  check(written == case.hex, "write", case.hex, written)
end

vectors["signatures.json"] = function(case, check)
  local known = received_signatures.new()
  for index, message in ipairs(case.messages) do
    local value, why = attempt(known.read, known, unhex(message.body), 1)
    if message.refused then
      check(value == nil, "message " .. index, "refused", shown(value))
    else
      decoded(check, "message " .. index, message.value, value, why)
    end
  end
end

vectors["malformed.json"] = function(case, check)
  local data = case.hex and unhex(case.hex) or case.text
  local decode = case.form == "typed" and typed.decode or binary.decode
  local value = attempt(decode, data)
  check(value == nil, "refused", "refused", shown(value))
end

vectors["errors.json"] = function(case, check)
  local url = "http://127.0.0.1:5000/v1/envs/3c657dbc/step/"
  local failed = errors.of_reply({ status = case.status, fields = case.headers, body = case.body },
    url)
  local expected = case.expected
  local function is(name, actual)
    local wanted = expected[name] ~= gym.null and expected[name] or nil
    check(actual == wanted, name, wanted, actual)
  end
  is("kind", failed.kind)
  is("status", failed.status)
  is("code", failed.code)
  if expected.message ~= gym.null then
    is("message", failed.message)
  end
  check(failed.traceback == case.traceback, "traceback", case.traceback, failed.traceback)
  check(failed.url == url, "url", url, failed.url)
  local retried = retries.is_repeated({ status = case.status, body = case.body }, case.creates)
  check(retried == case.retried, "retried", case.retried, retried)
end

-- The results of a connection with available bytes.
local function source_of(data)
  local source = { at = 1 }
  function source:exactly(count)
    if self.at + count - 1 > #data then
      return nil, { kind = "lost", words = "the end" }
    end
    self.at = self.at + count
    return data:sub(self.at - count, self.at - 1)
  end
  return source
end

local function reader_of(data)
  return websocket.reader(source_of(data), 268435456)
end

local function check_messages(case, check)
  local reader = reader_of(unhex(case.from_server))
  for index, message in ipairs(case.messages) do
    local opcode, payload = reader:next()
    local same = opcode == message.opcode and hex(payload) == message.payload
    check(same, "message " .. index, message.payload, opcode and hex(payload))
  end
end

local function check_frame(case, check)
  local payload = case.payload and unhex(case.payload)
    or string.char(case.payload_repeat.byte):rep(case.payload_repeat.count)
  if case.mask ~= gym.null then
    local written = hex(websocket.frame(case.opcode, payload, unhex(case.mask), not case.fin))
    local wanted = case.hex or case.hex_prefix
    check(written:sub(1, #wanted) == wanted and (case.hex_prefix or #written == #wanted), "write",
      wanted, written:sub(1, #wanted))
    return
  end
  local data = case.hex and unhex(case.hex)
  if not data then
    local head = unhex(case.hex_prefix):match("^(..........)")
    local size = #payload < 65536 and 4 or 10
    data = unhex(case.hex_prefix):sub(1, size) .. payload
    assert(head)
  end
  if not case.fin then
    data = data .. unhex("8000")
  end
  local opcode, read = reader_of(data):next()
  check(opcode == case.opcode and read == payload, "read", case.opcode, opcode or read.words)
end

vectors["websocket.json"] = function(case, check)
  if case.key then
    local accept = websocket.accept_of(case.key)
    check(accept == case.accept, "accept", case.accept, accept)
  elseif case.messages then
    check_messages(case, check)
  elseif case.from_server then
    local opcode, failed = reader_of(unhex(case.from_server)):next()
    check(opcode == nil and failed.kind == "malformed", "refused", "refused",
      opcode or failed.words)
  else
    check_frame(case, check)
  end
end

local function play(case, check, url, way)
  local options = { url = url, stream = way == "stream" }
  for name, value in pairs(case.create) do
    if name ~= "env_id" then
      options[name] = value
    end
  end
  local env = gym.assert(gym.make(case.create.env_id, options))
  local observation, info = gym.assert(env:reset({ seed = case.seed }))
  decoded(check, way .. " reset", case.reset.observation, observation)
  decoded(check, way .. " reset info", case.reset.info, info)
  for index, step in ipairs(case.steps) do
    local at = way .. " step " .. index
    local seen, reward, terminated, truncated, content = gym.assert(env:step(case.actions[index]))
    decoded(check, at, step.observation, seen)
    decoded(check, at .. " reward", step.reward, reward)
    check(terminated == step.terminated, at .. " terminated", step.terminated, terminated)
    check(truncated == step.truncated, at .. " truncated", step.truncated, truncated)
    decoded(check, at .. " info", step.info, content)
  end
  check(env:transport() == way, way .. " is the way", way, env:transport())
  gym.assert(env:close())
end

vectors["transcripts.json"] = function(case, check, url)
  play(case, check, url, "rest")
  play(case, check, url, "stream")
end

return vectors
