--- JSON without loss: strict, exact in its numbers, objects in their order.
--
-- dkjson rounds floats to 14 digits, and integers to floats, and omits null; so
-- this client has its own parser and writer.
-- @module gym_http_client.json
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local numbers = require("gym_http_client.numbers")
local malformed = require("gym_http_client.malformed")
local text = require("gym_http_client.text")

local json = {}

--- Levels that JSON may be nested.
json.MAX_DEPTH = 128

local refuse, elided = malformed.refuse, malformed.elided
local null = kinds.null
local ESCAPES = {
  ['"'] = '"', ["\\"] = "\\", ["/"] = "/",
  b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}
local WORDS = { t = { "true", true }, f = { "false", false }, n = { "null", null } }

local max_depth = json.MAX_DEPTH
local read_value

local function unexpected(source, at)
  if at > #source then
    refuse("is not the JSON of a value: it ends too early")
  end
  refuse("is not the JSON of a value: %s at byte %d", elided(source:sub(at, at + 9)), at)
end

local function after_blanks(source, at)
  return (source:find("[^ \t\r\n]", at)) or #source + 1
end

local function code_of(source, at)
  local digits = source:match("^\\u(%x%x%x%x)", at)
  return digits and tonumber(digits, 16)
end

local function escaped(source, at)
  local name = source:sub(at + 1, at + 1)
  if name ~= "u" then
    local meant = ESCAPES[name]
    if not meant then
      unexpected(source, at)
    end
    return meant, at + 2
  end
  local code = code_of(source, at) or unexpected(source, at)
  local low = code >= 55296 and code < 56320 and code_of(source, at + 6)
  if low and low >= 56320 and low < 57344 then
    return text.character(65536 + (code - 55296) * 1024 + low - 56320), at + 12
  end
  return text.character(code), at + 6
end

local function read_string(source, at)
  local start = at + 1
  local stop = source:find('["\\%c]', start)
  if stop and source:byte(stop) == 34 then
    return source:sub(start, stop - 1), stop + 1
  end
  local parts = {}
  while true do
    stop = source:find('["\\%c]', start)
    if not stop then
      unexpected(source, #source + 1)
    end
    parts[#parts + 1] = source:sub(start, stop - 1)
    local byte = source:byte(stop)
    if byte == 34 then
      return table.concat(parts), stop + 1
    elseif byte == 92 then
      parts[#parts + 1], start = escaped(source, stop)
    elseif byte == 127 then
      parts[#parts + 1], start = "\127", stop + 1
    else
      unexpected(source, stop)
    end
  end
end

local function read_number(source, at)
  local whole, stop = source:match("^(%-?%d+)()", at)
  if not whole or whole:find("^%-?0%d") then
    unexpected(source, at)
  end
  stop = source:match("^%.%d+()", stop) or stop
  stop = source:match("^[eE][+-]?%d+()", stop) or stop
  local found = source:sub(at, stop - 1)
  local number = numbers.read(found)
  if number == nil then
    refuse("has a number that is too large: %s", elided(found))
  end
  return number, stop
end

local function read_array(source, at, depth)
  local items = {}
  at = after_blanks(source, at + 1)
  if source:byte(at) == 93 then
    return kinds.list(items), at + 1
  end
  while true do
    items[#items + 1], at = read_value(source, at, depth + 1)
    at = after_blanks(source, at)
    local byte = source:byte(at)
    if byte == 93 then
      return kinds.list(items), at + 1
    elseif byte ~= 44 then
      unexpected(source, at)
    end
    at = after_blanks(source, at + 1)
  end
end

local function read_member(source, at, depth, members, keys)
  if source:byte(at) ~= 34 then
    unexpected(source, at)
  end
  local key
  key, at = read_string(source, at)
  if members[key] ~= nil then
    refuse("is not the JSON of a value: the key %s is there twice", elided(key))
  end
  at = after_blanks(source, at)
  if source:byte(at) ~= 58 then
    unexpected(source, at)
  end
  keys[#keys + 1] = key
  members[key], at = read_value(source, after_blanks(source, at + 1), depth + 1)
  return after_blanks(source, at)
end

local function read_object(source, at, depth)
  local members, keys = {}, {}
  at = after_blanks(source, at + 1)
  if source:byte(at) == 125 then
    return setmetatable(members, kinds.ordered(keys)), at + 1
  end
  while true do
    at = read_member(source, at, depth, members, keys)
    local byte = source:byte(at)
    if byte == 125 then
      return setmetatable(members, kinds.ordered(keys)), at + 1
    elseif byte ~= 44 then
      unexpected(source, at)
    end
    at = after_blanks(source, at + 1)
  end
end

function read_value(source, at, depth)
  if depth > max_depth then
    refuse("is nested deeper than %d levels", max_depth)
  end
  local first = source:sub(at, at)
  if first == "{" then
    return read_object(source, at, depth)
  elseif first == "[" then
    return read_array(source, at, depth)
  elseif first == '"' then
    return read_string(source, at)
  end
  local word = WORDS[first]
  if not word then
    return read_number(source, at)
  end
  if source:sub(at, at + #word[1] - 1) ~= word[1] then
    unexpected(source, at)
  end
  return word[2], at + #word[1]
end

--- Parse JSON; refuses other text, an object with a duplicate key, and deep nesting.
-- Objects become tables that remember their keys' order, arrays lists, `null`
-- `gym.null`, and integers beyond the interpreter's numbers as `Integer`.
-- @tparam string source
-- @tparam[opt] number depth maximum nesting, by default `MAX_DEPTH`
function json.read(source, depth)
  max_depth = depth or json.MAX_DEPTH
  if not text.is_unicode(source) then
    refuse("is not written in UTF-8")
  end
  local value, at = read_value(source, after_blanks(source, 1), 1)
  at = after_blanks(source, at)
  if at <= #source then
    unexpected(source, at)
  end
  return value
end

local SHORT = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f",
  ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(character)
  return SHORT[character] or ("\\u%04x"):format(character:byte())
end

--- Write a string.
function json.quote(value)
  if value:find('[%c"\\]') then
    value = value:gsub('[%c"\\]', escape)
  end
  return '"' .. value .. '"'
end

local function write(value)
  local kind = type(value)
  if kind == "string" then
    return json.quote(value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind == "number" or integers.is_large(value) then
    return numbers.text(value)
  elseif value == null then
    return "null"
  end
  local parts = {}
  if kinds.of(value) == "dict" then
    for index, key in ipairs(kinds.keys(value)) do
      parts[index] = json.quote(key) .. ":" .. write(value[key])
    end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  for index, item in ipairs(value) do
    parts[index] = write(item)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

--- Write a value of `json.read`.
json.write = write

return json
