-- List the living workers and forget the dead.
-- KEYS  1 workers  2 queues
-- ARGV  1 prefix  2 clock offset ms  3 ms after which a silent worker is dead
-- gives a flat list, per worker: key, queues, host name, process id, up ms, silent ms, executions
-- @include clock
local out = {}

local function forget(worker)
  redis.call('SREM', KEYS[1], worker)
  for _, queue in ipairs(redis.call('SMEMBERS', KEYS[2])) do
    local name = string.sub(queue, #ARGV[1] + 8)  -- "{prefix}:queue:{name}"
    redis.call('SREM', ARGV[1] .. ':workers:' .. name, worker)
  end
end

for _, worker in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local found = redis.call('HMGET', worker, 'queues', 'hostname', 'pid', 'aq_birth', 'aq_seen')
  if not found[1] then
    forget(worker)
  else
    -- a stock RQ worker has neither field: its key's life is all there is to see
    local silent = now - tonumber(found[5] or now)
    if silent < tonumber(ARGV[3]) then
      for _, value in ipairs({worker, found[1], found[2] or '', found[3] or '0',
        string.format('%.0f', now - tonumber(found[4] or now)), string.format('%.0f', silent),
        redis.call('SCARD', worker .. ':executions')}) do
        out[#out + 1] = value
      end
    end
  end
end
return out
