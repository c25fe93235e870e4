-- Hand out the first waiting tickets.
-- KEYS  1 queue  2 wip  3 failed  4 worker's executions  5 suspended
-- ARGV  1 prefix  2 clock offset ms  3 limit  4 lease ms  5 grace ms  6 worker  7 execution id stem
-- gives nil while suspended, else a flat list, per ticket:
--       id, execution id, call (JSON), delivery number, score, hand-outs
-- @include clock
local out = {}
if redis.call('EXISTS', KEYS[5]) == 1 then return false end  -- `rq suspend`
local prefix, limit = ARGV[1], tonumber(ARGV[3])
local held = ARGV[4] + ARGV[5]
local stamp, at, ends = iso(now), seconds(now), seconds(now + held)
local claimed, scored = {}, {}

local function hand_out(id, job, found)
  local execution = ARGV[7] .. string.format('%02x', #claimed)
  local member = id .. ':' .. execution
  local handouts = (tonumber(found[4] or '0') or 0) + 1
  redis.call('HSET', job, 'status', 'started', 'started_at', stamp, 'last_heartbeat', stamp,
    'worker_name', ARGV[6], 'aq_execution', execution, 'aq_handouts', handouts)
  redis.call('HSET', prefix .. ':execution:' .. member, 'job_id', id, 'created_at', at,
    'last_heartbeat', at, 'worker_name', ARGV[6])
  redis.call('PEXPIRE', prefix .. ':execution:' .. member, held + 60000)
  claimed[#claimed + 1] = member
  scored[#scored + 1] = ends
  scored[#scored + 1] = member
  local at_end = #out
  out[at_end + 1], out[at_end + 2], out[at_end + 3] = id, execution, found[2]
  out[at_end + 4], out[at_end + 5], out[at_end + 6] = found[3], found[5], handouts
end

local function take(id)
  local job = prefix .. ':job:' .. id
  local found = redis.pcall('HMGET', job, 'status', 'data', 'aq_delivery', 'aq_handouts', 'aq_score')
  if found.err or found[1] ~= 'queued' then return end  -- a leftover of the list, not a ticket
  if found[2] and found[3] and found[5] then
    hand_out(id, job, found)
  else
    -- somebody else's RQ job: where `rq info` shows it and `rq requeue` brings it back
    redis.call('HSET', job, 'status', 'failed')
    redis.call('ZADD', KEYS[3], '+inf', id)
  end
end

-- leftovers make further rounds; four of them bound the script's time
for _ = 1, 4 do
  local ids = #claimed < limit and redis.call('LPOP', KEYS[1], limit - #claimed)
  if not ids then break end
  for _, id in ipairs(ids) do take(id) end
end
if #claimed > 0 then
  redis.call('ZADD', KEYS[2], unpack(scored))
  redis.call('SADD', KEYS[4], unpack(claimed))
  redis.call('PEXPIRE', KEYS[4], held + 60000)
end
return out
