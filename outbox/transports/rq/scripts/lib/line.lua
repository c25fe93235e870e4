-- The waiting list is a plain RQ list, kept sorted by the jobs' aq_score; equal scores keep their
-- order of coming. Either end costs O(1), the middle a binary search and one LINSERT.
-- uses  ARGV[1] prefix; a script lines up on one queue only
local jobs = ARGV[1] .. ':job:'
local tail  -- score of the last entry, once known: a batch in order asks for it once

local function score_at(queue, index)
  local id = redis.call('LINDEX', queue, index)
  if not id then return 0 end
  local score = redis.pcall('HGET', jobs .. id, 'aq_score')
  -- an entry without a score is not ours; it sorts first
  return type(score) == 'string' and tonumber(score) or 0
end

local function insert(queue, id, score, length)
  if score_at(queue, 0) > score then
    redis.call('LPUSH', queue, id)
    return
  end
  local below, above = 0, length - 1
  while above - below > 1 do
    local middle = math.floor((below + above) / 2)
    if score_at(queue, middle) > score then above = middle else below = middle end
  end
  redis.call('LINSERT', queue, 'BEFORE', redis.call('LINDEX', queue, above), id)
end

local function line_up(queue, id, score)
  if not tail then
    local length = redis.call('LLEN', queue)
    tail = length > 0 and score_at(queue, length - 1) or 0
  end
  if score >= tail then
    redis.call('RPUSH', queue, id)
    tail = score
  else
    insert(queue, id, score, redis.call('LLEN', queue))
  end
end
