-- Time is the server's: TIME plus an offset that is 0 outside tests. Host clocks never matter.
-- uses  ARGV[2] offset in ms
local moment = redis.call('TIME')
local now = moment[1] * 1000 + math.floor(moment[2] / 1000) + ARGV[2]

-- RQ scores its registries in Unix seconds; %.3f because tostring() would shorten a big number
local function seconds(ms)
  return string.format('%.3f', ms / 1000)
end

-- RQ writes its dates as text; there is no os.date in Redis, so days become a date by arithmetic
-- (years that begin in March, so that the leap day is the last one)
local function iso(ms)
  local total = math.floor(ms / 1000)
  local days = math.floor(total / 86400)
  local rest = total - days * 86400
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local doe = shifted - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
    - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local part = math.floor((5 * doy + 2) / 153)
  local month = part < 10 and part + 3 or part - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month,
    doy - math.floor((153 * part + 2) / 5) + 1, math.floor(rest / 3600),
    math.floor(rest / 60) % 60, rest % 60, ms - total * 1000)
end
