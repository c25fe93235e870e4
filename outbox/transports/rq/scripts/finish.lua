-- Take settled tickets off the broker.
-- KEYS  1 wip  2 worker  3 worker's executions  4 finished  5 failed  6 canceled
-- ARGV  1 prefix  2 clock offset ms  3 ms to keep settled tickets, 0 = not at all
--       then per ticket: id, execution id, index (in KEYS) of the registry
-- gives per ticket: 1 settled, 0 the execution was no longer the worker's
-- @include clock
local prefix, keep = ARGV[1], tonumber(ARGV[3])
local names = {[4] = 'finished', [5] = 'failed', [6] = 'canceled'}
local counted = {[4] = 0, [5] = 0, [6] = 0}
local answers, members = {}, {}

for i = 4, #ARGV, 3 do
  local id, member = ARGV[i], ARGV[i] .. ':' .. ARGV[i + 1]
  local registry = tonumber(ARGV[i + 2])
  local settled = redis.call('ZREM', KEYS[1], member)
  if settled == 1 then
    local job = prefix .. ':job:' .. id
    redis.call('DEL', prefix .. ':execution:' .. member)
    if keep == 0 then
      redis.call('DEL', job)
    elseif redis.call('EXISTS', job) == 1 then
      redis.call('HSET', job, 'status', names[registry], 'ended_at', iso(now), 'worker_name', '')
      redis.call('ZADD', KEYS[registry], seconds(now + keep), id)
      redis.call('PEXPIRE', job, keep)
    end
    members[#members + 1] = member
    counted[registry] = counted[registry] + 1
  end
  answers[#answers + 1] = settled
end
if #members > 0 then
  redis.call('SREM', KEYS[3], unpack(members))
  if redis.call('EXISTS', KEYS[2]) == 1 then  -- else a hash without an end would be made
    redis.call('HINCRBY', KEYS[2], 'successful_job_count', counted[4])
    redis.call('HINCRBY', KEYS[2], 'failed_job_count', counted[5])
  end
end
return answers
