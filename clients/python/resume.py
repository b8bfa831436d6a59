"""The time that a program waits when the node of its client dies, with the settings of
docs/clients.md and with redis-py's defaults."""

import threading
import time

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

import scenes
import where

ROUNDS = 5  # deaths of the leader
MAX = 1.0  # without a write, with the settings of docs/clients.md
BEFORE = 1.0  # for programs to write before the leader dies
SETTLE = 3.0  # from its death until a write says that all is well
WAIT = 10.0  # from its death until nobody waits for a program any more
PAUSE = 0.005  # between two writes


def _sentinel(**options):
    return Sentinel(where.SENTINELS, **options).master_for(where.MASTER)


def _sentinel_tuned():
    # A lost sentinel is asked once: there are others. A retry for master_for would go to the dead node.
    return _sentinel(sentinel_kwargs={"retry": Retry(NoBackoff(), 0)})


def _cluster():
    return RedisCluster(startup_nodes=[ClusterNode(host, port) for host, port in where.CLUSTER])


# By mode: how the node dies that a client is connected to; a client with its own settings; and one with those of
# docs/clients.md, where it needs any.
MODES = {
    "sentinel/3": ("/kill-leader", _sentinel, _sentinel_tuned),
    "cluster/3": ("/kill-cluster-leader", _cluster, None),
}


class Writer(threading.Thread):
    """A program that writes, and retries failed writes."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.key = client, scenes.fresh("resume")
        self.longest = 0.0  # seconds without a write
        self.struck = None  # when the leader died
        self.start()

    def run(self):
        last = time.monotonic()
        while self.struck is None or time.monotonic() < self.struck + WAIT:
            enough = self.struck is not None and time.monotonic() > self.struck + SETTLE
            try:
                self.client.set(self.key, "x", px=60_000)
            except Exception:  # whatever the client's own retries leave
                enough = False
            else:
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
            if enough:
                return
            time.sleep(PAUSE)
        self.longest = max(self.longest, time.monotonic() - last)


def resume(mode: str) -> str:
    """Kills the leader repeatedly while the programs write."""
    if not where.FAILS_OVER:
        raise scenes.NoScene(f"{where.TARGET} has no failover of a single server here")
    kill, usual, tuned = MODES[mode]
    outages = {connect: [] for connect in (tuned, usual) if connect}  # in ms
    for _ in range(ROUNDS):
        writers = {connect: Writer(connect()) for connect in outages}
        time.sleep(BEFORE)
        where.tell(kill)
        struck = time.monotonic()
        for writer in writers.values():
            writer.struck = struck
        for connect, writer in writers.items():
            writer.join()
            outages[connect].append(round(1000 * writer.longest))
        where.tell("/heal")
    told = {connect: "no write for " + " ".join(map(str, ms)) + " ms" for connect, ms in outages.items()}
    words = f"{told[tuned]}; by default {told[usual]}" if tuned else f"by default {told[usual]}"
    if max(outages[tuned or usual]) > 1000 * MAX:
        raise AssertionError(words)
    return words
