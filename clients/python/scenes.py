"""The scenes (../README.md), the same for every client."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import where
from locks import LIBRARIES

WORKERS = 20
TURNS = 5  # of each worker
LEASE = 2.0
LONG_LEASE = 20.0
PATIENCE = 60.0  # of a worker whose turn comes for certain


class NoScene(Exception):
    """The client, or the target, has nothing to show. Its text says why."""


def fresh(what: str) -> str:
    """An unused name."""
    return f"python:{what}:{uuid.uuid4().hex}"


class Inside:
    """Detects two holders at once."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.count = self.entered = 0
        self.broken = False

    def stay(self, seconds: float) -> None:
        """Goes inside for a moment."""
        with self.mutex:
            self.entered += 1
            self.count += 1
            self.broken = self.broken or self.count > 1
        time.sleep(seconds)
        with self.mutex:
            self.count -= 1

    def judge(self) -> None:
        """Fails if two holders were inside at once."""
        if self.broken:
            raise AssertionError("two held the lock at once")


class LockScenes:
    """The four scenes of a lock library."""

    def __init__(self, client: str, mode: str):
        self.library, self.mode = LIBRARIES[client], mode
        self.quiet = {"exclusion": self.exclusion, "expiry": self.expiry, "wake": self.wake}

    def open(self, index, name, lease):
        return self.library.open(self.mode, index, name, lease)

    def exclusion(self):
        inside, name = Inside(), fresh("exclusion")
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda w: self._work(inside, w, name), range(WORKERS)))
        inside.judge()
        if inside.entered != WORKERS * TURNS:
            raise AssertionError(f"{inside.entered} of {WORKERS * TURNS} turns")

    def _work(self, inside, worker, name):
        lock = self.open(worker, name, LONG_LEASE)
        for _ in range(TURNS):
            lock.acquire(PATIENCE)
            inside.stay(0.001)
            lock.release()
        lock.die()

    def expiry(self):
        name = fresh("expiry")
        first, second = self.open(0, name, LEASE), self.open(1, name, LEASE)
        asked = time.monotonic()
        first.acquire(PATIENCE)
        held = time.monotonic()
        first.die()
        second.acquire(PATIENCE)
        took = time.monotonic() - held
        if took < LEASE - (held - asked):
            raise AssertionError(f"the lock was free {took:.3f} s after it was taken for {LEASE} s")
        if took > LEASE + self.library.expiry_max:
            raise AssertionError(f"the lock was free only {took:.3f} s after it was taken for {LEASE} s")
        second.release()
        return f"after {took:.2f} s"

    def wake(self):
        name = fresh("wake")
        holder, waiter = self.open(0, name, LONG_LEASE), self.open(1, name, LONG_LEASE)
        holder.acquire(PATIENCE)
        with ThreadPoolExecutor(1) as pool:
            got = pool.submit(lambda: (waiter.acquire(PATIENCE), time.monotonic()))
            time.sleep(0.7)
            if got.done():
                raise AssertionError(f"the waiter did not wait: {got.result()}")
            holder.release()
            released = time.monotonic()
            _, at = got.result()
        if at - released > self.library.wake_max:
            raise AssertionError(f"the waiter came {at - released:.3f} s after the release")
        waiter.release()
        return f"after {1000 * (at - released):.0f} ms"

    def failover(self, signals):
        return LockFailover(self).show(signals)


class LockFailover:
    """The leader is killed while the lock is held and awaited by many. A worker
    retries after an error of the library, as a program would."""

    WORKERS = 6
    LEASE = 3.0
    PATIENCE = 4.0  # at one node: some libraries go on asking a node that is gone
    GOES_ON_MAX = 15.0  # until somebody has the lock again: a lease may have to end first
    HANG = 30.0

    def __init__(self, scenes: LockScenes):
        self.scenes = scenes
        self.lease = self.LEASE + (scenes.library.pause_max if scenes.mode.startswith("cluster") else 0)
        self.inside, self.name = Inside(), fresh("failover")
        self.end = threading.Event()
        self.errors = {}

    def show(self, signals):
        workers = [threading.Thread(target=self._work, args=(w,), daemon=True) for w in range(self.WORKERS)]
        for w in workers:
            w.start()
        while self.inside.entered == 0:
            time.sleep(0.01)
        signals.ready()
        signals.wait_for_stop()
        goes_on = self._goes_on()
        self.end.set()
        stop = time.monotonic() + self.HANG
        for w in workers:
            w.join(max(0, stop - time.monotonic()))
        self.inside.judge()
        if any(w.is_alive() for w in workers):
            raise AssertionError(f"a worker hung for {self.HANG} s")
        if not goes_on:
            raise AssertionError(f"nobody got the lock any more after the leader was killed: {self.errors}")
        return f"{self.inside.entered} turns; errors seen: {self.errors or 'none'}"

    def _goes_on(self) -> bool:
        before, end = self.inside.entered, time.monotonic() + self.GOES_ON_MAX
        while self.inside.entered == before and time.monotonic() < end:
            time.sleep(0.01)
        return self.inside.entered > before

    def _work(self, index):
        while not self.end.is_set():
            lock = None
            try:
                lock = self.scenes.open(index, self.name, self.lease)
                while not self.end.is_set():
                    lock.acquire(self.PATIENCE)
                    self.inside.stay(0.005)
                    lock.release()
            except Exception as error:  # whatever the library says: a program tries again, elsewhere
                self._note(error)
                index += 1
                self.end.wait(0.02)
            if lock is not None:
                self._leave(lock)

    def _leave(self, lock):
        try:
            lock.die()
        except Exception as error:
            self._note(error)

    def _note(self, error):
        kind = type(error).__name__
        self.errors[kind] = self.errors.get(kind, 0) + 1


class PlainScenes:
    """The scenes of a client that is no lock library."""

    OUTAGE_MAX = 3.0

    def __init__(self, client: str, mode: str):
        import redispy

        self.connect = redispy.connect_async if client.endswith(".asyncio") else redispy.connect
        self.mode = mode
        self.must_reopen = redispy.must_reopen(client, mode)
        self.quiet = {"commands": self.commands, "line": self.line}
        self.alone = {"resume": self.resume}

    def commands(self):
        import redispy

        client = self.connect(self.mode)
        redispy.commands(client, "{%s}" % fresh("commands"))
        if hasattr(client, "pubsub"):  # the asyncio client of a cluster has it from version 8 on
            redispy.pubsub(client, fresh("channel"))

    def line(self):
        import line

        if where.TARGET != "lockd":
            raise NoScene(f"{where.TARGET} has no LOCK here")
        line.Line(lambda index, timeouts: self.connect(self.mode, index, timeouts), fresh).show()

    def resume(self):
        import resume

        return resume.resume(self.mode)

    def failover(self, signals):
        """A program that writes continues when the leader dies: it retries failed writes."""
        client, name = self.connect(self.mode), fresh("outage")
        client.set(name, 0, ex=60)
        signals.ready()
        last, longest, errors = time.monotonic(), 0.0, {}
        while not signals.stopped():
            try:
                client.set(name, "x", ex=60)
            except Exception as error:  # what is left over by the client's own retries
                errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
                if self.must_reopen:
                    client = self.connect(self.mode)
            else:
                longest = max(longest, time.monotonic() - last)
                last = time.monotonic()
            time.sleep(0.02)
        longest = max(longest, time.monotonic() - last)
        if longest > self.OUTAGE_MAX:
            raise AssertionError(f"no write succeeded for {longest:.2f} s: {errors}")
        return f"longest wait {longest:.2f} s; errors seen: {errors or 'none'}"
