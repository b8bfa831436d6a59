// The table of all clients, with their versions and modes. It imports no client.

import { readFileSync } from 'node:fs';
import * as where from './where.js';

/**
 * name: in the results. package: in package.json, which has its version.
 * modes: how it finds the servers, and the protocol where it can be chosen. hasLine: it shows LOCK. resumes: it shows
 * the scene resume.
 */
export const clients = [
  { name: 'ioredis', package: 'ioredis5', modes: ['single/2', 'sentinel/2', 'cluster/2'] },
  { name: 'ioredis', package: 'ioredis6', resumes: true, modes: ['single/2', 'single/3', 'sentinel/3', 'cluster/3'] },
  { name: 'node-redis', package: 'redis4', hasLine: true, modes: ['single/2', 'cluster/2'] },
  { name: 'node-redis', package: 'redis5', hasLine: true, modes: ['single/2', 'single/3', 'sentinel/3', 'cluster/3'] },
  { name: 'node-redis', package: 'redis6', hasLine: true, resumes: true, modes: ['single/2', 'single/3', 'sentinel/3', 'cluster/3'] },
  { name: 'redlock', package: 'redlock4', modes: ['single/2', 'sentinel/2'], isLock: true },
  { name: 'redlock', package: 'redlock5', modes: ['single/2', 'single/3', 'sentinel/3', 'cluster/3'], isLock: true },
  { name: 'redis-semaphore.Mutex', package: 'redis-semaphore', modes: ['single/2', 'single/3', 'sentinel/3', 'cluster/3'], isLock: true },
  { name: 'redis-semaphore.Semaphore', package: 'redis-semaphore', modes: ['single/3', 'sentinel/3'], isLock: true },
  { name: 'redis-semaphore.RedlockMutex', package: 'redis-semaphore', modes: ['single/3', 'sentinel/3'], isLock: true },
  { name: 'bullmq', package: 'bullmq', modes: ['single/2', 'sentinel/2', 'cluster/2'], isQueue: true },
  { name: 'socket.io', package: '@socket.io/redis-adapter', modes: ['single/2', 'sentinel/2'], isServer: true },
];

const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));

/** The version of a client, which package.json names exactly. */
export const version = (client) => dependencies[client.package].replace(/^npm:.*@/, '');

/** The reason why a client shows no failover in a mode; nothing if it shows one. */
export function whyNoFailover(client, mode) {
  if (!where.failsOver) return `${where.target} has no failover of a single server here`;
  if (client.isServer) return 'its servers keep no promise while the leader dies';
  if (mode.startsWith('single') && !client.isLock) return 'a client of one address does not outlive that node';
  return '';
}
