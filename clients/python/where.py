"""The addresses of the servers, as the runner gives them (../doc.go)."""

import os
import urllib.request


def _addresses(variable: str) -> list[tuple[str, int]]:
    pairs = (a.rsplit(":", 1) for a in os.environ.get(variable, "").split(",") if a)
    return [(host, int(port)) for host, port in pairs]


NODES = _addresses("CLIENTS_NODES")
CLUSTER = _addresses("CLIENTS_CLUSTER")
TLS = _addresses("CLIENTS_TLS")
CA = os.environ.get("CLIENTS_CA", "")  # the file of the authority of their certificates
SENTINELS = _addresses("CLIENTS_SENTINELS")
MASTER = os.environ.get("CLIENTS_MASTER", "")
CONTROL = os.environ.get("CLIENTS_CONTROL", "")
TARGET = os.environ.get("CLIENTS_TARGET", "")
SCENE = os.environ.get("CLIENTS_SCENE", "")  # the only one to show, or nothing: all
FAILS_OVER = TARGET == "lockd"

# The control port gives up, and answers, after a minute.
CONTROL_MAX = 70


def tell(path: str) -> str:
    """Sends a request to the control port."""
    request = urllib.request.Request(CONTROL + path, method="POST")
    with urllib.request.urlopen(request, timeout=CONTROL_MAX) as answer:
        return answer.read().decode().strip()
