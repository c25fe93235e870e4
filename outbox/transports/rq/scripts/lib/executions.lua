-- One hand-out of a job is what RQ calls an execution: a hash, a member of the queue's started
-- registry (wip) and of the worker's executions. A ticket has one at most, named in its hash as
-- aq_execution; a stock worker that runs the job keeps a further registry per job, executions:{id}.
-- uses  ARGV[1] prefix
local prefix = ARGV[1]

-- returns 1, or 0 when the execution had ended or been replaced: that is the fence
local function drop_execution(wip, id, execution)
  local member = id .. ':' .. execution
  local held = redis.call('ZREM', wip, member)
  local key = prefix .. ':execution:' .. member
  local worker = redis.call('HGET', key, 'worker_name')
  if worker then
    redis.call('SREM', prefix .. ':worker:' .. worker .. ':executions', member)
  end
  redis.call('DEL', key)
  return held
end
