--- Abilities of the interpreter: the same files run on Lua 5.1 to 5.4 and LuaJIT.
-- @module gym_http_client.platform
local platform = {}

--- `table.unpack`, by its name of the day.
platform.unpack = table.unpack or unpack -- luacheck: ignore 113 143

--- `math.type`, where integers are a type of their own (Lua 5.3 on).
platform.math_type = math.type -- luacheck: ignore 143

--- `string.pack` and `string.unpack` (Lua 5.3 on).
platform.string_pack = string.pack -- luacheck: ignore 143
platform.string_unpack = string.unpack -- luacheck: ignore 143

--- Compile source text; nil if the interpreter cannot parse it.
function platform.compile(source, name)
  return (loadstring or load)(source, name) -- luacheck: ignore 113
end

local jit = rawget(_G, "jit")
local has_ffi, ffi = pcall(require, "ffi")

--- LuaJIT's FFI, or nil. Other interpreters may have a library of that name.
platform.ffi = jit and has_ffi and ffi or nil

--- The largest integer up to which all are numbers of every interpreter: 2^53.
platform.MAX_EXACT = 9007199254740992

return platform
