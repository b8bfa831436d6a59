// The time that a program waits when the node of its client dies, with the settings of
// docs/clients.md and with the library's defaults.

import { setTimeout as sleep } from 'node:timers/promises';
import { fresh, NoScene } from './scenes.js';
import * as where from './where.js';

const rounds = 5; // deaths of the leader

// Times in ms.
const max = 1_000; // without a write, with the settings of docs/clients.md
const before = 1_000; // for programs to write before the leader dies
const settle = 3_000; // from its death until a write says that all is well
const wait = 10_000; // from its death until nobody waits for a program any more
const pause = 5; // between two writes

const silent = () => {}; // each failure also reaches the command that it failed

const sentinel = ({ createSentinel }) => nodeRedis(createSentinel({ name: where.master, sentinelRootNodes: where.sentinels }));
const cluster = ({ createCluster }, options = {}) =>
  nodeRedis(createCluster({ rootNodes: where.cluster.map((socket) => ({ socket })), ...options }));

// By package and mode: usual is a client with the library's defaults, tuned one with the settings of docs/clients.md,
// if it needs any. slow: the reason why no settings help.
const programs = {
  ioredis6: {
    sentinel: { usual: ({ Redis }) => ioredis(new Redis({ sentinels: where.sentinels, name: where.master })) },
    cluster: { usual: ({ Cluster }) => ioredis(new Cluster(where.cluster)) },
  },
  redis6: {
    sentinel: { usual: sentinel, slow: 'it looks for the leader once a second' },
    cluster: {
      usual: cluster,
      tuned: (library) =>
        cluster(library, {
          defaults: { socket: { reconnectStrategy: () => 50 } },
          topologyRefreshOnReconnectionAttemptStrategy: 50,
        }),
    },
  },
};

function ioredis(client) {
  client.on('error', silent);
  return { set: (key) => client.set(key, 'x', 'PX', 60_000), close: () => client.disconnect() };
}

async function nodeRedis(client) {
  client.on('error', silent);
  await client.connect();
  return { set: (key) => client.set(key, 'x', { PX: 60_000 }), close: () => client.destroy() };
}

const kills = { sentinel: '/kill-leader', cluster: '/kill-cluster-leader' };

/** A program that writes, and retries failed writes. */
class Writer {
  longest = 0; // ms without a write
  last = performance.now();
  struck = Infinity; // when the leader died

  constructor(client) {
    this.client = client;
    this.ended = this.#write(fresh('resume'));
  }

  async #write(key) {
    for (let well = false; !well; await sleep(pause)) {
      const enough = performance.now() > this.struck + settle;
      try {
        await this.client.set(key);
        this.#note();
        well = enough;
      } catch {
        // whatever the client's own retries leave
      }
    }
  }

  #note() {
    this.longest = Math.max(this.longest, performance.now() - this.last);
    this.last = performance.now();
  }

  /** The longest time without a write. A client may never answer a command at all. */
  async outage() {
    const left = this.struck + wait - performance.now();
    if ((await Promise.race([this.ended, sleep(left, 'late')])) === 'late') this.#note();
    this.client.close();
    return Math.round(this.longest);
  }
}

/** Kills the leader repeatedly while the programs write. */
export async function resume(name, mode) {
  const [how] = mode.split('/');
  const { slow, ...kinds } = programs[name][how];
  const library = await import(name);
  const outages = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
  for (let round = 0; round < rounds; round++) {
    const writers = {};
    for (const [kind, open] of Object.entries(kinds)) writers[kind] = new Writer(await open(library));
    await sleep(before);
    await where.tell(kills[how]);
    const struck = performance.now();
    for (const writer of Object.values(writers)) writer.struck = struck;
    for (const [kind, writer] of Object.entries(writers)) outages[kind].push(await writer.outage());
    await where.tell('/heal');
  }
  const { tuned, usual } = outages;
  const words = `${tuned ? `no write for ${tuned.join(' ')} ms; ` : ''}by default no write for ${usual.join(' ')} ms`;
  if (slow) throw new NoScene(`${slow}: ${words}`);
  if (Math.max(...(tuned ?? usual)) > max) throw new Error(words);
  return words;
}
