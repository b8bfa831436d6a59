// The Node suite: see ../doc.go for what it is told and what it prints.
//
// What disturbs nobody runs side by side. Then the leader is killed some times, each time under
// many clients at once. At last come the scenes that kill it again and again, one after the other.
//
//	run.js [CLIENT ...]   all clients, or those

import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { clients, version, whyNoFailover } from './catalog.js';
import { asksFor, failsOver, scene, tell } from './where.js';

const sideBySide = 4;

// The most ms that one process may take: for the scenes that disturb nobody, to be ready for the
// death of the leader, and to end after it was told to.
const quietMax = 120_000;
const readyMax = 60_000;
const endMax = 60_000;

// And for the scenes that kill the leader again and again.
const aloneMax = 180_000;

// How many clients go through the same death of a leader.
const deathOfPlain = 10;
const deathOfLocks = 8;

// Until the leader dies, and from then until all must be well again.
const [before, recovery] = [1_000, 5_000];

/** A process that shows scenes of a client in one mode. */
class Player {
  text = '';

  constructor({ client, mode }, part) {
    Object.assign(this, { client, mode });
    const show = fileURLToPath(new URL('show.js', import.meta.url));
    this.process = spawn(process.execPath, [show, client.name, client.package, mode, part], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.process.stdin.on('error', () => {}); // it has ended, and its result says why
    this.ready = new Promise((resolve) => {
      this.process.stdout.on('data', (data) => {
        this.text += data;
        if (this.text.includes('READY\n')) resolve();
      });
      this.process.on('close', resolve);
    });
    this.closed = new Promise((resolve) => this.process.on('close', resolve));
  }

  stop = () => this.process.stdin.write('stop\n');

  /** Waits for the end, prints the results, and says whether all was well. */
  async end(max) {
    const code = await Promise.race([this.closed, sleep(max, 'late', { ref: false })]);
    const results = this.text.split('\n').filter((line) => line.startsWith('RESULT'));
    for (const line of results) console.log(line);
    if (code === 'late') {
      this.process.kill('SIGKILL');
      return this.#failed(`it did not end within ${max} ms`);
    }
    if (results.some((line) => line.split(' ')[5] === 'fail')) return false;
    return (code === 0 && (results.length > 0 || scene !== '')) || this.#failed(`it ended with ${code}`);
  }

  #failed(why) {
    console.log('RESULT', this.client.name, version(this.client), this.mode, 'suite', 'fail', why);
    return false;
  }
}

/** Shows what disturbs nobody, some side by side, and prints in the order of the catalog. */
async function quiet(jobs) {
  let well = true;
  const waiting = [...jobs];
  const playing = [];
  const next = () => waiting.length && playing.push(new Player(waiting.shift(), 'quiet'));
  for (let i = 0; i < sideBySide; i++) next();
  for (let i = 0; i < jobs.length; i++) {
    well = (await playing[i].end(quietMax)) && well;
    next();
  }
  return well;
}

/** Who goes through the same death of a leader: plain clients with plain ones. */
function deaths(jobs) {
  const able = jobs.filter(({ client, mode }) => !whyNoFailover(client, mode));
  const groups = (of, size) => of.flatMap((_, i) => (i % size === 0 ? [of.slice(i, i + size)] : []));
  return [
    ...groups(able.filter((j) => !j.client.isLock), deathOfPlain),
    ...groups(able.filter((j) => j.client.isLock), deathOfLocks),
  ];
}

/** Kills the leader under a group of clients. */
async function die(group) {
  const players = group.map((job) => new Player(job, 'failover'));
  await Promise.race([Promise.all(players.map((p) => p.ready)), sleep(readyMax, undefined, { ref: false })]);
  await sleep(before);
  await tell('/kill-leader');
  await tell('/kill-cluster-leader');
  await sleep(recovery);
  for (const p of players) p.stop();
  let well = true;
  for (const p of players) well = (await p.end(endMax)) && well;
  await tell('/heal');
  return well;
}

/** Shows what kills the leader again and again, one after the other. */
async function alone(jobs) {
  let well = true;
  for (const job of jobs.filter(({ client, mode }) => client.resumes && !mode.startsWith('single'))) {
    well = (await new Player(job, 'alone').end(aloneMax)) && well;
    if (failsOver) await tell('/heal'); // a scene that failed has left a node dead
  }
  return well;
}

const names = process.argv.slice(2);
const jobs = clients
  .filter((c) => names.length === 0 || names.includes(c.name))
  .flatMap((client) => client.modes.map((mode) => ({ client, mode })));
let well = await quiet(jobs);
if (asksFor('failover')) for (const group of deaths(jobs)) well = (await die(group)) && well;
if (asksFor('resume')) well = (await alone(jobs)) && well;
process.exit(well ? 0 : 1);
