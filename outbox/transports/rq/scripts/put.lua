-- Queue tickets at the places their scores give.
-- KEYS  1 queue  2 queues  3 wip  4 scheduled  5 finished  6 failed  7 canceled
-- ARGV  1 prefix  2 clock offset ms  3 queue name  4 description  5 job timeout s  6 kept ttl s
--       7 whether to put only where nothing waits: 0 or 1
--       then per ticket: id, delivery number, score, created (ISO), call (JSON)
-- gives per ticket: 0 duplicate, 1 new, 2 newer delivery of a known job, 3 others wait, or a text: refused
-- @include clock
-- @include line
-- @include executions
local stamp = iso(now)

local function forget(id, execution)
  if execution then drop_execution(KEYS[3], id, execution) end
  for _, stock in ipairs(redis.call('ZRANGE', prefix .. ':executions:' .. id, 0, -1)) do
    drop_execution(KEYS[3], id, stock)
  end
  redis.call('LREM', KEYS[1], 0, id)
  for registry = 4, 7 do redis.call('ZREM', KEYS[registry], id) end
  redis.call('DEL', jobs .. id, prefix .. ':executions:' .. id)
end

local function put(id, delivery, score, created, call)
  local known = redis.pcall('HMGET', jobs .. id, 'aq_delivery', 'status', 'aq_execution')
  if known.err then return known.err end
  local result = 1
  if known[1] or known[2] then
    if (tonumber(known[1] or '0') or 0) >= tonumber(delivery) then return 0 end
    forget(id, known[3])
    result = 2
  end
  redis.call('HSET', jobs .. id, 'status', 'queued', 'origin', ARGV[3], 'description', ARGV[4],
    'timeout', ARGV[5], 'result_ttl', ARGV[6], 'failure_ttl', ARGV[6], 'created_at', created,
    'enqueued_at', stamp, 'data', call, 'aq_delivery', delivery, 'aq_score', score)
  line_up(KEYS[1], id, tonumber(score))
  return result
end

local answers = {}
local busy = ARGV[7] == '1' and redis.call('LLEN', KEYS[1]) > 0
redis.call('SADD', KEYS[2], KEYS[1])
for i = 8, #ARGV, 5 do
  answers[#answers + 1] = busy and 3 or put(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
return answers
