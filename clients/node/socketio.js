// Socket.IO's Redis adapter. Each server asks PUBSUB NUMSUB of one channel how many servers there are, and waits for so
// many answers.

import { setTimeout as sleep } from 'node:timers/promises';
import { createAdapter } from '@socket.io/redis-adapter';
import { Server } from 'socket.io';
import { connect } from './ioredis.js';
import { expect, fresh } from './scenes.js';

// Times in ms.
const subscribed = 10_000; // until each server has subscribed
const requestsTimeout = 5_000; // a server that counts too many others waits so long, and fails

/** Two servers, which are connected to different nodes where the mode names one. */
class Pair {
  servers = [];
  clients = [];

  async open(mode) {
    const key = fresh('socketio');
    for (const index of [0, 1]) {
      const [pub, sub] = [await connect('ioredis5', mode, index), await connect('ioredis5', mode, index)];
      this.clients.push(pub, sub);
      const server = new Server({ adapter: createAdapter(pub, sub, { key, requestsTimeout }) });
      server.on('who', (answer) => answer(index));
      this.servers.push(server);
    }
    const end = performance.now() + subscribed;
    const counts = async () => Promise.all(this.servers.map((s) => s.of('/').adapter.serverCount()));
    while (JSON.stringify(await counts()) !== '[2,2]') {
      if (performance.now() > end) throw new Error(`the servers count ${await counts()}, not 2 each`);
      await sleep(20);
    }
  }

  async close() {
    await Promise.all(this.servers.map((s) => s.of('/').adapter.close()));
    for (const client of this.clients) client.disconnect();
  }
}

/** The scene of servers that ask each other. */
export class ServerScenes {
  constructor(mode) {
    this.quiet = {
      answers: async () => {
        const pair = new Pair();
        try {
          await pair.open(mode);
          const [first, second] = pair.servers;
          expect('the first server heard', await first.serverSideEmitWithAck('who'), [1]);
          expect('the second server heard', await second.serverSideEmitWithAck('who'), [0]);
          expect('sockets of both', await first.fetchSockets(), []);
        } finally {
          await pair.close();
        }
      },
    };
  }
}
