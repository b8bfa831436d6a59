"""The Python suite: ../doc.go describes its environment and its output.

Calm scenes run side by side. Then the leader is killed several times, each time under many clients
at once. The scenes that kill nodes of their own choice come last, one after the other.

    run.py [CLIENT ...]   all clients, or those
"""

import concurrent.futures
import dataclasses
import itertools
import pathlib
import subprocess
import sys
import threading
import time

import catalog
import environments
import where

SIDE_BY_SIDE = 4
SHOW = str(pathlib.Path(__file__).with_name("show.py"))

# Bounds of the time of a process: for the calm scenes, to be ready for the death of the leader, and
# to end after it was told to.
QUIET_MAX = 120
READY_MAX = 60
END_MAX = 60

# The number of clients that share a death of the leader.
DEATHS = {False: 10, True: 8}  # by whether they are lock libraries

# Seconds until the leader dies, and from then until all must succeed again.
BEFORE, RECOVERY = 1, 5


@dataclasses.dataclass(frozen=True)
class Job:
    """A client of an environment in one mode."""

    client: catalog.Client
    environment: str
    mode: str

    def command(self, part: str) -> list[str]:
        return [environments.python(self.environment), SHOW, self.client.name, self.mode, part]

    def failed(self, why: str) -> bool:
        print("RESULT", self.client.name, self.environment, self.mode, "suite", "fail", why, flush=True)
        return False

    def quiet(self) -> tuple[str, str]:
        """The results of its calm scenes."""
        return self.run("quiet")

    def run(self, part: str) -> tuple[str, str]:
        """The output of its process, and the failure of the process itself, if any."""
        try:
            done = subprocess.run(self.command(part), stdout=subprocess.PIPE, text=True, timeout=QUIET_MAX)
        except subprocess.TimeoutExpired as late:
            return (late.stdout or b"").decode(), f"it took longer than {QUIET_MAX} s"
        if done.returncode != 0 and " fail " not in done.stdout:
            return done.stdout, f"it ended with {done.returncode}"
        return done.stdout, ""


class Player:
    """A process that goes through the death of a leader."""

    def __init__(self, job: Job):
        self.job = job
        self.process = subprocess.Popen(job.command("failover"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = threading.Event()
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.strip() == "READY":
                self.ready.set()
        self.ready.set()  # it has ended: nobody need wait

    def stop(self) -> None:
        try:
            self.process.stdin.write("stop\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and its result says why

    def end(self) -> bool:
        self.reader.join(END_MAX)
        if self.reader.is_alive():
            self.process.kill()
            return self.job.failed(f"it did not end within {END_MAX} s")
        results = [line for line in self.lines if line.startswith("RESULT")]
        print(*results, sep="", end="", flush=True)
        if not results:
            return self.job.failed("it ended without a result")
        return self.process.wait() == 0


def jobs(names: list[str]) -> list[Job]:
    chosen = [c for c in catalog.CLIENTS if not names or c.name in names]
    return [Job(c, e, m) for c in chosen for e in c.environments for m in c.modes]


def quiet(chosen: list[Job]) -> bool:
    """Shows the calm scenes, and prints in the order of the catalog."""
    well = True
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for job, shown in zip(chosen, pool.map(Job.quiet, chosen)):
            well = tell(job, *shown) and well
    return well


def tell(job: Job, text: str, wrong: str) -> bool:
    """Prints the results of a process, and reports whether all passed."""
    print(text, end="", flush=True)
    if wrong:
        return job.failed(wrong)
    return " fail " not in text


def alone(chosen: list[Job]) -> bool:
    """Shows the scenes that kill nodes of their own choice, or move the lead, one after the other."""
    well = True
    for job in [j for j in chosen if j.client.gone or (j.environment, j.mode) in j.client.resumes]:
        well = tell(job, *job.run("alone")) and well
        if where.FAILS_OVER:
            where.tell("/heal")  # a scene that failed has left a node dead
    return well


def deaths(chosen: list[Job]) -> list[list[Job]]:
    """The clients that share a death of the leader: plain clients are apart, since their load would
    count as the servers' delay."""
    able = [j for j in chosen if not j.client.why_no_failover(j.mode)]
    groups = []
    for is_lock, size in DEATHS.items():
        group = iter([j for j in able if j.client.is_lock == is_lock])
        groups += iter(lambda: list(itertools.islice(group, size)), [])
    return groups


def die(group: list[Job]) -> bool:
    """Kills the leader under a group of clients."""
    players = [Player(j) for j in group]
    for p in players:
        p.ready.wait(READY_MAX)
    time.sleep(BEFORE)
    where.tell("/kill-leader")
    where.tell("/kill-cluster-leader")
    time.sleep(RECOVERY)
    for p in players:
        p.stop()
    well = [p.end() for p in players]
    where.tell("/heal")
    return all(well)


def main(names: list[str]) -> bool:
    chosen = jobs(names)
    dying = deaths(chosen) if where.SCENE in ("", "failover") else []
    well = [quiet(chosen)] + [die(group) for group in dying] + [alone(chosen)]
    return all(well)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
