"""The time without a holder of redis-py's lock when the leader dies. It is not a scene: run it by
hand, in the environment that `go run ./clients --serve` prints."""

import collections
import sys
import threading
import time
import urllib.request

import redis

import where

WORKERS = 8
LEASE = 20
CALM = 2  # seconds before each kill, and after the lock is taken again


class Round:
    """Workers at the followers that take one lock in turn while the leader dies."""

    def __init__(self):
        leader = urllib.request.urlopen(where.CONTROL + "/leader").read().decode().strip()
        self.followers = [(host, port) for host, port in where.NODES if f"{host}:{port}" != leader]
        self.taken = []  # when somebody got the lock
        self.errors = collections.Counter()
        self.over = threading.Event()

    def work(self, index: int):
        host, port = self.followers[index % len(self.followers)]
        client = redis.Redis(host=host, port=port)
        while not self.over.is_set():
            try:
                with client.lock("gap", timeout=LEASE):
                    self.taken.append(time.monotonic())
            except redis.exceptions.RedisError as error:
                self.errors[str(error).split(" ")[0]] += 1

    def gap(self) -> float:
        workers = [threading.Thread(target=self.work, args=(i,)) for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        time.sleep(CALM)
        where.tell("/kill-leader")
        killed = time.monotonic()
        while time.monotonic() < killed + 2 * CALM or time.monotonic() > self.taken[-1] + CALM:
            time.sleep(0.05)
        self.over.set()
        for worker in workers:
            worker.join()
        return max(later - former for former, later in zip(self.taken, self.taken[1:]))


def main(rounds: int):
    gaps = []
    for _ in range(rounds):
        where.tell("/heal")
        this = Round()
        gaps.append(this.gap())
        print(f"nobody got the lock for {gaps[-1]:.2f} s of {len(this.taken)} times, errors {dict(this.errors)}", flush=True)
    print(f"redis-py {redis.__version__}: longest {max(gaps):.2f} s, median {sorted(gaps)[len(gaps) // 2]:.2f} s of {rounds}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
