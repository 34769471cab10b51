--- Errors: the second result of a failed call.
-- @module gym_http_client.errors
local json = require("gym_http_client.json")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

local errors = {}

local Error = { __kind = "error" }
Error.__index = Error

--- An error.
-- @table Error
-- @tfield string kind `"transport"`: no answer; `"api"`: the server refused;
-- `"protocol"`: the answer does not follow the protocol
-- @tfield string message for people
-- @tfield ?number status of HTTP, if there was an answer
-- @tfield ?string code the server's name of the problem, such as `"unknown-instance"`
-- @tfield string url of the request
-- @tfield ?table problem all members of the server's problem
-- @tfield ?string traceback of the environment's exception on the server

function Error:__tostring()
  local about = {}
  if self.status then
    about[1] = "status " .. self.status
  end
  if self.code then
    about[#about + 1] = self.code
  end
  about[#about + 1] = self.url
  return ("%s (%s)"):format(self.message, table.concat(about, ", "))
end

local function new(kind, message, url, status, code, problem)
  local traceback = problem and problem.traceback
  local fields = {
    kind = kind, message = message, url = url, status = status, code = code,
    problem = problem, traceback = type(traceback) == "string" and traceback or nil,
  }
  return setmetatable(fields, Error)
end

-- There was no answer.
function errors.transport(message, url)
  return new("transport", message, url)
end

-- The answer does not follow the protocol.
function errors.protocol(message, url, status)
  return new("protocol", message, url, status)
end

--- Return whether a value is an error of this client; also `gym.is_error`.
-- @param value
-- @treturn boolean
function errors.is(value)
  return getmetatable(value) == Error
end

-- Make the error of a server's problem: a table with `message`, and optionally
-- `code` and others.
function errors.api(problem, url, status)
  local code = problem.code
  return new("api", problem.message, url, status, type(code) == "string" and code or nil,
    problem)
end

local function problem_in(body)
  local content = malformed.attempt(json.read, body)
  local is_dict = type(content) == "table" and kinds.of(content) == "dict"
  if is_dict and type(content.message) == "string" then
    return content
  end
  return nil
end

-- Make the error of an unexpected HTTP answer.
function errors.of_reply(reply, url)
  local problem = problem_in(reply.body)
  if problem and reply.status >= 400 then
    return errors.api(problem, url, reply.status)
  end
  local message = ("the server answered with status %d and no reason; "
    .. "is it a gym_http_server?"):format(reply.status)
  return errors.protocol(message, url, reply.status)
end

-- Return the message and the code of the problem in an answer; nil for other answers.
function errors.message_and_code(reply)
  local problem = problem_in(reply.body)
  if problem then
    return problem.message, problem.code
  end
  return nil
end

-- Make the error of a stream's answer that is not 200.
function errors.of_problem(body, status, url)
  local problem = problem_in(body)
  if not problem then
    return errors.protocol("the answer is neither a value nor a problem", url, status)
  end
  if type(problem.extras) == "table" and kinds.of(problem.extras) == "dict" then
    for key, value in pairs(problem.extras) do
      if problem[key] == nil then
        problem[key] = value
      end
    end
  end
  return errors.api(problem, url, status)
end

return errors
