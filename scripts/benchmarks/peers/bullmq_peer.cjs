// BullMQ on Redis, run by Node. It knows the commands of the other peers and writes the same records of time.
// CommonJS on purpose: only `require` looks for packages in NODE_PATH.
'use strict';
const fs = require('node:fs');
const { setTimeout: pause } = require('node:timers/promises');
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');

const options = { removeOnComplete: true };
const connection = new Redis(process.env.BENCH_REDIS, { maxRetriesPerRequest: null });
// The machine's monotonic clock, which Python reads too.
const now = () => Number(process.hrtime.bigint()) / 1e9;

let file;
function tick(began) {
  file ??= fs.openSync(process.env.BENCH_TICKS, 'a');
  const record = Buffer.allocUnsafe(16);
  record.writeDoubleLE(began, 0);
  record.writeDoubleLE(now(), 8);
  fs.writeSync(file, record);
}

async function work({ data }) {
  if (data.sleep_s) await pause(data.sleep_s * 1000);
  tick(data.began);
}

async function enqueue(queue, count, began, sleep_s) {
  const data = { began, sleep_s };
  if (count === 1) await queue.add('bench', data, options);
  else await queue.addBulk(Array.from({ length: count }, () => ({ name: 'bench', data, opts: options })));
}

// The first job is the warm-up.
async function create(queue, jobs, bulk, sleep_s) {
  await enqueue(queue, 1, 0, sleep_s);
  const began = now(), cpu = process.cpuUsage();
  for (let left = jobs - 1; left > 0; left -= bulk) await enqueue(queue, Math.min(bulk, left), 0, sleep_s);
  const seconds = now() - began, used = process.cpuUsage(cpu);
  return { began, seconds, cpu_s: (used.user + used.system) / 1e6 };
}

async function trickle(queue, jobs, gap_s) {
  for (let due = now() + gap_s, left = jobs; left > 0; left -= 1, due += gap_s) {
    await pause(Math.max(0, due - now()) * 1000);
    await enqueue(queue, 1, now(), 0);
  }
  return {};
}

async function main(command, ...numbers) {
  if (command === 'worker') {
    new Worker('bench', work, { connection, concurrency: numbers[0] });
    return;
  }
  const queue = new Queue('bench', { connection });
  await queue.waitUntilReady();
  const answer = await { schema: async () => ({}), create, trickle }[command](queue, ...numbers);
  console.log(JSON.stringify(answer));
  await queue.close();
  await connection.quit();
}

main(process.argv[2], ...process.argv.slice(3).map(Number)).catch((error) => {
  console.error(error);
  process.exit(1);
});
