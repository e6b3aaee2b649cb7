# SPDX-License-Identifier: Apache-2.0
"""Objects of actors that live in this worker."""

from __future__ import annotations

import functools
import pickle
import queue
import threading
from collections.abc import Callable

from . import _core, _functions, _worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Names of calls that are no methods of the object.
READ, COPY, CLOSE = ":read", ":copy", ":close"
# Bit of the numbers of methods, as in core.h.
_ACTOR_BIT = 1 << 63


class _Object:
    """An object, and the threads that run its methods, unless the threads of the worker do."""

    def __init__(self, value: Any, threads: int) -> None:
        self.value = value
        self.numbers: list[int] = []  # of its methods that were called
        self.threads = threads
        self.calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        for i in range(threads):
            name = f"farcall-{type(value).__name__}-{i}"
            threading.Thread(target=_run, args=(self.calls,), name=name, daemon=True).start()


_objects: dict[int, _Object] = {}


class _Definition:
    def __init__(self, number: int, name: str) -> None:
        self._arguments = number, name

    def __reduce__(self) -> Any:
        return method, self._arguments


def definition_of(number: int, name: str) -> bytes:
    """Returns the definition of a method of an actor, as workers load it. `number` is the actor's."""
    return pickle.dumps(_Definition(number, name), 5)


def number_of(definition: bytes) -> int:
    """Returns the number of the method with this definition."""
    return _functions.number_of(definition) | _ACTOR_BIT


def describe(value: Any, threads: int) -> bytes:
    """Returns the number of an object's threads, the name of its class, and the names of its methods."""
    kind = type(value)
    names = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name, None))]
    return "\0".join([str(threads), kind.__qualname__, *names]).encode()


def make(number: int, holder: int, threads: int, maker: Callable[..., Any], arguments: tuple[Any, ...],
         keywords: dict[str, Any]) -> bytes:
    """Makes the object of an actor, to which the node `holder` refers. Returns the description of the object."""
    value = maker(*arguments, **keywords)
    description = describe(value, threads)
    _objects[number] = _Object(value, threads)
    _core.set_local(_DROP, _drop)
    _core.actor_add(number, description, holder, _DROP)
    return description


def method(number: int, name: str) -> Any:
    """Returns the function that runs a method of an actor. Raises RuntimeError if the actor was closed."""
    found = _objects.get(number)
    if found is None:
        raise RuntimeError("the actor was closed, or belongs to another executor")
    function: Any
    if name == CLOSE:
        function = functools.partial(_close, number)
    elif name == READ:
        function = functools.partial(getattr, found.value)
    elif name == COPY:
        function = functools.partial(_value, number)
    else:
        function = getattr(found.value, name)
    found.numbers.append(number_of(definition_of(number, name)))
    return _core.Handed(function, found.calls.put) if found.threads else function


def _value(number: int) -> Any:
    return _objects[number].value


def _close(number: int) -> None:
    found = _objects.get(number)
    if found is None:
        return
    try:
        if callable(getattr(type(found.value), "close", None)):
            found.value.close()
    finally:
        _core.actor_forget(number)
        _drop(number)


def _drop(number: int) -> None:
    """Drops the object of an actor to which no node refers any more."""
    found = _objects.pop(number, None)
    if found is None:
        return
    for each in found.numbers:
        _core.undefine(each)
    for _ in range(found.threads):
        found.calls.put(None)


_DROP = _functions.number_of(_functions.definition_of(_drop))


def _run(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call


def own_node() -> int:
    """Returns the number of this process in its job."""
    return 0 if _worker.job is None else int(_worker.job.own())
