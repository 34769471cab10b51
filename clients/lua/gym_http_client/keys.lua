--- The keys of dicts, which may be more than strings.
-- @module gym_http_client.keys
local integers = require("gym_http_client.integers")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local keys = {}

local KEY_TAGS = { int = true, float = true, str = true, bytes = true, ns = true }

--- Refuse a tree of typed JSON that no key may be.
function keys.check(tree)
  if type(tree) ~= "table" or integers.is_large(tree) or tree == kinds.null then
    return
  end
  local tag = kinds.of(tree) == "dict" and tree["$t"]
  if tag == "tuple" and type(tree.v) == "table" and kinds.of(tree.v) == "list" then
    for _, item in ipairs(tree.v) do
      keys.check(item)
    end
  elseif not KEY_TAGS[tag] then
    malformed.refuse("has a key that no dict may have")
  end
end

-- Equal keys of Python have equal names here: 1, 1.0 and True are one key.
local function name_of(key)
  local kind = type(key)
  if kind == "boolean" then
    return key and "1" or "0"
  elseif kind == "number" then
    if key ~= key then
      return nil
    end
    return key % 1 == 0 and ("%.0f"):format(key) or ("%.17g"):format(key)
  elseif kind == "string" then
    return "s" .. key
  elseif integers.is_large(key) then
    return key.digits
  elseif key == kinds.null then
    return "null"
  end
  kind = kinds.of(key)
  if kind == "bytes" then
    return "b" .. key.data
  elseif kind == "float" then
    return key.number and name_of(key.number)
  elseif kind == "scalar" then
    return name_of(key.value)
  elseif kind ~= "tuple" then
    return nil
  end
  local parts = {}
  for index, item in ipairs(key) do
    local part = name_of(item)
    if not part then
      return nil
    end
    parts[index] = #part .. ":" .. part
  end
  return "(" .. table.concat(parts, ",")
end

--- Refuse keys of which two are the same.
-- @tparam table list values
function keys.check_distinct(list)
  local seen = {}
  for _, key in ipairs(list) do
    local name = name_of(key)
    if name and seen[name] then
      malformed.refuse("has a key twice: %s", malformed.elided(key))
    end
    if name then
      seen[name] = true
    end
  end
end

--- Whether all keys are strings.
function keys.are_strings(list)
  for _, key in ipairs(list) do
    if type(key) ~= "string" then
      return false
    end
  end
  return true
end

return keys
