-- wrk script: completions whose prompts fall into 50 000 prefix families of 600 shared bytes each.
--   wrk -t1 -c64 -d120s -s scripts/families.lua http://127.0.0.1:8080
local families = 50000
local filler = string.rep("the quick brown fox jumps over the lazy dog ", 14)

wrk.method = "POST"
wrk.path = "/v1/completions"
wrk.headers["Content-Type"] = "application/json"

function request()
  local family = math.random(families)
  local shared = string.format("family %06d ", family) .. filler
  local body = string.format('{"model":"m","max_tokens":4,"prompt":"%s request %09d"}', shared:sub(1, 600), math.random(1000000000) - 1)
  return wrk.format(nil, nil, nil, body)
end
