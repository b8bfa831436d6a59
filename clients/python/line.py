"""The native locks of lockd, by redis-py's call for any command."""

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import redis

from redispy import TIMEOUTS, expect

LEASE_MS = 20_000
WAIT_MS = 30_000  # of those who are to get the lock
SHORT_MS = 300  # of those who are not

# It must be longer than WAIT: redis-py treats LOCK like any command. By default it waits for ever up
# to version 7; from version 8 on it waits for 5 s, and then retries ten times.
READ = {**TIMEOUTS, "socket_timeout": WAIT_MS / 1000 + 10}

# Shorter than WAIT: the client then disconnects and retries.
READ_SHORT = {**TIMEOUTS, "socket_timeout": 2}

WAKE_MAX = 1.0  # s; a program that polls by LOCK without WAIT would have to ask more often
NODES = 3


class Line:
    """The scene. open makes a client of node number index with timeouts."""

    def __init__(self, open, fresh):
        self.open, self.fresh = open, fresh
        self.nodes = [open(index, READ) for index in range(NODES)]

    def show(self):
        with ThreadPoolExecutor(NODES + 1) as self.pool:
            self.in_turn()
            self.not_in_turn()
            self.readers()
            self.permits()
            self.error()
            self.retried()

    def lock(self, node, name, token, *more):
        return self.nodes[node].execute_command("LOCK", name, token, "PX", LEASE_MS, *more)

    def unlock(self, node, name, token):
        return self.nodes[node].execute_command("UNLOCK", name, token)

    def wait(self, node, name, token, *more) -> Future:
        """Waits in line in a thread of its own: returns the fence, and the time at which it came."""
        return self.pool.submit(lambda: (self.lock(node, name, token, "WAIT", WAIT_MS, *more), time.monotonic()))

    def wait_twice(self, nodes, name, token) -> Future:
        """Waits on two connections with one token. The later one takes over the place in line, and
        the other is told so. After that the token is certainly in line."""
        told, left = wait([self.wait(n, name, token) for n in nodes], return_when=FIRST_COMPLETED)
        error = told.pop().exception()
        expect("the connection before", type(error), redis.ResponseError)
        expect("the connection before", str(error).partition(" waits")[0], "another connection")
        return left.pop()

    def in_turn(self):
        """Two waiters behind the holder, at other nodes, get the lock in their order."""
        name = self.fresh("line")
        first = self.lock(0, name, "a", "OWNER", "first", "NOTE", "is the first")
        above("the first", first, 0)
        second_waiting = self.wait_twice((1, 2), name, "b")
        third_waiting = self.wait_twice((2, 0), name, "c")
        second = self.hand_over(0, name, "a", first, second_waiting)
        expect("the third has it, too", third_waiting.done(), False)
        self.hand_over(1, name, "b", second, third_waiting)
        expect("UNLOCK by the third", self.unlock(2, name, "c"), 1)

    def hand_over(self, node, name, token, fence, waiting) -> int:
        """Releases a lock that has a fence: returns the fence of the next holder, who gets it at once."""
        expect("UNLOCK", self.unlock(node, name, token), 1)
        released = time.monotonic()
        following, at = waiting.result()
        above(f"after {token}", following, fence)
        if at - released > WAKE_MAX:
            raise AssertionError(f"the next one came {at - released:.3f} s after the release by {token}")
        return following

    def not_in_turn(self):
        """The answers to a holder that asks again, and to clients that do not get the lock."""
        name = self.fresh("line")
        fence = self.lock(0, name, "a")
        expect("LOCK by its holder", self.lock(1, name, "a"), fence)
        expect("RENEW", self.nodes[0].execute_command("RENEW", name, "a", "PX", LEASE_MS), fence)
        expect("RENEW by another", self.nodes[1].execute_command("RENEW", name, "b", "PX", LEASE_MS), None)
        expect("UNLOCK by another", self.unlock(1, name, "b"), 0)
        expect("LOCK, taken", self.lock(1, name, "b"), None)
        asked = time.monotonic()
        expect("WAIT that ends", self.lock(1, name, "b", "WAIT", SHORT_MS), None)
        if (took := time.monotonic() - asked) < SHORT_MS / 1000:
            raise AssertionError(f"a wait of {SHORT_MS} ms ended after {took:.3f} s")
        expect("UNLOCK", self.unlock(0, name, "a"), 1)

    def readers(self):
        """Two clients hold a lock SHARED at once, and no writer gets it."""
        name = self.fresh("line")
        first = self.lock(0, name, "a", "SHARED")
        above("the second", self.lock(1, name, "b", "SHARED"), first)
        expect("LOCK by a writer", self.lock(2, name, "c"), None)
        expect("UNLOCK", self.unlock(0, name, "a"), 1)
        expect("UNLOCK by the second", self.unlock(1, name, "b"), 1)

    def permits(self):
        """The third client of a semaphore of two waits until one of the others leaves."""
        name = self.fresh("line")
        first = self.lock(0, name, "a", "LIMIT", 2)
        second = self.lock(1, name, "b", "LIMIT", 2)
        above("the second", second, first)
        expect("LOCK by the third", self.lock(2, name, "c", "LIMIT", 2), None)
        waiting = self.wait(2, name, "c", "LIMIT", 2)
        expect("UNLOCK", self.unlock(0, name, "a"), 1)
        above("the third", waiting.result()[0], second)

    def error(self):
        """The client raises an error of the server as its own."""
        name = self.fresh("line")
        self.nodes[0].rpush(name, "x")
        try:
            got = self.lock(1, name, "a", "WAIT", WAIT_MS)
        except redis.ResponseError as error:
            got = str(error)
        expect("LOCK of a list", got, "WRONGTYPE Operation against a key holding the wrong kind of value")

    def retried(self):
        """A client whose read timeout is too short disconnects, and retries on another connection.
        It gets the lock once."""
        name = self.fresh("line")
        first = self.lock(0, name, "a")
        client = self.open(1, READ_SHORT)
        waiting = self.pool.submit(client.execute_command, "LOCK", name, "b", "PX", LEASE_MS, "WAIT", WAIT_MS)
        time.sleep(1.25 * READ_SHORT["socket_timeout"])
        expect("UNLOCK", self.unlock(0, name, "a"), 1)
        second = waiting.result()
        above("the second", second, first)
        expect("LOCK, taken", self.lock(2, name, "c"), None)
        expect("UNLOCK by the second", self.unlock(1, name, "b"), 1)
        above("the third", self.lock(2, name, "c"), second)


def above(what: str, fence, before: int) -> None:
    """Fails unless a fence is higher than an earlier one."""
    if not isinstance(fence, int) or fence <= before:
        raise AssertionError(f"{what}: {fence!r} after the fence {before}")
