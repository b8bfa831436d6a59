// The scenes (../README.md), the same for every client.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { libraries, within } from './locks.js';
import * as where from './where.js';

const workers = 20;
const turns = 5; // of each worker

// Times in ms.
const lease = 2_000;
const longLease = 20_000;
const patience = 60_000; // of a worker whose turn comes for certain
const expirySlack = 1_500; // after a lease: until the next one has noticed

/** The client, or the target, has nothing to show. Its message says why. */
export class NoScene extends Error {}

/** An unused name. */
export const fresh = (what) => `node:${what}:${randomUUID()}`;

export function expect(what, got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
}

/** Detects two holders at once. */
class Inside {
  count = 0;
  entered = 0;
  broken = false;

  async stay(ms) {
    this.entered++;
    if (++this.count !== 1) this.broken = true;
    await sleep(ms);
    this.count--;
  }

  judge() {
    if (this.broken) throw new Error('two held the lock at once');
  }
}

/** Counts the errors that a client reports. */
export class Errors {
  seen = {};

  note(error) {
    const kind = `${error.name}: ${error.message}`.slice(0, 60);
    this.seen[kind] = (this.seen[kind] ?? 0) + 1;
  }

  toString() {
    return Object.entries(this.seen).map(([kind, n]) => `${n} x ${kind}`).join(', ') || 'none';
  }
}

/** The four scenes of a lock library. */
export class LockScenes {
  constructor(client, mode) {
    this.library = libraries[client.name] ?? libraries[client.package];
    this.mode = mode;
    this.quiet = { exclusion: this.exclusion, expiry: this.expiry, wake: this.wake };
  }

  open = (index, name, lease) => this.library.open(this.mode, index, name, lease);

  exclusion = async () => {
    const inside = new Inside();
    const name = fresh('exclusion');
    await Promise.all(Array.from({ length: workers }, (_, worker) => this.#work(inside, worker, name)));
    inside.judge();
    expect('turns', inside.entered, workers * turns);
  };

  async #work(inside, worker, name) {
    const lock = await this.open(worker, name, longLease);
    for (let turn = 0; turn < turns; turn++) {
      await lock.acquire(patience);
      await inside.stay(1);
      await lock.release();
    }
    lock.die();
  }

  expiry = async () => {
    const name = fresh('expiry');
    const [first, second] = [await this.open(0, name, lease), await this.open(1, name, lease)];
    const asked = performance.now();
    await first.acquire(patience);
    const held = performance.now();
    first.die();
    await second.acquire(patience);
    const took = performance.now() - held;
    if (took < lease - (held - asked)) throw new Error(`the lock was free ${took} ms after it was taken for ${lease} ms`);
    if (took > lease + expirySlack) throw new Error(`the lock was free only ${took} ms after it was taken for ${lease} ms`);
    await second.release();
    second.die();
    return `after ${Math.round(took)} ms`;
  };

  wake = async () => {
    const name = fresh('wake');
    const [holder, waiter] = [await this.open(0, name, longLease), await this.open(1, name, longLease)];
    await holder.acquire(patience);
    let at;
    const got = waiter.acquire(patience).then(() => (at = performance.now()));
    await sleep(700);
    if (at) throw new Error('the waiter did not wait');
    await holder.release();
    const released = performance.now();
    await got;
    if (at - released > this.library.wakeMax) throw new Error(`the waiter came ${at - released} ms after the release`);
    await waiter.release();
    holder.die();
    waiter.die();
    return `after ${Math.round(at - released)} ms`;
  };

  failover = (signals) => new LockFailover(this).show(signals);
}

/**
 * The leader is killed while the lock is held and awaited by many. A worker retries
 * after an error of the library, as a program would.
 */
class LockFailover {
  static workers = 6;
  static lease = 3_000;
  static patience = 4_000; // at one node
  static goesOnMax = 15_000; // until somebody has the lock again: a lease may have to end first
  static hang = 30_000;

  inside = new Inside();
  errors = new Errors();
  name = fresh('failover');
  over = false;

  constructor(scenes) {
    this.scenes = scenes;
  }

  async show(signals) {
    const all = Array.from({ length: LockFailover.workers }, (_, worker) => this.#work(worker));
    while (this.inside.entered === 0) await sleep(10);
    signals.ready();
    await signals.stop;
    const goesOn = await this.#goesOn();
    this.over = true;
    await within(LockFailover.hang, Promise.all(all));
    this.inside.judge();
    if (!goesOn) throw new Error(`nobody got the lock any more after the leader was killed: ${this.errors}`);
    return `${this.inside.entered} turns; errors seen: ${this.errors}`;
  }

  async #goesOn() {
    const [before, end] = [this.inside.entered, performance.now() + LockFailover.goesOnMax];
    while (this.inside.entered === before && performance.now() < end) await sleep(10);
    return this.inside.entered > before;
  }

  async #work(index) {
    for (; !this.over; index++) {
      let lock;
      try {
        lock = await this.scenes.open(index, this.name, LockFailover.lease);
        while (!this.over) {
          await lock.acquire(LockFailover.patience);
          await this.inside.stay(5);
          await within(LockFailover.patience, lock.release());
        }
      } catch (error) {
        this.errors.note(error);
        await sleep(20);
      }
      lock?.die();
    }
  }
}

/** The scenes of a client that is no lock library. */
export class PlainScenes {
  static outageMax = 3_000;
  static commandMax = 1_000; // then the program tries again

  constructor(client, mode, Program) {
    this.open = () => Program.open(client.package, mode);
    this.quiet = { commands: this.commands };
    if (client.hasLine) this.quiet.line = () => this.#line(client.package, (index) => Program.open(client.package, mode, index));
  }

  commands = async () => {
    const program = await this.open();
    const name = `{${fresh('commands')}}`;
    expect('SET NX PX', await program.setNX(name, 'me'), 'OK');
    expect('SET NX PX, taken', await program.setNX(name, 'you'), null);
    expect('release by another', await program.release(name, 'you'), 0);
    expect('release', await program.release(name, 'me'), 1);
    expect('GET of nothing', await program.get(name), null);
    expect('pipeline', await program.pipeline(name), [1, 2, 3]);
    expect('transaction', await program.transaction(name), [4, 5]);
    const error = await program.hget(name, 'f').catch((e) => e.message);
    expect('error', error, 'WRONGTYPE Operation against a key holding the wrong kind of value');
    expect('HGETALL', await program.hash(`${name}:hash`), { a: '1', b: '2' });
    expect('Pub/Sub', await program.message(fresh('channel')), 'hello');
    program.close();
  };

  async #line(name, open) {
    if (where.target !== 'lockd') throw new NoScene(`${where.target} has no LOCK here`);
    const { Line } = await import('./line.js');
    return new Line(name, open).show();
  }

  /** A program that writes continues when the leader dies: it retries failed writes. */
  failover = async (signals) => {
    let program = await this.open();
    const name = fresh('outage');
    const errors = new Errors();
    await program.set(name, 'x');
    signals.ready();
    let [last, longest] = [performance.now(), 0];
    while (!signals.stopped) {
      try {
        await within(PlainScenes.commandMax, program.set(name, 'x'));
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
      } catch (error) {
        errors.note(error);
        if (program.mustReopen) program = await this.#reopen(program, errors);
      }
      await sleep(20);
    }
    longest = Math.round(Math.max(longest, performance.now() - last));
    if (longest > PlainScenes.outageMax) throw new Error(`no write succeeded for ${longest} ms: ${errors}`);
    return `longest wait ${longest} ms; errors seen: ${errors}`;
  };

  async #reopen(program, errors) {
    try {
      const next = await within(PlainScenes.commandMax, this.open());
      program.close();
      return next;
    } catch (error) {
      errors.note(error);
      return program;
    }
  }
}
