-- Leave a token unless one is there: a thousand hints make one wake-up, and the list stays bounded.
-- KEYS  1 channel
-- ARGV  1 prefix  2 clock offset ms  3 ms to keep the token
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], '1') end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
