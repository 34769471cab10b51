--- Environments of this program, provided to a server.
--
--     local serve = require("gym_http_client.serve")
--     local place = 0
--     local provider = serve.env({
--       url = "http://127.0.0.1:5000",
--       name = "corridor",
--       observation_space = { type = "Discrete", n = 5 },
--       action_space = { type = "Discrete", n = 2 },
--       reset = function()
--         place = 0
--         return { observation = place }
--       end,
--       step = function(action)
--         place = math.max(0, math.min(4, place + (action == 1 and 1 or -1)))
--         return { observation = place, reward = place == 4 and 1 or 0, terminated = place == 4 }
--       end,
--     })
--     provider:run()
--
-- Agents create it as `external/corridor`. Instead of `run`, which blocks, a game calls
-- `poll` once a frame.
-- @module gym_http_client.serve
local providers = require("gym_http_client.serving.provider")
local provided = require("gym_http_client.serving.provided_env")
local connections = require("gym_http_client.serving.connections")
local usage = require("gym_http_client.usage")
local options = require("gym_http_client.options")

local serve = {}

--- The default URL of a server.
serve.DEFAULT_URL = "http://127.0.0.1:5000"

local TYPES = {
  url = "string", token = "string", tls = "table", name = "string", dialect = "string",
  capabilities = "table", render_modes = "table", reward_channels = "table",
  metadata = "table", realtime = "table", replace = "boolean", log = "function",
  on_agent = "function", on_agent_gone = "function", init = "function",
  reset = "function", observe = "function", step = "function", render = "function",
  close = "function",
}
local NAMES = { "action_space", "observation_space" }
for name in pairs(TYPES) do
  NAMES[#NAMES + 1] = name
end
table.sort(NAMES)

local function check(given)
  given = options.checked(given, "serve.env", '{name = "corridor", step = function() … end}',
    NAMES)
  options.typed(given, TYPES)
  for _, name in ipairs({ "name", "observation_space", "action_space", "step" }) do
    if given[name] == nil then
      usage.raise("serve.env needs the option %s", name)
    end
  end
  if not given.reset and not given.observe then
    usage.raise("serve.env needs the option reset; or observe, where no episode can be begun")
  end
  return given
end

--- Provide an environment, from the first call of `Provider:run` or `Provider:poll`.
-- The name of the server is looked up here, which may block.
-- @tparam table given its description, and the handlers of agents' requests:
--
-- * `name`: a letter or digit, then up to 63 of `A-Za-z0-9_.-`
-- * `observation_space`, `action_space`: spaces, or their descriptions
-- * `reset`: a function of `{seed = …, options = …}`, which begins an episode and returns
--   `{observation = …, info = …}`; or `observe`, which returns the present observation
-- * `step`: a function of an action, which returns `{observation = …, reward = …,
--   terminated = …, truncated = …, info = …}`
-- * `init`: a function of `{kwargs = …, render_mode = …}`; may return other spaces
-- * `render`: a function that returns a text, an array, or a frame
-- * `close`: called when the agent has closed the instance
-- * `on_agent`, `on_agent_gone`: called when an agent comes and leaves
-- * `url`: with `http`, `https`, `ws`, `wss`, or `tcp`; or `stdio:`, if the server starts
--   this program; `token`; `tls`, as for `gym.new`
-- * `dialect`: `"json"` or `"binary"`
-- * `capabilities`, `render_modes`, `reward_channels`, `metadata`, `realtime`, `replace`
-- * `log`: called with a line for each event; by default `print`
-- @treturn Provider
function serve.env(given)
  check(given)
  local target = connections.target(given.url or serve.DEFAULT_URL, given.token, given.tls)
  return providers.new(given, provided.new(given), target, connections.open)
end

return serve
