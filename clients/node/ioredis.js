// ioredis in all its modes, for the scenes of plain clients.

import * as where from './where.js';

const silent = () => {}; // each failure also reaches the command that it failed

// By default its pauses grow, so that it would reconnect long after the election.
const again = () => 100;

const openers = {
  single: ({ Redis }, index, options) => new Redis({ ...where.node(index), ...options, retryStrategy: again }),
  sentinel: ({ Redis }, _, options) =>
    new Redis({ sentinels: where.sentinels, name: where.master, ...options, retryStrategy: again, sentinelRetryStrategy: again }),
  cluster: ({ Cluster }, _, options) => new Cluster(where.cluster, { redisOptions: options, clusterRetryStrategy: again }),
};

/** The client itself, in a mode such as sentinel/3; index is the node, in a mode that names one. */
export async function connect(name, mode, index = 0, options = {}) {
  const [how, protocol] = mode.split('/');
  const client = openers[how](await import(name), index, { protocol: Number(protocol), ...options });
  client.on('error', silent);
  return client;
}

const compareAndDelete = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

/** The operations of scenes, with ioredis. */
export class Program {
  static async open(name, mode) {
    const program = new Program();
    program.client = await connect(name, mode);
    program.client.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: compareAndDelete });
    return program;
  }

  set = (key, value) => this.client.set(key, value, 'PX', 60_000);
  setNX = (key, value) => this.client.set(key, value, 'PX', 60_000, 'NX');
  release = (key, token) => this.client.compareAndDelete(key, token);
  get = (key) => this.client.get(key);
  hget = (key, field) => this.client.hget(key, field);
  hash = async (key) => (await this.client.hset(key, { a: 1, b: 2 }), this.client.hgetall(key));
  pipeline = async (key) => values(await this.client.pipeline().incr(key).incr(key).incr(key).exec());
  transaction = async (key) => values(await this.client.multi().incr(key).incr(key).exec());

  async message(channel) {
    const subscriber = this.client.duplicate();
    subscriber.on('error', silent);
    const got = new Promise((resolve) => subscriber.on('message', (_, text) => resolve(text)));
    await subscriber.subscribe(channel);
    await this.client.publish(channel, 'hello');
    const text = await got;
    subscriber.disconnect();
    return text;
  }

  close = () => this.client.disconnect();
}

const values = (results) => results.map(([error, value]) => error ?? value);
