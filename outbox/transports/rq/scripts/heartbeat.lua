-- Renew the leases of executions and look for cancel hints.
-- KEYS  1 wip  2 worker's executions
-- ARGV  1 prefix  2 clock offset ms  3 lease ms  4 grace ms, then pairs: ticket id, execution id
-- gives two lists of execution ids: lost, cancelled
-- @include clock
local prefix = ARGV[1]
local held = ARGV[3] + ARGV[4]
local stamp, at, ends = iso(now), seconds(now), seconds(now + held)
local lost, cancelled, hints, kept, scored = {}, {}, {}, {}, {}

for i = 5, #ARGV, 2 do
  local id, execution = ARGV[i], ARGV[i + 1]
  local member = id .. ':' .. execution
  if redis.call('ZSCORE', KEYS[1], member) then
    redis.call('HSET', prefix .. ':job:' .. id, 'last_heartbeat', stamp)
    redis.call('HSET', prefix .. ':execution:' .. member, 'last_heartbeat', at)
    redis.call('PEXPIRE', prefix .. ':execution:' .. member, held + 60000)
    scored[#scored + 1] = ends
    scored[#scored + 1] = member
    kept[#kept + 1] = execution
    hints[#hints + 1] = prefix .. ':job:cancel:' .. string.sub(id, -32)
  else
    lost[#lost + 1] = execution
  end
end
if #kept > 0 then
  redis.call('ZADD', KEYS[1], unpack(scored))
  redis.call('PEXPIRE', KEYS[2], held + 60000)
  if redis.call('EXISTS', unpack(hints)) > 0 then  -- one look for all, then one by one
    for i, hint in ipairs(hints) do
      if redis.call('EXISTS', hint) == 1 then cancelled[#cancelled + 1] = kept[i] end
    end
  end
end
return {lost, cancelled}
