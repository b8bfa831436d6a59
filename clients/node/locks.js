// The lock libraries, each as one process of a user would hold its lock: with a client of its own.
// A lock has acquire(patience in ms), which throws unless it holds the lock, release(), and die(),
// which ends the client as a crash would: nothing is released.

import { connect } from './ioredis.js';

/** The interval given to libraries that poll, in ms. */
const poll = 50;

/** The version of ioredis below a lock library: the one that speaks the protocol of the mode. */
const ioredisFor = (mode) => (mode.endsWith('/2') ? 'ioredis5' : 'ioredis6');

/** Gives up on a promise after some time: some libraries keep asking a lost node. */
export async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`it took longer than ${ms} ms`)), ms)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

class Redlock4 {
  static async open(mode, index, name, lease) {
    const lock = new Redlock4();
    const { default: Redlock } = await import('redlock4');
    lock.client = await connect(ioredisFor(mode), mode, index);
    lock.redlock = new Redlock([lock.client], { retryCount: -1, retryDelay: poll, retryJitter: 10 });
    lock.redlock.on('clientError', () => {}); // it also reaches whoever waits for the lock
    return Object.assign(lock, { name, lease });
  }

  async acquire(patience) {
    this.held = await within(patience, this.redlock.lock(this.name, this.lease));
  }

  release = () => this.held.unlock();
  die = () => this.client.disconnect();
}

class Redlock5 {
  static async open(mode, index, name, lease) {
    const lock = new Redlock5();
    const { default: Redlock } = await import('redlock5');
    lock.client = await connect(ioredisFor(mode), mode, index);
    lock.redlock = new Redlock([lock.client], { retryCount: -1, retryDelay: poll, retryJitter: 10 });
    return Object.assign(lock, { name, lease });
  }

  async acquire(patience) {
    this.held = await within(patience, this.redlock.acquire([this.name], this.lease));
  }

  release = () => this.held.release();
  die = () => this.client.disconnect();
}

/** The locks of redis-semaphore, which differ in their constructors. */
const semaphore = (make) =>
  class RedisSemaphore {
    static async open(mode, index, name, lease) {
      const lock = new RedisSemaphore();
      lock.client = await connect(ioredisFor(mode), mode, index);
      lock.lost = 0;
      const options = { lockTimeout: lease, retryInterval: poll, acquireTimeout: 60_000, onLockLost: () => lock.lost++ };
      lock.lock = make(await import('redis-semaphore'), lock.client, name, options);
      return lock;
    }

    async acquire(patience) {
      const late = new AbortController();
      const trying = this.lock.acquire(late.signal);
      try {
        await within(patience, trying);
      } catch (error) {
        late.abort();
        trying.then(() => this.lock.stopRefresh()).catch(() => {}); // or it is renewed for ever, also when the client is closed
        throw error;
      }
    }

    release = () => this.lock.release();

    die() {
      this.lock.stopRefresh();
      this.client.disconnect();
    }
  };

/** Bounds the time from a release until a polling waiter gets the lock, in ms. All of these poll. */
const polls = 500;

export const libraries = {
  redlock4: { open: Redlock4.open, wakeMax: polls },
  redlock5: { open: Redlock5.open, wakeMax: polls },
  'redis-semaphore.Mutex': { open: semaphore(({ Mutex }, ...how) => new Mutex(...how)).open, wakeMax: polls },
  'redis-semaphore.Semaphore': {
    open: semaphore(({ Semaphore }, client, name, options) => new Semaphore(client, name, 1, options)).open,
    wakeMax: polls,
  },
  'redis-semaphore.RedlockMutex': {
    open: semaphore(({ RedlockMutex }, client, name, options) => new RedlockMutex([client], name, options)).open,
    wakeMax: polls,
  },
};
