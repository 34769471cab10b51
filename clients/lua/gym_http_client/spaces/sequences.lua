--- Sequence and Graph: as many elements as there happen to be.
-- @module gym_http_client.spaces.sequences
local base = require("gym_http_client.spaces.base")
local batches = require("gym_http_client.spaces.batches")
local drawing = require("gym_http_client.spaces.drawing")
local fields = require("gym_http_client.spaces.fields")
local kinds = require("gym_http_client.kinds")
local malformed = require("gym_http_client.malformed")

-- As Gymnasium draws lengths: each further element is as likely as three to one.
local PROBABILITY = 0.25
local MAX_NODES = 10

local Sequence, sequence = base.class("Sequence")

function base.readers.Sequence(description, depth)
  local stack = description.stack
  if stack ~= nil and type(stack) ~= "boolean" then
    fields.refuse(description, "stack", "true or false")
  end
  return setmetatable({
    description = description,
    feature_space = base.read(description.space, depth + 1),
    stack = stack or false,
  }, Sequence)
end

local PLAIN = { list = true, tuple = true }

local function all_contained(space, elements)
  if not elements then
    return false
  end
  for _, element in ipairs(elements) do
    if not space:contains(element) then
      return false
    end
  end
  return true
end

--- Whether a value is an element: a list of elements of the feature's space, or, if they
-- are stacked, an array of them.
function sequence:contains(value)
  if type(value) ~= "table" then
    return false
  elseif self.stack then
    return all_contained(self.feature_space, batches.unstack(self.feature_space, value))
  end
  local fits = PLAIN[kinds.of(value)] or (kinds.of(value) == "dict" and next(value) == nil)
  return fits and all_contained(self.feature_space, value) or false
end

local function draw(space, rng, count)
  local elements = {}
  for index = 1, count do
    elements[index] = space:sample(rng)
  end
  return elements
end

--- Draw an element.
function sequence:sample(rng)
  local count = drawing.tries(base.generator(rng), PROBABILITY)
  local elements = draw(self.feature_space, rng, count)
  return self.stack and batches.stack(self.feature_space, elements) or kinds.tuple(elements)
end

local function read_elements(space, tree)
  if type(tree) ~= "table" or kinds.of(tree) ~= "list" then
    malformed.refuse("is no list")
  end
  local elements = {}
  for index, item in ipairs(tree) do
    elements[index] = space:read_plain(item)
  end
  return elements
end

--- Make an element of plain JSON.
function sequence:read_plain(tree)
  local elements = read_elements(self.feature_space, tree)
  return self.stack and batches.stack(self.feature_space, elements) or kinds.tuple(elements)
end

local Graph, graph = base.class("Graph")

function base.readers.Graph(description, depth)
  local edges = description.edge_space
  return setmetatable({
    description = description,
    node_space = base.read(description.node_space, depth + 1),
    edge_space = edges ~= nil and edges ~= kinds.null and base.read(edges, depth + 1) or nil,
  }, Graph)
end

local function are_links(requesters, edges, nodes)
  if type(requesters) ~= "table" or kinds.of(requesters) ~= "array" or #requesters.shape ~= 2
    or requesters.shape[1] ~= edges or requesters.shape[2] ~= 2 then
    return false
  end
  for index = 1, 2 * edges do
    local requester = requesters[index]
    if type(requester) ~= "number" or requester % 1 ~= 0 or requester < 0 or requester >= nodes then
      return false
    end
  end
  return true
end

local function absent(value)
  return value == nil or value == kinds.null
end

--- Whether a value is an element: of `gym.graph` with such nodes and edges.
function graph:contains(value)
  if type(value) ~= "table" or kinds.of(value) ~= "graph" then
    return false
  end
  local nodes = batches.unstack(self.node_space, value.nodes)
  if not all_contained(self.node_space, nodes) then
    return false
  elseif absent(value.edges) then
    return absent(value.edge_links)
  elseif not self.edge_space then
    return false
  end
  local edges = batches.unstack(self.edge_space, value.edges)
  return all_contained(self.edge_space, edges)
    and are_links(value.edge_links, #edges, #nodes)
end

local function links_of(numbers)
  numbers.shape, numbers.dtype = { #numbers / 2, 2 }, "int32"
  return setmetatable(numbers, kinds.Array)
end

--- Draw an element.
function graph:sample(rng)
  rng = base.generator(rng)
  local count = 1 + drawing.below(rng, MAX_NODES)
  local nodes = batches.stack(self.node_space, draw(self.node_space, rng, count))
  if not self.edge_space then
    return kinds.graph(nodes, kinds.null, kinds.null)
  end
  local edge_count, requesters = 1 + drawing.below(rng, MAX_NODES), {}
  for index = 1, 2 * edge_count do
    requesters[index] = drawing.below(rng, count)
  end
  local edges = batches.stack(self.edge_space, draw(self.edge_space, rng, edge_count))
  return kinds.graph(nodes, edges, links_of(requesters))
end

--- Make an element of plain JSON.
function graph:read_plain(tree)
  if type(tree) ~= "table" or kinds.of(tree) ~= "dict" then
    malformed.refuse("is no object of nodes, edges and edge_links")
  end
  local nodes = batches.stack(self.node_space, read_elements(self.node_space, tree.nodes))
  if absent(tree.edges) or not self.edge_space then
    return kinds.graph(nodes, kinds.null, kinds.null)
  end
  local requesters = {}
  for _, pair in ipairs(tree.edge_links or {}) do
    requesters[#requesters + 1], requesters[#requesters + 2] = pair[1], pair[2]
  end
  local edges = batches.stack(self.edge_space, read_elements(self.edge_space, tree.edges))
  return kinds.graph(nodes, edges, links_of(requesters))
end

return { Sequence = Sequence, Graph = Graph }
