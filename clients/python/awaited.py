"""Lets scenes that know nothing of asyncio drive clients that are made for it."""

import asyncio
import inspect
import threading

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()

_PLAIN = (type(None), bool, int, float, str, bytes, list, tuple, dict, set)


def awaited(function, *args, **kwargs):
    """Calls a function on the one event loop of this process, and waits there for what it
    promises. What it gives that is no plain value is to be driven the same way."""

    async def call():
        result = function(*args, **kwargs)
        return await result if inspect.iscoroutine(result) else result

    result = asyncio.run_coroutine_threadsafe(call(), _loop).result()
    return result if isinstance(result, _PLAIN) else Awaited(result)


class Awaited:
    """A thing whose methods are called on the event loop, each until it is done."""

    def __init__(self, thing):
        self.thing = thing

    def __call__(self, *args, **kwargs):
        return awaited(self.thing, *args, **kwargs)

    def __getattr__(self, name):
        value = getattr(self.thing, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: awaited(value, *args, **kwargs)
