// The Node suite: ../doc.go describes its environment and its output.
//
// Calm scenes run side by side. Then the leader is killed several times, each time under many
// clients at once. The scenes that kill it again and again come last, one after the other.
//
//	run.js [CLIENT ...]   all clients, or those

import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { clients, version, whyNoFailover } from './catalog.js';
import { asksFor, failsOver, scene, tell } from './where.js';

const sideBySide = 4;

// Bounds of the time of a process, in ms: for the calm scenes, to be ready for the death of the
// leader, and to end after it was told to.
const quietMax = 120_000;
const readyMax = 60_000;
const endMax = 60_000;

// And for the scenes that kill the leader again and again.
const aloneMax = 180_000;

// The number of clients that share a death of the leader.
const deathOfPlain = 10;
const deathOfLocks = 8;

// Until the leader dies, and from then until all must succeed again.
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

  /** Waits for the end, prints the results, and reports whether all passed. */
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

/** Shows the calm scenes, some side by side, and prints in the order of the catalog. */
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

/** The clients that share a death of the leader: plain clients are apart. */
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

/** Shows the scenes that kill the leader again and again, one after the other. */
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
