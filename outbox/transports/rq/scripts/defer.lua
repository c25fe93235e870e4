-- Give executions back; the same delivery comes again later.
-- KEYS  1 queue  2 wip  3 scheduled
-- ARGV  1 prefix  2 clock offset ms, then per ticket: id, execution id, delay ms
-- gives per ticket: 1 deferred, 0 the execution was no longer the worker's
-- @include clock
-- @include line
-- @include executions
local answers = {}

local function defer(id, execution, delay)
  if drop_execution(KEYS[2], id, execution) == 0 then return 0 end
  local job = jobs .. id
  local score = redis.call('HGET', job, 'aq_score')
  if not score then return 0 end
  if delay > 0 then
    redis.call('HSET', job, 'status', 'scheduled', 'worker_name', '', 'aq_execution', '')
    redis.call('ZADD', KEYS[3], seconds(now + delay), id)
  else
    redis.call('HSET', job, 'status', 'queued', 'worker_name', '', 'aq_execution', '')
    line_up(KEYS[1], id, tonumber(score))
  end
  return 1
end

for i = 3, #ARGV, 3 do
  answers[#answers + 1] = defer(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]))
end
return answers
