"""The lock libraries, each as one process of a user would hold its lock: with a client of its own."""

import asyncio
import dataclasses
from typing import Callable, Protocol

import where
from awaited import awaited


class Lock(Protocol):
    """A name that is locked for a lease, through a client of its own."""

    def acquire(self, patience: float) -> None:
        """Waits until the lock is held; raises after about patience seconds."""

    def release(self) -> None:
        """Releases the lock; raises if it was no longer held."""

    def die(self) -> None:
        """Ends the client as a crash would: nothing is released."""


# The interval given to libraries that poll, in seconds.
POLL = 0.05


def _held(ok) -> None:
    if not ok:
        raise TimeoutError("the lock was not to be had")


class RedisPyLock:
    """Lock of redis-py, blocking."""

    def __init__(self, mode, index, name, lease):
        import redispy

        self.client = redispy.connect(mode, index)
        self.lock = self.client.lock(name, timeout=lease, sleep=POLL, thread_local=False)

    def acquire(self, patience):
        _held(self.lock.acquire(blocking_timeout=patience))

    def release(self):
        self.lock.release()

    def die(self):
        self.client.close()


class RedisPyAsyncLock(RedisPyLock):
    """Lock of redis-py's asyncio client."""

    def __init__(self, mode, index, name, lease):
        import redispy

        self.client = redispy.connect_async(mode, index)
        self.lock = self.client.lock(name, timeout=lease, sleep=POLL, thread_local=False)

    def die(self):
        self.client.aclose()


class PythonRedisLock:
    """python-redis-lock: a waiter sleeps in BLPOP until it is woken."""

    def __init__(self, mode, index, name, lease):
        import redis_lock

        import redispy

        self.client = redispy.connect(mode, index)
        self.lease = int(lease)
        self.lock = redis_lock.Lock(self.client, name, expire=self.lease)

    def acquire(self, patience):
        _held(self.lock.acquire(timeout=min(int(patience), self.lease)))  # it takes no time beyond the lease

    def release(self):
        self.lock.release()

    def die(self):
        self.client.close()


class Pottery:
    """Redlock of pottery, with one master, which the three nodes form together."""

    def __init__(self, mode, index, name, lease):
        import pottery

        import redispy

        self.client = redispy.connect(mode, index)
        self.lock = pottery.Redlock(key=name, masters={self.client}, auto_release_time=lease)

    def acquire(self, patience):
        _held(self.lock.acquire(timeout=patience))

    def release(self):
        self.lock.release()

    def die(self):
        self.client.close()


class PotteryAsync(Pottery):
    """AIORedlock of pottery."""

    def __init__(self, mode, index, name, lease):
        import pottery

        import redispy

        self.client = redispy.connect_async(mode, index)
        self.lock = awaited(lambda: pottery.AIORedlock(key=name, masters={self.client.thing}, auto_release_time=lease))

    def die(self):
        self.client.aclose()


class Aioredlock:
    """aioredlock, which is built on aioredis 1. Both are abandoned: the asyncio client of redis-py
    continues aioredis, and its Lock is the successor."""

    def __init__(self, _, index, name, lease):
        import aioredlock

        node = where.NODES[index % len(where.NODES)]
        self.name, self.lease = name, lease
        self.manager = awaited(
            aioredlock.Aioredlock, [node], retry_count=1_000_000, retry_delay_min=POLL, retry_delay_max=2 * POLL
        ).thing

    def acquire(self, patience):
        self.held = awaited(lambda: asyncio.wait_for(self.manager.lock(self.name, self.lease), patience)).thing

    def release(self):
        awaited(self.manager.unlock, self.held)

    def die(self):
        awaited(self.manager.redis.clear_connections)


@dataclasses.dataclass(frozen=True)
class Library:
    """How a library makes a lock, and how soon a waiter gets it."""

    open: Callable[[str, int, str, float], Lock]
    wake_max: float  # after a release
    expiry_max: float = 1.5  # after a lease has ended that nobody has released
    pause_max: float = 0.0  # of its clients of a cluster, when the leader dies: its leases must outlast it


# Bounds of the time from a release until a polling waiter, and a woken one, gets the lock: without
# the wake-up it would wait until its BLPOP ends, some 20 s later.
POLLS = 0.5
IS_WOKEN = 1.0

LIBRARIES = {
    "redis-py.Lock": Library(RedisPyLock, POLLS),
    # Each client reads the whole reply of COMMAND anew, and the event loop, which all of them share, stands
    # still meanwhile: the answer that gives it the lock may lie unread for seconds.
    "redis-py.asyncio.Lock": Library(RedisPyAsyncLock, POLLS, pause_max=7.0),
    # It waits in BLPOP for as long as a lease, and looks again only then, unless lockd wakes it.
    "python-redis-lock": Library(PythonRedisLock, IS_WOKEN, expiry_max=1.5 if where.TARGET == "lockd" else 3.5),
    "pottery.Redlock": Library(Pottery, POLLS),
    "pottery.AIORedlock": Library(PotteryAsync, POLLS),
    "aioredlock": Library(Aioredlock, POLLS),
}
