--- The standard input and output of a program that the server has started, as a wire.
--
-- Lua cannot move descriptors: standard input and output keep theirs, and only what Lua
-- itself prints goes to standard error.
-- @module gym_http_client.serving.standard_streams
local socket = require("socket")

local usage = require("gym_http_client.usage")

local standard_streams = {}

local Streams = {}
Streams.__index = Streams

local input, output

-- What `socket.select` needs of a socket.
local INPUT = {
  getfd = function() return 0 end,
  dirty = function() return false end,
}
local INPUTS = { INPUT }

local function is_readable(seconds)
  return socket.select(INPUTS, nil, seconds)[1] ~= nil
end

local function is_device()
  local found = os.execute("{ test -t 0 || test /dev/stdin -ef /dev/null; } 2> /dev/null")
  -- In Lua 5.1 it is the exit status.
  return found == true or found == 0
end

local function print_to_stderr(...)
  local words = {}
  for index = 1, select("#", ...) do
    words[index] = tostring((select(index, ...)))
  end
  io.stderr:write(table.concat(words, "\t") .. "\n")
end

--- Take standard input and output for messages alone. From then on `print`, `io.write` and
-- `io.stdout` print to standard error.
function standard_streams.take()
  if output then
    return
  elseif package.config:sub(1, 1) == "\\" then
    usage.raise('"stdio:" needs Linux or macOS')
  elseif is_device() then
    usage.raise('standard input is a terminal or /dev/null: "stdio:" is for programs that '
      .. "a server starts (serve --env-command NAME=COMMAND)")
  end
  input, output = io.stdin, io.stdout
  -- So that `socket.select` knows of all bytes that have arrived.
  input:setvbuf("no")
  output:setvbuf("full")
  rawset(_G, "print", print_to_stderr)
  rawset(io, "stdout", io.stderr)
  io.output(io.stderr)
  local nothing = io.open("/dev/null")
  if nothing then
    rawset(io, "stdin", nothing)
    io.input(nothing)
  end
end

--- Make the wire.
function standard_streams.new()
  return setmetatable({}, Streams)
end

--- Nothing has to be connected.
-- @treturn boolean true
function Streams.connect()
  return true
end

--- Receive exactly so many bytes; suspends the coroutine where there are none. The program
-- ends with its standard input.
-- @treturn string
function Streams:exactly(count)
  if count == 0 then
    return ""
  end
  while not self.is_readable and not is_readable(0) do
    coroutine.yield()
  end
  self.is_readable = false
  local data = input:read(count)
  if not data or #data < count then
    os.exit(0)
  end
  self.has_received = true
  return data
end

--- Send bytes. It waits for the server, which reads at once.
-- @treturn boolean true
function Streams:send(data)
  output:write(data)
  output:flush()
  return true
end

--- Do nothing: all bytes are sent.
function Streams.flush() end

--- Wait until there is something to receive, at most for these seconds.
function Streams:wait(seconds)
  self.is_readable = is_readable(seconds)
end

--- Do nothing: Lua cannot close standard output, which ends with the program.
function Streams.close() end

return standard_streams
