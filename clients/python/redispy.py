"""redis-py in all its modes, blocking and asyncio, and the operations of a program."""

import time

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

import where
from awaited import awaited

TIMEOUTS = {"socket_timeout": 5, "socket_connect_timeout": 1}

# From version 6 on redis-py tries ten times by default, with pauses of up to ten seconds: it takes
# more than a minute to report a lost node.
TRIES = 3
PAUSE = 0.1


def _single(package, retry, index, protocol, timeouts):
    host, port = where.NODES[index % len(where.NODES)]
    return package.Redis(host=host, port=port, protocol=protocol, **timeouts, **_retries(retry))


def _tls(package, retry, index, protocol, timeouts):
    host, port = where.TLS[index % len(where.TLS)]
    secure = {"ssl": True, "ssl_ca_certs": where.CA, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
    return package.Redis(host=host, port=port, protocol=protocol, **secure, **timeouts, **_retries(retry))


def _sentinel(package, retry, _, protocol, timeouts):
    # A lost sentinel is asked once: there are others.
    ask = {**TIMEOUTS, "retry": retry(NoBackoff(), 0)}
    module = redis.asyncio if package is redis.asyncio else redis.sentinel
    sentinel = module.Sentinel(where.SENTINELS, sentinel_kwargs=ask, protocol=protocol, **timeouts)
    return sentinel.master_for(where.MASTER, **_retries(retry))


def _cluster(package, retry, _, protocol, timeouts):
    module = redis.asyncio.cluster if package is redis.asyncio else redis.cluster
    nodes = [module.ClusterNode(host, port) for host, port in where.CLUSTER]
    return package.RedisCluster(startup_nodes=nodes, protocol=protocol, retry=retry(ConstantBackoff(PAUSE), TRIES), **timeouts)


def _retries(retry):
    """Version 5 retries only the errors that it is given."""
    return {"retry": retry(ConstantBackoff(PAUSE), TRIES), "retry_on_error": [redis.ConnectionError, redis.TimeoutError]}


_OPENERS = {"single": _single, "tls": _tls, "sentinel": _sentinel, "cluster": _cluster}


def connect(mode: str, index: int = 0, timeouts=TIMEOUTS):
    """A client in a mode such as sentinel/3. index is the node, in a mode that names one."""
    how, protocol = mode.split("/")
    return _OPENERS[how](redis, Retry, index, int(protocol), timeouts)


def connect_async(mode: str, index: int = 0, timeouts=TIMEOUTS):
    """The asyncio client, which is to be used on the event loop of awaited.py."""
    how, protocol = mode.split("/")
    return awaited(_OPENERS[how], redis.asyncio, AsyncRetry, index, int(protocol), timeouts)


def must_reopen(client: str, mode: str) -> bool:
    """Whether a program has to open the client again after an error. The asyncio client of a
    cluster in version 7 keeps the roles of the nodes that it knew: when the one master of a
    cluster is gone, of Redis as well, it knows none any more."""
    return redis.__version__.startswith("7.") and client == "redis-py.asyncio" and mode.startswith("cluster")


COMPARE_AND_DELETE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'


def commands(client, name: str) -> None:
    """The operations of a program that locks by hand."""
    release = client.register_script(COMPARE_AND_DELETE)
    expect("SET NX PX", client.set(name, "me", nx=True, px=60_000), True)
    expect("SET NX PX, taken", client.set(name, "you", nx=True, px=60_000), None)
    expect("release by another", release(keys=[name], args=["you"]), 0)
    expect("release", release(keys=[name], args=["me"]), 1)
    expect("GET of nothing", client.get(name), None)
    expect("pipeline", _pipeline(client, name), [1, 2, 3])
    if hasattr(client, "transaction"):  # that of a cluster has them from version 6 on
        expect("transaction", _transaction(client, name), [4, 5])
    expect("error", _error(client, name), "WRONGTYPE Operation against a key holding the wrong kind of value")
    expect("HGETALL", _hash(client, name + ":hash"), {b"a": b"1", b"b": b"2"})


def expect(what: str, got, want) -> None:
    """Fails unless a condition holds."""
    if got != want:
        raise AssertionError(f"{what}: {got!r}, not {want!r}")


def _pipeline(client, name):
    pipe = client.pipeline(transaction=False)
    for _ in range(3):
        pipe.incr(name)
    return pipe.execute()


def _transaction(client, name):
    pipe = client.pipeline(transaction=True)
    pipe.incr(name)
    pipe.incr(name)
    return pipe.execute()


def _error(client, name):
    try:
        return client.hget(name, "f")
    except redis.ResponseError as error:
        return str(error)


def _hash(client, name):
    client.hset(name, mapping={"a": 1, "b": 2})
    return client.hgetall(name)


# Bounds the wait for a message that was sent.
MESSAGE_MAX = 5


def pubsub(client, channel: str) -> None:
    """A message reaches its subscriber."""
    subscriber = client.pubsub()
    subscriber.subscribe(channel)
    end, seen = time.monotonic() + MESSAGE_MAX, []
    while time.monotonic() < end and "message" not in seen:
        message = subscriber.get_message(timeout=0.1)
        if message is None:
            continue
        seen.append(message["type"])
        if message["type"] == "subscribe":
            client.publish(channel, "hello")
        else:
            expect("message", message["data"], b"hello")
    subscriber.close()
    expect("Pub/Sub", seen, ["subscribe", "message"])
