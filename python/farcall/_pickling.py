# SPDX-License-Identifier: Apache-2.0
"""Pickles of arguments, results and functions."""

from __future__ import annotations

import io
import pickle
import threading
import types
import weakref
from collections import ChainMap
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROTOCOL = 5


class _Parts(list["Any"]):
    """Parts of a message that contains handles of actors. The actors live as long as the message."""

    handles: list[tuple[Any, int]]

    def lend(self) -> None:
        """Lets the actors outlive the message, until the receiver has handles of its own."""
        for hold, token in self.handles:
            hold.lend(token)


# References to actors that pickles of a thread contain, until the message is complete.
_mentioned: list[tuple[int, weakref.ref[Any], int]] = []
# Most elements of _mentioned that belong to pickles that are no messages.
_MOST_MENTIONED = 256


def mention(hold: Any, token: int) -> None:
    """Notes that a pickle contains a handle of an actor."""
    _mentioned.append((threading.get_ident(), weakref.ref(hold), token))
    del _mentioned[:-_MOST_MENTIONED]


def take_mentioned() -> list[tuple[Any, int]]:
    """Returns the references that pickles of the calling thread have mentioned, with their tokens."""
    thread = threading.get_ident()
    own = [each for each in _mentioned if each[0] == thread]
    for each in own:
        try:
            _mentioned.remove(each)
        except ValueError:
            pass  # another thread has removed the oldest ones
    return [(hold, token) for _, reference, token in own if (hold := reference()) is not None]


def _keeping(parts: list[Any]) -> list[Any]:
    """Returns the parts of a message, which keep the actors whose handles are in it."""
    kept = _Parts(parts)
    kept.handles = take_mentioned()
    return kept if kept.handles else parts


_pickler: Any = None


def _by_value() -> Any:
    """Returns the class of picklers that use cloudpickle, or None if cloudpickle is not installed."""
    global _pickler  # pylint: disable=global-statement
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    if _pickler is None:
        _pickler = _pickler_with_files(cloudpickle.CloudPickler)
    return _pickler


def _dumps_by(pickler: Any) -> Callable[..., bytes]:
    """Returns a function like pickle.dumps() that uses a class of picklers."""
    def dumps(value: object, protocol: int, buffer_callback: Any = None) -> bytes:
        file = io.BytesIO()
        pickler(file, protocol, buffer_callback=buffer_callback).dump(value)
        return file.getvalue()

    return dumps


def _reducing(base: Any, reduce: Callable[[object], Any]) -> Any:
    """Returns a class of picklers that calls `reduce` for each object."""
    inherited = getattr(base, "reducer_override", lambda self, value: NotImplemented)

    def reducer_override(self: Any, value: object) -> Any:
        made = reduce(value)
        return inherited(self, value) if made is NotImplemented else made

    return type("Pickler", (base,), {"reducer_override": reducer_override})


def _pickler_with_files(base: Any) -> Any:
    """Returns a class of picklers that keep the file of code, so that tracebacks of workers name it."""
    table = base.dispatch_table
    reduce = table[types.CodeType]

    def reduce_code(code: types.CodeType) -> tuple[Any, ...]:
        make, arguments, *rest = reduce(code)
        file = "".join(code.co_filename)  # a string that no other code shares, for pickles that are always equal
        return make, tuple(file if each == "<dynamic-code>" else each for each in arguments), *rest

    return type("Pickler", (base,), {"dispatch_table": ChainMap({types.CodeType: reduce_code}, table)})


def _with_buffers(dump: Any, value: object) -> list[Any]:
    """Returns the pickle of a value and its buffers."""
    buffers: list[Any] = []

    def is_scattered(buffer: pickle.PickleBuffer) -> bool:
        try:
            buffers.append(buffer.raw())
        except BufferError:
            return True  # the pickle contains a copy
        return False

    data = dump(value, protocol=_PROTOCOL, buffer_callback=is_scattered)
    return [data, *buffers]


def _whole(dump: Any, value: object) -> list[Any]:
    return [dump(value, protocol=_PROTOCOL)]


def _name_in_main(data: bytes) -> str | None:
    """Returns the name of a function or class in `__main__` to which a pickle seems to refer, or None."""
    import pickletools

    texts = [argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)]
    for text, following in zip(texts, [*texts[1:], ""]):
        if text == "__main__":
            return following or "an object"
        if text.startswith("__main__ "):
            return text.partition(" ")[2]
    return None


# Parts of the texts of picklers, and what to do.
_HINTS = (("should only be shared between processes through inheritance",
           "workers can use objects of a multiprocessing.Manager instead, such as manager.Queue() and manager.Lock()"),
          ("'coroutine' object", "workers run no coroutines; a function can run one by asyncio.run(), and return its "
           "result"),
          ("'generator' object", "a function can return list(generator) instead"))


def _dumps(into: Callable[[Any, object], list[Any]], value: object,
           reduce: Callable[[object], Any] | None = None) -> list[Any]:
    failure: Exception | None = None
    parts: list[Any] = []
    try:
        parts = into(pickle.dumps if reduce is None else _dumps_by(_reducing(pickle.Pickler, reduce)), value)
    except Exception as error:  # pylint: disable=broad-except
        failure = error
    # Workers have another __main__, so its functions and classes are sent by value.
    if failure is None and b"__main__" not in parts[0]:
        return parts
    by_value = _by_value()
    if by_value is not None:
        try:
            return into(_dumps_by(by_value if reduce is None else _reducing(by_value, reduce)), value)
        except Exception as error:  # pylint: disable=broad-except
            _add_hint(error)
            raise
    if failure is None:
        name = _name_in_main(parts[0])
        if name is None:
            return parts
        raise TypeError(f"cannot send {name} of the main program to a worker: functions and classes of __main__ need "
                        "the package cloudpickle (pip install cloudpickle), or must be in a module that workers can "
                        "import")
    if isinstance(failure, (pickle.PicklingError, AttributeError)):
        failure.add_note("farcall sends lambdas, closures and local functions if the package cloudpickle is installed "
                         "(pip install cloudpickle)")
    _add_hint(failure)
    raise failure


def _add_hint(failure: Exception) -> None:
    text = str(failure)
    for part, hint in _HINTS:
        if part in text:
            failure.add_note(hint)


def dumps(value: object) -> list[Any]:
    """Returns a list of the pickle of a value and its buffers, which are not copied.

    Functions and classes of `__main__`, lambdas and closures are pickled by value, by cloudpickle. Raises the error of
    the pickler, with a note that says what to do.
    """
    # First as most values can be pickled; then again, if something is special.
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(value, _PROTOCOL, buffer_callback=buffers.append)
        if b"__main__" not in data:
            parts = [data, *[buffer.raw() for buffer in buffers]] if buffers else [data]
            return _keeping(parts) if _mentioned else parts
    except Exception:  # pylint: disable=broad-except
        pass
    parts = _dumps(_with_buffers, value)
    return _keeping(parts) if _mentioned else parts


def dumps_whole(value: object, reduce: Callable[[object], Any] | None = None) -> bytes:
    """Returns the pickle of a value as one piece. Calls `reduce` like the reducer_override() of a pickler."""
    data: bytes = _dumps(_whole, value, reduce)[0]
    return data


def loads(data: Any, buffers: list[Any]) -> Any:
    """Returns the object of a pickle with buffers."""
    return pickle.loads(data, buffers=buffers)


# True in a thread that unpickles arguments of a call, in which arrays become views.
arriving = threading.local()


def load_arguments(data: Any, buffers: list[Any]) -> Any:
    """Returns the arguments of a call. Arrays become views of their memory."""
    arriving.is_call = True
    try:
        return pickle.loads(data, buffers=buffers)
    finally:
        arriving.is_call = False


class _Noted(threading.local):
    """Notes of a thread on its latest pickle."""

    has_array = False  # true if it contains a farcall.Array, so that only messages can carry it


noted = _Noted()


def reduce_memory(memory: Any) -> tuple[Any, ...]:
    """Pickles bytes of a block like a pickle.PickleBuffer."""
    return _same, (pickle.PickleBuffer(memory),)


def _same(value: Any) -> Any:
    return value
