-- Leave a cancel hint; drop the ticket unless somebody executes it.
-- KEYS  1 job  2 hint  3 queue  4 scheduled  5 canceled
-- ARGV  1 prefix  2 clock offset ms  3 ticket id  4 ms to keep the hint  5 ms to keep the ticket
-- gives 1 when a ticket was dropped, else 0
-- @include clock
redis.call('SET', KEYS[2], '1', 'PX', ARGV[4])
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'queued' and status ~= 'scheduled' then return 0 end
redis.call('LREM', KEYS[3], 0, ARGV[3])
redis.call('ZREM', KEYS[4], ARGV[3])
if tonumber(ARGV[5]) == 0 then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'status', 'canceled', 'ended_at', iso(now))
  redis.call('ZADD', KEYS[5], seconds(now + ARGV[5]), ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return 1
