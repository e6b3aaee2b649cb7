# SPDX-License-Identifier: Apache-2.0
"""Numbers of functions, by which workers know them."""

from __future__ import annotations

import itertools
import pickle
import sys
import time
import types
from collections import OrderedDict
from collections.abc import Callable

from . import _errors, _pickling
from ._frozen import Frozen

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL as well, in 2 ms
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Types of functions that workers may import.
KINDS = types.FunctionType, types.BuiltinFunctionType, type
# Functions by value that were called once are remembered, up to this number.
_MOST_SEEN = 256


def number_of(definition: bytes) -> int:
    """Returns the number of the function with this definition. It is the same in all processes."""
    # The highest bit is for methods of actors.
    return int.from_bytes(blake2b(definition, digest_size=8).digest(), "little") >> 1


def is_importable(function: Callable[..., Any]) -> bool:
    """True if workers can import the function by its name."""
    if not isinstance(function, KINDS):
        return False
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if not name or not module or module == "__main__":
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def definition_of(function: Callable[..., Any]) -> bytes:
    """Returns the bytes from which a worker makes the function."""
    return _pickling.dumps_whole(function)


def load(definition: bytes) -> Callable[..., Any]:
    """Makes a function from its definition, in a worker."""
    function: Callable[..., Any] = pickle.loads(definition)
    return function


def apply(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a function that has no number."""
    return function(*arguments, **keywords)


def apply_chunk(function: Callable[..., Any], rows: list[Any], is_flat: bool) -> tuple[list[Any], Any, float]:
    """Calls a function for each row of arguments, or for each argument if `is_flat`.

    Returns the results up to the first exception, the description of this exception or None, and the time in seconds.
    """
    begin = time.perf_counter()
    results: list[Any] = []
    description = None
    try:
        # After an exception, the list has the results before it.
        results.extend(map(function, rows) if is_flat else itertools.starmap(function, rows))
    except _errors.Stopped:
        raise
    except BaseException as error:  # pylint: disable=broad-except
        description = _errors.describe(error)
    return results, description, time.perf_counter() - begin


class Functions:
    """Functions of a job, which workers know by numbers."""

    def __init__(self, job: Any) -> None:
        self._job = job
        self.by_name: dict[Any, Any] = {}  # express reads it
        self._by_number: dict[int, Any] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._kept: list[Any] = []  # actors that functions refer to
        self._apply = self.frozen(apply)

    def frozen(self, function: Callable[..., Any]) -> Any:
        """Returns the Function whose code is sent to each worker once, as it is now."""
        _pickling.noted.has_array = False
        definition = definition_of(function)
        if _pickling.noted.has_array:
            raise TypeError("code that is sent once cannot contain a farcall.Array; pass the array as an argument")
        return self._of(definition)

    def _of(self, definition: bytes) -> Any:
        self._kept += _pickling.take_mentioned()
        number = number_of(definition)
        found = self._by_number.get(number)
        if found is None:
            found = self._by_number[number] = Frozen(self._job, number, definition)
        return found

    def encode(self, function: Callable[..., Any], arguments: tuple[Any, ...],
               keywords: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the Function to call and the message of a call."""
        try:
            found = self.by_name.get(function)
        except TypeError:  # not hashable
            found = None
        if found is None and is_importable(function):
            found = self.by_name[function] = self.frozen(function)
        if found is None and type(function) is types.FunctionType:
            found = self._by_value(function)
        if found is not None:
            return found, found.encode(arguments, keywords)
        return self._apply, self._apply.encode((function, arguments, keywords), None)

    def _by_value(self, function: Callable[..., Any]) -> Any:
        """Returns the Function for the present state of a function, if it was called in this state before."""
        _pickling.noted.has_array = False
        definition = definition_of(function)
        if _pickling.noted.has_array:
            return None
        number = number_of(definition)
        if number in self._by_number or number in self._seen:
            return self._of(definition)
        self._seen[number] = None
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        return None
