--- Answers of handlers, at once or later.
-- @module gym_http_client.serving.answer
local answers = {}

--- The answer to one request, the last argument of a handler.
-- Call it with a handler's result. It returns whether the answer was still wanted:
-- not if it was answered before, or if the agent no longer waits.
-- @type Answer
local Answer = {}
Answer.__index = Answer

-- Make the answer to a request; `notify` is called once, with the result, or nil and
-- the error.
function answers.new(notify)
  return setmetatable({ notify = notify }, Answer)
end

function Answer:__call(given)
  local notify = self.notify
  self.notify = nil
  if notify then
    notify(given, nil)
  end
  return notify ~= nil
end

--- Answer with an error.
-- @tparam string message for the agent
-- @tparam[opt] string code `"bad-parameter"`, `"invalid-action"`, `"reset-needed"` or
-- `"unsupported"`, if nothing has changed; otherwise the agent must reset
-- @treturn boolean whether the answer was still wanted
function Answer:fail(message, code)
  local notify = self.notify
  self.notify = nil
  if notify then
    notify(nil, { message = message, code = code })
  end
  return notify ~= nil
end

--- Return whether an answer is still wanted.
-- @treturn boolean
function Answer:is_wanted()
  return self.notify ~= nil
end

-- The agent waits no more.
function answers.drop(answer)
  answer.notify = nil
end

return answers
