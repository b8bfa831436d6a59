// Shows scenes of one client in one mode:
//
//	show.js CLIENT PACKAGE MODE quiet      the calm scenes
//	show.js CLIENT PACKAGE MODE failover   prints READY when the leader may be killed, and reads a line
//	                                       when the servers have had time to recover
//	show.js CLIENT PACKAGE MODE alone      the scenes that kill the leader again and again

import { createInterface } from 'node:readline';
import { clients, version, whyNoFailover } from './catalog.js';
import { LockScenes, NoScene, PlainScenes } from './scenes.js';
import { asksFor, failsOver, target } from './where.js';

const [name, pkg, mode, part] = process.argv.slice(2);
const client = clients.find((c) => c.name === name && c.package === pkg);

/** The dialogue with run.js. */
class Signals {
  stopped = false;

  constructor() {
    this.stop = new Promise((resolve) => createInterface(process.stdin).once('line', resolve).once('close', resolve));
    this.stop.then(() => (this.stopped = true)); // by a word, or because whoever started us is gone
  }

  ready = () => console.log('READY');
}

/**
 * lockd's answer to a command that was under way when the leader was lost. A calm scene meets it only on
 * a machine too busy to run the servers: it is repeated, once.
 */
const leaderLost = 'UNKNOWN the outcome';

/** The result of a scene. */
async function play(act) {
  try {
    return ['ok', (await act()) ?? ''];
  } catch (error) {
    if (error instanceof NoScene) return ['none', error.message];
    return ['fail', String(error)];
  }
}

/** Shows one scene and prints its result. */
async function show(scene, act) {
  let [verdict, words] = await play(act);
  if (verdict === 'fail' && words.includes(leaderLost) && scene !== 'failover') [verdict, words] = await play(act);
  print(scene, verdict, words);
  return verdict !== 'fail';
}

const print = (scene, verdict, words) =>
  console.log('RESULT', name, version(client), mode, scene, verdict, words.split(/\s+/).join(' '));

async function scenes() {
  if (client.isLock) return new LockScenes(client, mode);
  if (client.isQueue) return new (await import('./bullmq.js')).QueueScenes(mode);
  if (client.isServer) return new (await import('./socketio.js')).ServerScenes(mode);
  const { Program } = await import(name === 'ioredis' ? './ioredis.js' : './noderedis.js');
  return new PlainScenes(client, mode, Program);
}

async function resume() {
  if (!failsOver) throw new NoScene(`${target} has no failover of a single server here`);
  return (await import('./resume.js')).resume(pkg, mode);
}

async function main() {
  if (part === 'alone') return show('resume', resume);
  const shown = await scenes();
  if (part === 'failover') return show('failover', () => shown.failover(new Signals()));
  let well = true;
  for (const [scene, act] of Object.entries(shown.quiet)) if (asksFor(scene)) well = (await show(scene, act)) && well;
  const why = asksFor('failover') && whyNoFailover(client, mode);
  if (why) print('failover', 'none', why);
  return well;
}

process.exit((await main()) ? 0 : 1); // clients that are not closed would keep it alive
