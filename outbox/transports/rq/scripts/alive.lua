-- Say which tickets wait, execute or are deferred, by their places and not by their status alone: a
-- stock worker that dies at the wrong moment leaves a "queued" job that is in no list.
-- KEYS  1 queues (routes the call on a cluster)
-- ARGV  1 prefix  2 clock offset ms, then ticket ids
-- gives per ticket: 1 alive, 0 not
local prefix = ARGV[1]
local answers = {}

local function executing(id, queue, execution)
  local candidates = redis.call('ZRANGE', prefix .. ':executions:' .. id, 0, -1)  -- a stock worker's
  candidates[#candidates + 1] = execution or nil
  for _, candidate in ipairs(candidates) do
    if redis.call('ZSCORE', prefix .. ':wip:' .. queue, id .. ':' .. candidate) then return true end
  end
  return false
end

local function alive(id)
  local queue = string.match(id, '^(.-)__')
  local job = redis.pcall('HMGET', prefix .. ':job:' .. id, 'status', 'aq_execution')
  if job.err then return false end
  local status = job[1]
  if status == 'queued' then return redis.call('LPOS', prefix .. ':queue:' .. queue, id) end
  if status == 'started' then return executing(id, queue, job[2]) end
  if status == 'scheduled' then return redis.call('ZSCORE', prefix .. ':scheduled:' .. queue, id) end
  return false
end

for i = 3, #ARGV do answers[#answers + 1] = alive(ARGV[i]) and 1 or 0 end
return answers
