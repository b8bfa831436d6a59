"""Shows scenes of one client in one mode, in the environment that has it:

    show.py CLIENT MODE quiet      the calm scenes
    show.py CLIENT MODE failover   prints READY when the leader may be killed, and reads a line
                                   when the servers have had time to recover
    show.py CLIENT MODE alone      the scenes that kill nodes of their own choice, or move the lead
"""

import importlib.metadata
import logging
import sys
import threading

import catalog
import scenes
import where


class Signals:
    """The dialogue with run.py."""

    def __init__(self):
        self._stop = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        sys.stdin.readline()  # a word, or nothing if whoever started us is gone
        self._stop.set()

    def ready(self):
        print("READY", flush=True)

    def wait_for_stop(self):
        self._stop.wait()

    def stopped(self) -> bool:
        return self._stop.is_set()


# lockd's answer to a command that was under way when the leader was lost. A calm scene meets it only
# on a machine too busy to run the servers: it is repeated, once.
LEADER_LOST = "UNKNOWN the outcome"


def play(scene, *args) -> tuple[str, str]:
    """The result of a scene."""
    try:
        return "ok", scene(*args) or ""
    except scenes.NoScene as none:
        return "none", str(none)
    except Exception as error:
        return "fail", f"{type(error).__name__}: {error}"


def show(client: catalog.Client, mode: str, name: str, scene, *args) -> bool:
    """Shows one scene and prints its result."""
    verdict, words = play(scene, *args)
    if verdict == "fail" and LEADER_LOST in words and name != "failover":
        verdict, words = play(scene, *args)
    version = importlib.metadata.version(client.distribution)
    print("RESULT", client.name, version, mode, name, verdict, " ".join(words.split()), flush=True)
    return verdict != "fail"


def none(why: str):
    """The result of a scene that cannot be shown."""
    raise scenes.NoScene(why)


def scenes_of(client: catalog.Client, mode: str):
    """The scenes of a client."""
    if client.gone:
        import gone

        return getattr(gone, client.gone)(client.name, mode)
    return (scenes.LockScenes if client.is_lock else scenes.PlainScenes)(client.name, mode)


def asked_for(scene: str) -> bool:
    """Whether the runner wants to see a scene."""
    return where.SCENE in ("", scene)


def main(name: str, mode: str, part: str) -> bool:
    client = catalog.named(name)
    shown = scenes_of(client, mode)
    if part == "failover":
        return show(client, mode, "failover", shown.failover, Signals())
    if part == "alone":
        return all([show(client, mode, scene, do) for scene, do in shown.alone.items() if asked_for(scene)])
    ok = [show(client, mode, scene, do) for scene, do in shown.quiet.items() if asked_for(scene)]
    if (why := client.why_no_failover(mode)) and asked_for("failover"):
        ok.append(show(client, mode, "failover", none, why))
    return all(ok)


if __name__ == "__main__":
    logging.disable()  # the scenes kill servers, and libraries log every try
    sys.exit(0 if main(*sys.argv[1:]) else 1)
