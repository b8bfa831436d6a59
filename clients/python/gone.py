"""Scenes of lost waiters: they are given nothing, and the waiters behind them are served.

RQ's workers and the waiters of python-redis-lock sleep in a blocking command. Here they are
processes (waiter.py), so that kill -9 hits them as it hits a program. portalocker's lock is a
subscription: a client may not take it while any node counts another subscriber.
"""

import atexit
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request

import locks
import redispy
import scenes
import waiter
import where

WAITER = str(pathlib.Path(__file__).with_name("waiter.py"))

READY_MAX = 60.0  # for processes to begin, and to wait
AFTER_DEATH = 1.5  # from the death of a node until there is something for those who waited at it
BLOCKING = ("blpop", "blmove")


def poll(what: str, most: float, ask) -> None:
    """Polls until a condition holds, or fails."""
    end = time.monotonic() + most
    while not ask():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {most:.0f} s")
        time.sleep(0.02)


def connect(mode: str, index: int):
    return redispy.connect(mode, index, {"socket_timeout": 60, "socket_connect_timeout": 1})


class Processes:
    """Processes that wait at one node, in a queue."""

    def __init__(self, kind: str, mode: str, index: int, names, count: int):
        self.label = scenes.fresh("waiter").replace(":", "-")
        command = [sys.executable, WAITER, kind, mode, str(index), self.label, *names]
        quiet = {stream: subprocess.DEVNULL for stream in ("stdin", "stdout", "stderr")}
        self.processes = [subprocess.Popen(command, **quiet) for _ in range(count)]
        atexit.register(self.kill)  # whatever becomes of the scene

    def wait_until_blocked(self) -> None:
        poll("the processes wait", READY_MAX, lambda: self._blocked() == len(self.processes))

    def _blocked(self) -> int:
        return sum(self._blocked_at(host, port) for host, port in where.NODES)

    def _blocked_at(self, host, port) -> int:
        client = redispy.redis.Redis(host=host, port=port, socket_connect_timeout=1)
        listed = client.client_list()
        client.close()
        return sum(c["name"] == self.label and c["cmd"] in BLOCKING and "b" in c["flags"] for c in listed)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def leader() -> int:
    """The index of the leader among the nodes."""
    said = urllib.request.urlopen(where.CONTROL + "/leader", timeout=where.CONTROL_MAX).read().decode().strip()
    return [f"{host}:{port}" for host, port in where.NODES].index(said)


def each_victim(mode: str):
    """Kills nodes in turn: yields the index of each, those of the two others, and a function
    that kills it. Clients by sentinels are all at the leader."""
    if not where.FAILS_OVER:
        raise scenes.NoScene(f"{where.TARGET} has no failover of a single server here")
    for victim in ("leader",) if mode.startswith("sentinel") else ("leader", "follower"):
        first = leader()
        if victim == "follower":
            first = (first + 1) % len(where.NODES)
        host, port = where.NODES[first]
        order = [(first + n) % len(where.NODES) for n in range(3)]
        yield victim, order, lambda: where.tell(f"/kill?node={host}:{port}")
        where.tell("/heal")


class RqScenes:
    """RQ: no job is lost, even if the workers that wait for it die."""

    WORKERS, OTHERS, JOBS = 5, 2, 5
    # RQ waits for one queue by BLMOVE, for two by BLPOP.
    QUEUES = {"single/3": ("high", "low"), "sentinel/3": ("only",)}
    # A worker of RQ pauses for 1, 2, 4 seconds before it reconnects.
    DONE_MAX = {"single/3": 5.0, "sentinel/3": 12.0}

    def __init__(self, client: str, mode: str):
        self.mode = mode
        self.quiet = {"hang-up": self.hang_up}
        self.alone = {"node": self.node}

    def _queues(self):
        return [scenes.fresh(f"rq-{name}") for name in self.QUEUES[self.mode]]

    def _workers(self, index, queues, count):
        workers = Processes("rq", self.mode, index, queues, count)
        workers.wait_until_blocked()
        return workers

    def _push(self, client, queue):
        import rq

        return [rq.Queue(queue, connection=client).enqueue("time.time") for _ in range(self.JOBS)]

    def _all_done(self, jobs, what) -> float:
        began = time.monotonic()
        try:
            poll("jobs", self.DONE_MAX[self.mode], lambda: all(job.get_status().value == "finished" for job in jobs))
        except AssertionError:
            left = [job.get_status(refresh=True).value for job in jobs]
            raise AssertionError(
                f"{what}: {left.count('finished')} of {len(left)} jobs were done within "
                f"{self.DONE_MAX[self.mode]:.0f} s, the others are {sorted(set(left) - {'finished'})}"
            ) from None
        return time.monotonic() - began

    def hang_up(self):
        """Five waiting workers are killed, and five jobs come at once: two other workers do them."""
        queues = self._queues()
        gone = self._workers(0, queues, self.WORKERS)
        others = self._workers(1, queues, self.OTHERS)
        client = connect(self.mode, 2)
        gone.kill()
        jobs = self._push(client, queues[-1])
        took = self._all_done(jobs, "after the workers were killed")
        others.kill()
        return f"after {took:.2f} s"

    def node(self):
        """The node of waiting workers dies, and five jobs come a little later. With one address, two
        workers at another node do them; with sentinels, the same workers reconnect."""
        told = []
        for victim, (at, beside, third), kill in each_victim(self.mode):
            queues = self._queues()
            all_workers = [self._workers(at, queues, self.WORKERS)]
            if self.mode.startswith("single"):
                all_workers.append(self._workers(beside, queues, self.OTHERS))
            kill()
            time.sleep(AFTER_DEATH)
            client = connect(self.mode, third)
            took = self._all_done(self._push(client, queues[-1]), f"after the death of the {victim}")
            for workers in all_workers:
                workers.kill()
            told.append(f"{victim}: after {took:.2f} s")
        return ", ".join(told)


class SignalScenes(scenes.LockScenes):
    """python-redis-lock: a release wakes the next live waiter."""

    TRIES = 6
    LATE = 2.0  # so long is waited for one that comes late

    def __init__(self, client: str, mode: str):
        super().__init__(client, mode)
        self.quiet["hang-up"] = self.hang_up
        self.alone = {"node": self.node}

    def _lock(self, index, name):
        import redis_lock

        return redis_lock.Lock(connect(self.mode, index), name, expire=waiter.LEASE)

    def _wait_behind(self, index, name):
        """Starts to wait for a lock behind another client. Returns a function that tells when it got the lock."""
        lock, got = self._lock(index, name), []
        thread = threading.Thread(target=lambda: (lock.acquire(), got.append(time.monotonic())), daemon=True)
        thread.start()
        time.sleep(0.3)  # until it waits
        return lambda: (thread.join(self.LATE), got[0] if got else float("inf"))[1]

    def hang_up(self):
        """Two clients wait, the first is killed, and the lock is released at once: the second gets it."""
        names = [scenes.fresh("hang-up") for _ in range(self.TRIES)]
        held = [self._lock(2, name) for name in names]
        for lock in held:
            lock.acquire()
        first = [Processes("lock", self.mode, 0, [name], 1) for name in names]
        for processes in first:
            processes.wait_until_blocked()
        second = [self._wait_behind(1, name) for name in names]
        waited = []
        for lock, processes, got in zip(held, first, second):
            processes.kill()
            waited.append(self._released(lock, got))
        return self._judge("the first waiter was killed", waited)

    def node(self):
        """Two clients wait, the node of the first dies, and the lock is released a little later."""
        if not self.mode.startswith("single"):
            raise scenes.NoScene("by sentinels all waiters are at the node that dies")
        waited = []
        for _, (at, beside, third), kill in each_victim(self.mode):
            name = scenes.fresh("node")
            lock = self._lock(third, name)
            lock.acquire()
            first = Processes("lock", self.mode, at, [name], 1)
            first.wait_until_blocked()
            got = self._wait_behind(beside, name)
            kill()
            time.sleep(AFTER_DEATH)
            waited.append(self._released(lock, got))
            first.kill()
        return self._judge("the node of the first waiter died", waited)

    def _released(self, lock, got) -> float:
        """Releases a lock, and returns the time until the next client got it."""
        lock.release()
        released = time.monotonic()
        return got() - released

    def _judge(self, what, waited):
        said = ", ".join("never" if seconds > self.LATE else f"{seconds:.2f}" for seconds in waited)
        late = [seconds for seconds in waited if seconds > self.library.wake_max]
        if late:
            raise AssertionError(f"{what}, and {len(late)} of {len(waited)} next ones came late, after {said} s")
        return f"the next one came after {said} s"


class SubscriptionScenes:
    """portalocker's RedisLock: it is held while its subscription exists, at any node."""

    WORKERS, TURNS, PATIENCE = 6, 2, 60.0
    WAKE_MAX = 3.0  # it polls, and asks all subscribers before it takes the lock

    def __init__(self, client: str, mode: str):
        self.mode = mode
        self.quiet = {"exclusion": self.exclusion, "wake": self.wake, "hang-up": self.hang_up}
        self.alone = {"transfer": self.transfer}

    def _lock(self, index, name, patience=PATIENCE):
        import portalocker

        return portalocker.RedisLock(
            name,
            connection=connect(self.mode, index),
            timeout=patience,
            check_interval=locks.POLL,
            interrupt_on_lost=False,
        )

    def _refused(self, index, name) -> bool:
        import portalocker

        lock = self._lock(index, name, 0.3)
        try:
            lock.acquire(fail_when_locked=True)
        except portalocker.exceptions.AlreadyLocked:
            return True
        lock.release()
        return False

    def _expect_refused(self, name, what):
        for index in range(len(where.NODES)):
            if not self._refused(index, name):
                raise AssertionError(f"{what}: the lock was given to a second one at node {index + 1}")

    def exclusion(self):
        """No client of any node gets a held lock, and of the workers at all nodes one at a time is inside."""
        name, inside = scenes.fresh("exclusion"), scenes.Inside()
        with self._lock(0, name):
            self._expect_refused(name, "while it was held")
        errors = []
        workers = [threading.Thread(target=self._work, args=(w, name, inside, errors)) for w in range(self.WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        inside.judge()
        if errors or inside.entered != self.WORKERS * self.TURNS:
            raise AssertionError(f"{inside.entered} of {self.WORKERS * self.TURNS} turns: {errors}")

    def _work(self, index, name, inside, errors):
        try:
            for _ in range(self.TURNS):
                with self._lock(index, name):
                    inside.stay(0.05)
        except Exception as error:  # the scene fails by it
            errors.append(repr(error))

    def _next(self, name, end) -> float:
        """The time that the next client waits after end() ends the lock."""
        got = []

        def take():
            with self._lock(1, name):
                got.append(time.monotonic())

        thread = threading.Thread(target=take)
        thread.start()
        time.sleep(0.7)
        if got:
            raise AssertionError("two held the lock at once")
        end()
        ended = time.monotonic()
        thread.join()
        if not got or got[0] - ended > self.WAKE_MAX:
            raise AssertionError(f"the next one came after {got[0] - ended if got else self.PATIENCE:.2f} s")
        return got[0] - ended

    def wake(self):
        name = scenes.fresh("wake")
        lock = self._lock(0, name).acquire()
        return f"after {1000 * self._next(name, lock.release):.0f} ms"

    def hang_up(self):
        """The connection of the holder breaks."""
        name = scenes.fresh("hang-up")
        lock = self._lock(0, name).acquire()
        return f"after {1000 * self._next(name, lambda: self._cut(name)):.0f} ms"

    def _cut(self, name):
        client = connect(self.mode, 0)
        for listed in client.client_list(_type="pubsub"):
            if listed["name"].startswith(name):
                client.client_kill_filter(listed["id"])

    def transfer(self):
        """The leadership moves while a client of the leader holds the lock: the client still holds it."""
        if not where.FAILS_OVER:
            raise scenes.NoScene(f"{where.TARGET} has one node")
        name, first = scenes.fresh("transfer"), leader()
        with self._lock(first, name) as lock:
            self._expect_refused(name, "before the transfer")
            connect(self.mode, first).execute_command("LOCKD", "TRANSFER")
            poll("another node leads", 10, lambda: leader() != first)
            self._expect_refused(name, "after the transfer")
            lock.ensure_held()
        return f"the lead went from node {first + 1} to {leader() + 1}"
