# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of Executor, whose errors say what to pass instead."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 1 << 10, "mib": 1 << 20,
          "gib": 1 << 30, "tib": 1 << 40}


def _kind(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def whole(name: str, value: Any, least: int, meaning: str = "", hint: str = "") -> int:
    """Returns an integer argument. Raises TypeError for other types, ValueError for numbers less than `least`.

    The text of the error has `meaning` behind the kind of value that is needed, and `hint` at its end.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be a whole number{meaning}, not {_kind(value)}{hint}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}{meaning}, not {number}{hint}")
    return number


def seconds(name: str, value: Any, may_be_zero: bool = False) -> float:
    """Returns a time in seconds. Raises TypeError or ValueError."""
    try:
        number = None if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise TypeError(f"{name} must be a number of seconds, not {_kind(value)}")
    if not (number > 0 or may_be_zero and number == 0):
        raise ValueError(f"{name} must be greater than 0 seconds, not {number:g}" if not may_be_zero else
                         f"{name} must be 0 or more seconds, not {number:g}")
    return number


def time_limit(name: str, value: Any) -> float | None:
    """Returns a time limit in seconds, or None for no limit. Infinity is no limit, either."""
    limit = None if value is None else seconds(name, value)
    return None if limit == math.inf else limit


def worker(value: Any, count: int) -> int:
    """Returns the number of a worker, from 0 on. Raises TypeError or IndexError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"a worker is given by a number from 0 on, or by executor[i], not by {_kind(value)}") from None
    if not -count <= number < count:
        raise IndexError(f"the executor has no worker {number}; it has {count}")
    return number % count


def no_options(given: Iterable[str], known: Iterable[str], others: Iterable[str]) -> None:
    """Raises TypeError if options were given to an executor that takes none of `others`. `known` are its parameters."""
    for name in given:
        if name in others:
            raise TypeError(f"the option {name!r} is only for workers with URLs, as in Executor(\"tcp://host:7070\")")
        import difflib

        near = difflib.get_close_matches(name, list(known), 1)
        raise TypeError(f"Executor has no parameter {name!r}; "
                        + (f"did you mean {near[0]!r}?" if near else "help(farcall.Executor) lists the parameters"))


def size(name: str, value: Any) -> int:
    """Returns a number of bytes, which may be a text such as "4GiB". Raises TypeError or ValueError."""
    if not isinstance(value, str):
        return whole(name, value, 1, ' of bytes, or a text such as "4GiB"')
    text = value.strip().lower()
    number = text.rstrip("bikmgt").strip()
    factor = _UNITS.get(text[len(number):].strip())
    try:
        amount = float(number) if factor is not None else -1.0
    except ValueError:
        amount = -1.0
    if factor is None or not 0 < amount * factor < 1 << 63:
        raise ValueError(f'{name} must be a number of bytes, or a text such as "4GiB" or "500MB", not {value!r}')
    return int(amount * factor)


def modules(name: str, value: Any) -> tuple[str, ...]:
    """Returns names of modules. Raises TypeError."""
    if isinstance(value, str):
        raise TypeError(f"{name} must be a list of names of modules, such as [{value!r}], not the text {value!r}")
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of names of modules, not {_kind(value)}")
    names = tuple(value)
    for each in names:
        if not isinstance(each, str):
            raise TypeError(f"{name} must contain names of modules, not {_kind(each)}")
    return names


def values(name: str, value: Any) -> tuple[Any, ...]:
    """Returns positional arguments for a function. Raises TypeError."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a tuple of arguments, such as ({value!r},), not {_kind(value)}")
    return tuple(value)


def function(name: str, value: Any) -> Callable[..., Any]:
    """Returns a callable. Raises TypeError."""
    if not callable(value):
        raise TypeError(f"{name} must be a function or another callable, not {_kind(value)}")
    called: Callable[..., Any] = value
    return called
