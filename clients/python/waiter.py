"""A process that waits as a program does, until it is killed:

    waiter.py rq MODE INDEX LABEL QUEUE...   a worker of RQ
    waiter.py lock MODE INDEX LABEL NAME     a waiter for a lock of python-redis-lock

LABEL is the name of its connections. A waiter for a lock ends when it has the lock.
"""

import logging
import sys

import redispy

# A lease, and with it the longest time that a waiter for a lock sleeps, in seconds.
LEASE = 30


def main(kind: str, mode: str, index: str, label: str, *names: str) -> None:
    client = redispy.connect(mode, int(index), {"socket_connect_timeout": 1, "client_name": label})
    if kind == "rq":
        import rq

        rq.SimpleWorker(names, connection=client).work(logging_level="CRITICAL")
    else:
        import redis_lock

        redis_lock.Lock(client, *names, expire=LEASE).acquire()


if __name__ == "__main__":
    logging.disable()
    main(*sys.argv[1:])
