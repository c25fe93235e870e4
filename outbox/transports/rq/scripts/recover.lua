-- Put ended executions and due deferred tickets back at their places; drop forgotten registry rows.
-- KEYS  1 queue  2 wip  3 scheduled  4 finished  5 failed  6 canceled
-- ARGV  1 prefix  2 clock offset ms  3 limit  4 grace ms
-- gives the number of entries looked at, and the number of tickets put back
-- @include clock
-- @include line
-- @include executions
local limit, seen, back = tonumber(ARGV[3]), 0, 0

-- a started job goes back only if nobody else has it since: a stock worker names no aq_execution
local function put_back(id, expected, execution)
  local job = redis.pcall('HMGET', jobs .. id, 'status', 'aq_score', 'aq_execution')
  if job.err or job[1] ~= expected or not tonumber(job[2]) then return end
  if job[3] and job[3] ~= '' and job[3] ~= execution then return end
  redis.call('HSET', jobs .. id, 'status', 'queued', 'worker_name', '', 'aq_execution', '')
  line_up(KEYS[1], id, tonumber(job[2]))
  back = back + 1
end

-- a started registry's score is the lease's end plus the grace that stock RQ readers get
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', seconds(now + ARGV[4]), 'LIMIT', 0, limit)
for _, member in ipairs(ended) do
  local id, execution = string.match(member, '^(.*):([^:]*)$')
  seen = seen + 1
  if id then
    drop_execution(KEYS[2], id, execution)
    put_back(id, 'started', execution)
  else
    redis.call('ZREM', KEYS[2], member)
  end
end
if seen < limit then
  local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', seconds(now), 'LIMIT', 0, limit - seen)
  for _, id in ipairs(due) do
    seen = seen + 1
    redis.call('ZREM', KEYS[3], id)
    put_back(id, 'scheduled')
  end
end
for registry = 4, 6 do
  redis.call('ZREMRANGEBYSCORE', KEYS[registry], '-inf', seconds(now))
end
return {seen, back}
