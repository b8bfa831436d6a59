// bullmq's basic queue. A worker holds the lock of its job.

import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, QueueEvents, Worker } from 'bullmq';
import { connect } from './ioredis.js';
import { within } from './locks.js';
import { Errors, expect, fresh } from './scenes.js';

// Times in ms.
const lease = 2_000; // of a job's lock
const stalled = 500; // how often a worker looks for jobs whose lock has ended
const expirySlack = 3 * stalled + 1_500; // it looks twice, and then has to take the job
const wakeMax = 2_000; // a worker that polls would come after its drainDelay, 5 s
const patience = 60_000;

/** Waits until a condition holds; holds may ask the server. */
async function until(what, holds) {
  const end = performance.now() + patience;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${patience} ms`);
    await sleep(10);
  }
}

/** An unused queue, with all connections opened for it. */
class Stage {
  constructor(mode) {
    this.mode = mode;
    this.name = fresh('queue').replaceAll(':', '-');
    this.errors = new Errors();
    this.opened = [];
    this.clients = [];
  }

  async #options(index) {
    const connection = await connect('ioredis5', this.mode, index, { maxRetriesPerRequest: null });
    this.clients.push(connection);
    return { connection, prefix: '{bull}' };
  }

  #keep(part) {
    part.on('error', (error) => this.errors.note(error));
    this.opened.push(part);
    return part;
  }

  queue = async (index) => this.#keep(new Queue(this.name, await this.#options(index)));
  events = async (index) => this.#keep(new QueueEvents(this.name, await this.#options(index)));

  /** A worker that does one job at a time. */
  worker = async (index, run, options = {}) =>
    this.#keep(new Worker(this.name, run, { ...(await this.#options(index)), ...options }));

  /** Ends all at once, without waiting for blocking commands. */
  async close() {
    await Promise.all(this.opened.map((part) => within(2_000, part.close(true)).catch(() => {})));
    for (const client of this.clients) client.disconnect();
  }
}

/** Detects a job that two workers have at once. */
class Jobs {
  runs = {};
  inside = new Set();
  broken = false;

  async run(job, ms) {
    if (this.inside.has(job.id)) this.broken = true;
    this.inside.add(job.id);
    this.runs[job.id] = (this.runs[job.id] ?? 0) + 1;
    await sleep(ms);
    this.inside.delete(job.id);
    return job.data.n;
  }

  get done() {
    return Object.keys(this.runs).length;
  }

  judge() {
    if (this.broken) throw new Error('two workers had one job at once');
  }
}

/** The four scenes of a queue. */
export class QueueScenes {
  constructor(mode) {
    const on = (act) => async () => {
      const stage = new Stage(mode);
      try {
        return await act(stage);
      } finally {
        await stage.close();
      }
    };
    this.quiet = { exclusion: on(exclusion), expiry: on(expiry), wake: on(wake) };
    this.failover = (signals) => on((stage) => failover(stage, signals))();
  }
}

/** Twenty workers do a hundred jobs, each of them once. */
async function exclusion(stage) {
  const [workers, count, jobs] = [20, 100, new Jobs()];
  const queue = await stage.queue(0);
  for (let i = 0; i < workers; i++) await stage.worker(i, (job) => jobs.run(job, 5));
  const added = Array.from({ length: count }, (_, n) => ({ name: 'turn', data: { n }, opts: n % 2 ? { priority: 1 + (n % 3) } : {} }));
  await Promise.all([queue.addBulk(added.slice(10)), ...added.slice(0, 10).map(({ name, data }) => queue.add(name, data, { delay: 100 }))]);
  await until('all jobs done', () => jobs.done === count && jobs.inside.size === 0);
  let counts;
  await until('all jobs counted', async () => (counts = await queue.getJobCounts()).completed === count);
  jobs.judge();
  expect('runs of a job', Math.max(...Object.values(jobs.runs)), 1);
  expect('jobs left', counts.active + counts.waiting + counts.prioritized + counts.delayed + counts.failed, 0);
}

/** A worker dies with a job: another worker does the job when the lock has ended, not before. */
async function expiry(stage) {
  const queue = await stage.queue(0);
  let held, again;
  const options = { lockDuration: lease, stalledInterval: stalled }; // the workers of a queue share the latter
  const dying = await stage.worker(1, () => ((held = performance.now()), new Promise(() => {})), options);
  const asked = performance.now();
  await queue.add('turn', { n: 1 });
  await until('a worker has the job', () => held);
  dying.close(true).catch(() => {}); // it renews the lock no more; what it has open may take its time
  await stage.worker(2, async () => void (again = performance.now()), options);
  await until('another has the job', () => again);
  const took = again - held;
  if (took < lease - (held - asked)) throw new Error(`the job was free ${took} ms after it was taken for ${lease} ms`);
  if (took > lease + expirySlack) throw new Error(`the job was free only ${took} ms after it was taken for ${lease} ms`);
  return `after ${Math.round(took)} ms`;
}

/** A waiting worker gets a job at once, and a client that waits for its end is told. */
async function wake(stage) {
  const jobs = new Jobs();
  const [queue, events] = [await stage.queue(0), await stage.events(1)];
  const worker = await stage.worker(2, (job) => jobs.run(job, 0));
  await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
  await sleep(700); // both wait by now
  const asked = performance.now();
  const job = await queue.add('turn', { n: 7 });
  expect('the result', await job.waitUntilFinished(events, patience), 7);
  const took = performance.now() - asked;
  if (took > wakeMax) throw new Error(`the end of the job was heard of ${took} ms after it was added`);
  return `after ${Math.round(took)} ms`;
}

/**
 * The leader is killed while jobs are added and done. Every added job is done, by one worker at a
 * time; a job whose worker could not report its end is done again, as bullmq promises.
 */
async function failover(stage, signals) {
  const jobs = new Jobs();
  const options = { lockDuration: 5_000, stalledInterval: 1_000, maxStalledCount: 10 };
  const queue = await stage.queue(0);
  for (let i = 0; i < 6; i++) await stage.worker(i, (job) => jobs.run(job, 20), options);
  await queue.add('turn', { n: 0 }, { jobId: 'job-0' });
  await until('the first job', () => jobs.done === 1);
  signals.ready();
  const added = new Set();
  let [asked, wanted] = [0, Infinity];
  const adding = (async () => {
    for (; added.size < wanted; asked++) {
      const jobId = `job-${asked}`; // to add it again adds nothing
      const add = queue.add('turn', { n: asked }, { jobId });
      await within(1_000, add).then(() => added.add(jobId), (error) => stage.errors.note(error));
      await sleep(20);
    }
  })();
  await signals.stop;
  wanted = added.size + 20; // it goes on
  await within(patience, adding);
  await until('all jobs that were added', () => jobs.inside.size === 0 && [...added].every((id) => jobs.runs[id]));
  jobs.judge();
  const twice = Object.values(jobs.runs).filter((runs) => runs > 1).length;
  return `${added.size} jobs, ${twice} done again; errors seen: ${stage.errors}`;
}
