--- Common functions of the native tests: named tests, and assertions.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = table.concat({
  here .. "/?.lua", here .. "/../?.lua", here .. "/../?/init.lua", package.path,
}, ";")

local checking = { tests = {} }

--- Add a test.
function checking.test(name, body)
  checking.tests[#checking.tests + 1] = { name, body }
end

--- Demand that two values are the same.
function checking.equal(actual, expected, what)
  if actual ~= expected then
    error(("%s: expected %s, actual %s"):format(what or "value", tostring(expected),
      tostring(actual)), 2)
  end
end

--- Demand that a table has just these items.
function checking.items(actual, expected, what)
  checking.equal(#actual, #expected, (what or "items") .. ", how many")
  for index, item in ipairs(expected) do
    if actual[index] ~= item then
      error(("%s, number %d: expected %s, actual %s"):format(what or "items", index,
        tostring(item), tostring(actual[index])), 2)
    end
  end
end

--- Check that a call raises an error with this text.
function checking.misuse(words, call, ...)
  local fine, why = pcall(call, ...)
  if fine or not tostring(why):find(words, 1, true) then
    error(("expected misuse: %s, actual: %s"):format(words, tostring(why)), 2)
  end
end

--- Run all tests, and end.
function checking.run()
  local failed = 0
  for _, test in ipairs(checking.tests) do
    local fine, why = xpcall(test[2], function(raised)
      return debug.traceback(tostring(raised), 2)
    end)
    if not fine then
      failed = failed + 1
      print("FAIL " .. test[1] .. ": " .. why)
    end
  end
  print(("%d tests, %d failed"):format(#checking.tests, failed))
  os.exit(failed == 0 and 0 or 1)
end

return checking
