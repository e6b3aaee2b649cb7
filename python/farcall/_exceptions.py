# SPDX-License-Identifier: Apache-2.0
"""Exceptions of tasks: their pickles, and the text of their traceback."""

from __future__ import annotations

import concurrent.futures._base
import copyreg
import os
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Flag of classes that were made at run time (Py_TPFLAGS_HEAPTYPE).
_MADE_AT_RUN_TIME = 1 << 9
# Functions by which a class says how its objects are pickled.
_OWN_WAYS = "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"
_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CALLED_BY_US = concurrent.futures._base.__file__  # pylint: disable=protected-access


def _is_built_in(kind: type) -> bool:
    return not kind.__flags__ & _MADE_AT_RUN_TIME


def _inherits(kind: type, name: str) -> bool:
    """True if the class inherits the function from a built-in class, and not from a class in Python."""
    return next((_is_built_in(each) for each in kind.__mro__ if name in each.__dict__), True)


def reduced(value: object) -> Any:
    """Returns how a pickler reduces an exception whose class has an __init__() or __new__() of its own.

    An exception keeps the arguments of BaseException.__init__() as `args`. A usual pickle calls the class with `args`
    when it is read, although the class may take other arguments, or make another text from them. Returns NotImplemented
    for objects that are pickled as usual.
    """
    kind = type(value)
    if (not isinstance(value, BaseException) or _inherits(kind, "__init__") and _inherits(kind, "__new__")
            or kind in copyreg.dispatch_table or not all(_inherits(kind, name) for name in _OWN_WAYS)):
        return NotImplemented
    parts: Any = value.__reduce_ex__(5)
    state = dict(parts[2]) if len(parts) > 2 and parts[2] else {}
    for name in copyreg._slotnames(kind):  # type: ignore[attr-defined] # pylint: disable=protected-access
        if hasattr(value, name):
            state[name] = getattr(value, name)
    return rebuilt, (kind, *parts[1]), state or None


def rebuilt(kind: type[BaseException], *arguments: Any) -> BaseException:
    """Returns an exception with these `args`, without a call of the __init__() of its class."""
    base: Any = kind
    while not _is_built_in(base):
        base = base.__base__
    try:
        error: BaseException = base.__new__(kind, *arguments)
        base.__init__(error, *arguments)
    except TypeError:  # an extension in C has made the class
        return kind(*arguments)
    return error


def text_of(error: BaseException) -> str:
    """Returns the traceback without frames of farcall, unless the variable FARCALL_PYTHON_TRACEBACK is "full"."""
    summary = traceback.TracebackException.from_exception(error, compact=True)
    if os.environ.get("FARCALL_PYTHON_TRACEBACK") != "full":
        _hide_frames(summary)
    return "".join(summary.format())


def _hide_frames(summary: traceback.TracebackException) -> None:
    seen: set[int] = set()
    left: list[traceback.TracebackException | None] = [summary]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.stack[:] = _shown(each.stack)
        left += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]


def _shown(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Returns the frames without farcall's own ones. If no others remain, returns all frames."""
    kept = []
    is_hidden = False
    for frame in frames:
        is_hidden = frame.filename.startswith(_FOLDER) or is_hidden and frame.filename == _CALLED_BY_US
        if not is_hidden:
            kept.append(frame)
    return kept or frames
