// node-redis in all its modes, for the scenes of plain clients.

import * as where from './where.js';

const silent = () => {}; // each failure also reaches the command that it failed

// By default its pauses grow, so that it would reconnect long after the election.
const socket = { reconnectStrategy: () => 100 };

// Before version 6 a client of a cluster never looks for the successor of a lost master: a program has
// to open another client, and the old one must not retry for ever.
const giveUp = { reconnectStrategy: false };
const keepsDeadMaster = (name) => name !== 'redis6';

// Version 6 looks for it after it has tried to reconnect for that many milliseconds.
const refresh = { topologyRefreshOnReconnectionAttemptStrategy: 200 };

const openers = {
  single: ({ createClient }, _, RESP, index) => createClient({ socket: { ...where.node(index), ...socket }, RESP }),
  sentinel: ({ createSentinel }, _, RESP) => createSentinel({ name: where.master, sentinelRootNodes: where.sentinels, RESP }),
  cluster: ({ createCluster }, name, RESP) =>
    createCluster({
      rootNodes: where.cluster.map((at) => ({ socket: at })),
      defaults: { socket: keepsDeadMaster(name) ? giveUp : socket },
      RESP,
      ...refresh,
    }),
};

const compareAndDelete = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

/** Ends a client at once, unless it has ended. Version 4 calls this disconnect. */
const end = (client) => client.isOpen && (client.destroy ?? client.disconnect).call(client);

// A command unknown to the client, by the call of each kind of client. That of a cluster needs the
// key, to find the node.
const raw = {
  single: (client, _, args) => client.sendCommand(args),
  sentinel: (client, _, args) => client.sendCommand(false, args),
  cluster: (client, key, args) => client.sendCommand(key, false, args),
};

/** The operations of scenes, with node-redis. */
export class Program {
  /** index is the node, in a mode that names one. */
  static async open(name, mode, index = 0) {
    const [how, protocol] = mode.split('/');
    const program = new Program();
    program.client = openers[how](await import(name), name, Number(protocol), index);
    program.raw = (command, key, ...args) => raw[how](program.client, key, [command, key, ...args.map(String)]);
    program.client.on('error', silent);
    program.mustReopen = how === 'cluster' && keepsDeadMaster(name);
    await program.client.connect();
    return program;
  }

  set = (key, value) => this.client.set(key, value, { PX: 60_000 });
  setNX = (key, value) => this.client.set(key, value, { PX: 60_000, NX: true });
  release = (key, token) => this.client.eval(compareAndDelete, { keys: [key], arguments: [token] });
  get = (key) => this.client.get(key);
  hget = (key, field) => this.client.hGet(key, field);
  push = (key, value) => this.client.rPush(key, value);
  hash = async (key) => (await this.client.hSet(key, { a: 1, b: 2 }), { ...(await this.client.hGetAll(key)) });
  pipeline = (key) => Promise.all([this.client.incr(key), this.client.incr(key), this.client.incr(key)]);
  transaction = (key) => this.client.multi().incr(key).incr(key).exec();

  async message(channel) {
    const subscriber = this.client.duplicate?.().on('error', silent) ?? this.client;
    if (subscriber !== this.client) await subscriber.connect();
    let arrived;
    const got = new Promise((resolve) => (arrived = resolve));
    await subscriber.subscribe(channel, arrived);
    await this.client.publish(channel, 'hello');
    const text = await got;
    await subscriber.unsubscribe(channel);
    if (subscriber !== this.client) end(subscriber);
    return text;
  }

  close = () => end(this.client);
}
