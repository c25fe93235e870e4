-- Announce a worker, or renew it; RQ's own fields, so that `rq info` and dashboards list it.
-- KEYS  1 worker  2 worker's executions  3 workers  4... workers of each of its queues
-- ARGV  1 prefix  2 clock offset ms  3 ms to live  4 "1" = it starts now
--       5 queues, comma separated  6 host name  7 process id  8 RQ version  9 Python version
-- @include clock
local stamp = iso(now)
if ARGV[4] == '1' or redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'birth', stamp, 'queues', ARGV[5], 'hostname', ARGV[6],
    'pid', ARGV[7], 'ip_address', 'unknown', 'version', ARGV[8], 'python_version', ARGV[9],
    'aq_birth', string.format('%.0f', now))
end
redis.call('HSET', KEYS[1], 'last_heartbeat', stamp, 'aq_seen', string.format('%.0f', now),
  'state', redis.call('EXISTS', KEYS[2]) == 1 and 'busy' or 'idle')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
for i = 3, #KEYS do redis.call('SADD', KEYS[i], KEYS[1]) end
return 1
