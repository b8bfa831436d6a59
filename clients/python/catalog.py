"""The table of all clients, with their versions and modes. It imports no client."""

import dataclasses

import where


@dataclasses.dataclass(frozen=True)
class Client:
    """A client or a lock library."""

    name: str
    distribution: str  # whose version is reported
    environments: tuple[str, ...]
    modes: tuple[str, ...]  # how it finds the servers, and the protocol where it can be chosen
    is_lock: bool  # it shows the four scenes of a lock library
    gone: str = ""  # the class of gone.py with its scenes, if it has such
    no_failover: str = ""  # why it has no scene of the failover
    resumes: tuple[tuple[str, str], ...] = ()  # the environments and modes in which it shows the scene resume

    def why_no_failover(self, mode: str) -> str:
        """The reason why it shows no failover in a mode; nothing if it shows one."""
        if not where.FAILS_OVER:
            return f"{where.TARGET} has no failover of a single server here"
        if self.no_failover:
            return self.no_failover
        if mode.startswith(("single", "tls")) and not self.is_lock:
            return "a client of one address does not outlive that node"
        return ""


VERSIONS = ("redis5", "redis6", "redis7", "redis8")
ALL = ("single/2", "single/3", "sentinel/2", "sentinel/3", "cluster/2", "cluster/3")
TLS = "tls/3"  # single, by rediss://
SOME = ("single/2", "sentinel/3", "cluster/3")

CLIENTS = (
    Client(
        "redis-py", "redis", VERSIONS, (*ALL, TLS), is_lock=False,
        resumes=(("redis8", "sentinel/3"), ("redis8", "cluster/3")),
    ),
    Client("redis-py.asyncio", "redis", VERSIONS, SOME, is_lock=False),
    Client("redis-py.Lock", "redis", VERSIONS, (*SOME, TLS), is_lock=True),
    Client("redis-py.asyncio.Lock", "redis", VERSIONS, SOME, is_lock=True),
    Client(
        "python-redis-lock", "python-redis-lock", ("redis8",), ("single/3", "sentinel/3"), is_lock=True,
        gone="SignalScenes",
    ),
    Client("pottery.Redlock", "pottery", ("redis8",), ("single/3", "sentinel/3"), is_lock=True),
    Client("pottery.AIORedlock", "pottery", ("redis8",), ("single/3",), is_lock=True),
    Client(
        "rq", "rq", ("redis8",), ("single/3", "sentinel/3"), is_lock=False, gone="RqScenes",
        no_failover="its scene node shows the death of nodes",
    ),
    Client(
        "portalocker", "portalocker", ("redis8",), ("single/2",), is_lock=False, gone="SubscriptionScenes",
        no_failover="its lock is a connection, which does not outlive its node",
    ),
    Client("aioredlock", "aioredlock", ("aioredlock",), ("single/2",), is_lock=True),
)


def named(name: str) -> Client:
    """The client of that name."""
    return next(c for c in CLIENTS if c.name == name)
