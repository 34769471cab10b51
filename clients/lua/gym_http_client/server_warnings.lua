--- Warnings of the server and the environment, as a local user would see them.
-- @module gym_http_client.server_warnings
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local server_warnings = {}

-- Print a warning, unless the client has a function of its own for it.
local function print_warning(warning)
  local text = warning.message:gsub("\27%[[%d;]*m", "")
  io.stderr:write(warning.category, ": ", text, "\n")
end

local function text_of(value, default)
  return type(value) == "string" and value or default
end

--- Show warnings.
-- @tparam Requester requester whose options may have `on_warning`
-- @param content a list of tables with `category` and `message`, or any other value
function server_warnings.show(requester, content)
  if type(content) ~= "table" or kinds.of(content) ~= "list" then
    return
  end
  local show = requester.options.on_warning or print_warning
  for _, each in ipairs(content) do
    if type(each) == "table" and kinds.of(each) == "dict" then
      show({
        category = text_of(each.category, "UserWarning"),
        message = text_of(each.message, ""),
      })
    end
  end
end

--- Show the warnings in the headers of a reply.
-- @tparam Requester requester
-- @tparam table reply
function server_warnings.show_header(requester, reply)
  local header = reply.fields["gym-warnings"]
  if header then
    server_warnings.show(requester, (malformed.attempt(json.read, header)))
  end
end

--- Remove the warnings from a value, and show them.
-- @tparam Requester requester
-- @param value
-- @return the value
function server_warnings.taken(requester, value)
  if type(value) == "table" and kinds.of(value) == "dict" and value.warnings ~= nil then
    server_warnings.show(requester, value.warnings)
    value.warnings = nil
  end
  return value
end

return server_warnings
