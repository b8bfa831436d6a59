// The native locks of lockd, by node-redis's call for any command.

import { expect, fresh } from './scenes.js';

// Times in ms.
const lease = 20_000;
const wait = 30_000; // of those who are to get the lock; a socketTimeout must be longer, which node-redis has none by default
const shortWait = 300; // of those who are not
const wakeMax = 1_000; // a program that polls by LOCK without WAIT would have to ask more often

/** Fails unless a fence is higher than an earlier one. */
function above(what, fence, before) {
  if (!Number.isInteger(fence) || fence <= before) throw new Error(`${what}: ${fence} after the fence ${before}`);
}

/**
 * The scene. open makes a program of node number index, with the client of package name. Each waiter has
 * its own: a client of node-redis sends all commands on one connection, where those behind
 * LOCK ... WAIT wait as well.
 */
export class Line {
  constructor(name, open) {
    Object.assign(this, { name, open });
  }

  async show() {
    // The last two are the other connections of the second and of the third.
    const programs = await Promise.all([0, 1, 2, 2, 0].map(this.open));
    [this.first, this.second, this.third, this.secondAgain, this.thirdAgain] = programs;
    await this.#inTurn();
    await this.#notInTurn();
    await this.#readers();
    await this.#permits();
    await this.#error();
    for (const program of programs) program.close();
  }

  #lock = (program, name, token, ...more) => program.raw('LOCK', name, token, 'PX', lease, ...more);
  #unlock = (program, name, token) => program.raw('UNLOCK', name, token);

  /** Waits in line: resolves to the fence, and the time at which it came. */
  async #wait(program, name, token, ...more) {
    return [await this.#lock(program, name, token, 'WAIT', wait, ...more), performance.now()];
  }

  /**
   * Waits on two connections with one token. The later one takes over the place in line, and the other
   * is told so. After that the token is certainly in line. Resolves to the remaining wait.
   */
  async #waitTwice(programs, name, token) {
    const all = programs.map((program) => this.#wait(program, name, token));
    const ends = all.map((end, i) => end.then((got) => [i, got], (error) => [i, error.message]));
    const [told, message] = await Promise.race(ends);
    expect('the connection before', String(message).split(' waits')[0], 'ERR another connection');
    return { end: all[1 - told] };
  }

  /** Two waiters behind the holder, at other nodes, get the lock in their order. */
  async #inTurn() {
    const name = fresh('line');
    const first = await this.#lock(this.first, name, 'a', 'OWNER', 'first', 'NOTE', 'is the first');
    above('the first', first, 0);
    const secondWaits = await this.#waitTwice([this.second, this.secondAgain], name, 'b');
    const thirdWaits = await this.#waitTwice([this.third, this.thirdAgain], name, 'c');
    let thirdHas = false;
    thirdWaits.end.then(() => (thirdHas = true), () => {}); // what is wrong is told below
    const second = await this.#handOver(this.first, name, 'a', first, secondWaits);
    expect('the third has it, too', thirdHas, false);
    await this.#handOver(this.second, name, 'b', second, thirdWaits);
    expect('UNLOCK by the third', await this.#unlock(this.third, name, 'c'), 1);
  }

  /** Releases a lock that has a fence: resolves to the fence of the next holder, who gets it at once. */
  async #handOver(program, name, token, fence, { end }) {
    expect('UNLOCK', await this.#unlock(program, name, token), 1);
    const released = performance.now();
    const [next, at] = await end;
    above(`after ${token}`, next, fence);
    if (at - released > wakeMax) throw new Error(`the next one came ${at - released} ms after the release by ${token}`);
    return next;
  }

  /** The answers to a holder that asks again, and to clients that do not get the lock. */
  async #notInTurn() {
    const name = fresh('line');
    const fence = await this.#lock(this.first, name, 'a');
    expect('LOCK by its holder', await this.#lock(this.second, name, 'a'), fence);
    expect('RENEW', await this.first.raw('RENEW', name, 'a', 'PX', lease), fence);
    expect('RENEW by another', await this.second.raw('RENEW', name, 'b', 'PX', lease), null);
    expect('UNLOCK by another', await this.#unlock(this.second, name, 'b'), 0);
    expect('LOCK, taken', await this.#lock(this.second, name, 'b'), null);
    const asked = performance.now();
    expect('WAIT that ends', await this.#lock(this.second, name, 'b', 'WAIT', shortWait), null);
    const took = performance.now() - asked;
    if (took < shortWait) throw new Error(`a wait of ${shortWait} ms ended after ${took} ms`);
    expect('UNLOCK', await this.#unlock(this.first, name, 'a'), 1);
  }

  /** Two clients hold a lock SHARED at once, and no writer gets it. */
  async #readers() {
    const name = fresh('line');
    const first = await this.#lock(this.first, name, 'a', 'SHARED');
    above('the second', await this.#lock(this.second, name, 'b', 'SHARED'), first);
    expect('LOCK by a writer', await this.#lock(this.third, name, 'c'), null);
    expect('UNLOCK', await this.#unlock(this.first, name, 'a'), 1);
    expect('UNLOCK by the second', await this.#unlock(this.second, name, 'b'), 1);
  }

  /** The third client of a semaphore of two waits until one of the others leaves. */
  async #permits() {
    const name = fresh('line');
    const first = await this.#lock(this.first, name, 'a', 'LIMIT', 2);
    const second = await this.#lock(this.second, name, 'b', 'LIMIT', 2);
    above('the second', second, first);
    expect('LOCK by the third', await this.#lock(this.third, name, 'c', 'LIMIT', 2), null);
    const end = this.#wait(this.third, name, 'c', 'LIMIT', 2);
    expect('UNLOCK', await this.#unlock(this.first, name, 'a'), 1);
    const [third] = await end;
    above('the third', third, second);
  }

  /** The client raises an error of the server as its own. */
  async #error() {
    const name = fresh('line');
    await this.first.push(name, 'x');
    const told = await this.#lock(this.second, name, 'a', 'WAIT', wait).catch((error) => error);
    const { ErrorReply } = await import(this.name);
    if (!(told instanceof ErrorReply)) throw new Error(`LOCK of a list: ${told}`);
    expect('LOCK of a list', told.message, 'WRONGTYPE Operation against a key holding the wrong kind of value');
  }
}
