"""Lets blocking scenes drive clients of asyncio."""

import asyncio
import inspect
import threading

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()

_PLAIN = (type(None), bool, int, float, str, bytes, list, tuple, dict, set)


def awaited(function, *args, **kwargs):
    """Calls a function on the one event loop of this process, and waits there for its result. A
    result that is an object is wrapped, too."""

    async def call():
        result = function(*args, **kwargs)
        return await result if inspect.iscoroutine(result) else result

    result = asyncio.run_coroutine_threadsafe(call(), _loop).result()
    return result if isinstance(result, _PLAIN) else Awaited(result)


class Awaited:
    """An object whose methods run on the event loop, each to its end."""

    def __init__(self, thing):
        self.thing = thing

    def __call__(self, *args, **kwargs):
        return awaited(self.thing, *args, **kwargs)

    def __getattr__(self, name):
        value = getattr(self.thing, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: awaited(value, *args, **kwargs)
