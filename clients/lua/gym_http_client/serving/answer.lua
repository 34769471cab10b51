--- Answers: what a handler gives at once, or when the game is ready.
-- @module gym_http_client.serving.answer
local answers = {}

--- The answer to one request; handlers are given it behind what is asked.
-- It is called with what a handler gives, and then tells whether that was still wanted:
-- not if it was given already, or if the agent waits no more.
-- @type Answer
local Answer = {}
Answer.__index = Answer

-- Make the answer to a request; `tell` is called once, with what was given, or nil and
-- what was raised.
function answers.new(tell)
  return setmetatable({ tell = tell }, Answer)
end

function Answer:__call(given)
  local tell = self.tell
  self.tell = nil
  if tell then
    tell(given, nil)
  end
  return tell ~= nil
end

--- Say that the request failed.
-- @tparam string message in words, for the agent
-- @tparam[opt] string code `"bad-parameter"`, `"invalid-action"`, `"reset-needed"` or
-- `"unsupported"`, if nothing has been done; else the agent has to reset
-- @treturn boolean whether that was still wanted
function Answer:fail(message, code)
  local tell = self.tell
  self.tell = nil
  if tell then
    tell(nil, { message = message, code = code })
  end
  return tell ~= nil
end

--- Tell whether an answer is still wanted.
-- @treturn boolean
function Answer:is_wanted()
  return self.tell ~= nil
end

-- The agent waits no more.
function answers.drop(answer)
  answer.tell = nil
end

return answers
