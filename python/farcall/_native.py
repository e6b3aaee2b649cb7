# SPDX-License-Identifier: Apache-2.0
"""Functions in C on nodes: libraries, prototypes and signatures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from . import _core
from ._errors import UnknownFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._job import Node

# Letters of ctypes' simple types that have other letters here.
_CTYPES = {"c": "b", "z": "s", "P": "p", "g": None, "u": None, "O": None, "Z": None}
_NAMES = {"f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
          "float32": "f", "float64": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
          "uint32": "I", "int64": "q", "uint64": "Q"}
_LETTERS = "bBhHiIlLqQnNfd?p"
# Time limits from this one on, 285 years, are none. Nanoseconds have 64 bits.
_LONGEST_SECONDS = 9e9


class Direction:
    """Pointer parameter whose bytes are copied: to the node before the call, back after it, or both."""

    __slots__ = ("letter", "name")

    def __init__(self, letter: str, name: str) -> None:
        self.letter = letter
        self.name = name

    def __repr__(self) -> str:
        return f"farcall.{self.name}"


In = Direction("s", "In")
Out = Direction("o", "Out")
InOut = Direction("x", "InOut")


def letter_of(kind: Any, is_result: bool = False) -> str:
    """Returns the letter of a type: of ctypes, of farcall (f64, In, …), a NumPy name, float, bool, bytes or a letter.

    Raises TypeError for other types.
    """
    if kind is None:
        return "v" if is_result else _refuse(kind)
    if isinstance(kind, Direction):
        return _refuse(kind) if is_result else kind.letter
    metadata = getattr(kind, "__metadata__", None)  # of typing.Annotated
    if metadata:
        return letter_of(metadata[0], is_result)
    if isinstance(kind, str):
        letter = _NAMES.get(kind, kind)
        if letter in (*_LETTERS, *(("v",) if is_result else ("s", "o", "x"))):
            return letter
        return _refuse(kind)
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):  # pylint: disable=protected-access
        raise TypeError(f"{kind.__name__} does not say which way the bytes go; use farcall.In, farcall.Out or "
                        "farcall.InOut for buffers of the caller, and ctypes.c_void_p for addresses on the node")
    found = _letter_of_class(kind)
    if found is None or (is_result and found in "sx"):
        return _refuse(kind)
    return found


def _letter_of_class(kind: Any) -> str | None:
    simple = getattr(kind, "_type_", None)
    simple_data = ctypes._SimpleCData  # pylint: disable=protected-access
    if isinstance(kind, type) and issubclass(kind, simple_data) and isinstance(simple, str):
        return _CTYPES.get(simple, simple)
    return {float: "d", bool: "?", bytes: "s", bytearray: "x"}.get(kind)


def _refuse(kind: Any) -> str:
    text = getattr(kind, "__name__", None) or repr(kind)
    if kind is int:
        raise TypeError("int has many sizes in C; use farcall.i32, farcall.i64 or a type of ctypes")
    raise TypeError(f"{text} is no type of a parameter or result in C; there are types of ctypes, farcall.f64 and the "
                    "like, and farcall.In, farcall.Out and farcall.InOut for buffers")


def signature_of(function: Callable[..., Any]) -> str:
    """Returns the signature that the annotations of a Python function describe."""
    import inspect
    import typing

    hints = typing.get_type_hints(function, include_extras=True)
    names = list(inspect.signature(function).parameters)
    for name in (*names, "return"):
        if name not in hints:
            raise TypeError(f"{function.__name__}() has no annotation for {name!r}")
    result = hints["return"]
    result = None if result is type(None) else result
    return letter_of(result, True) + "(" + "".join(letter_of(hints[name]) for name in names) + ")"


def timeout_ns(timeout: float | None) -> int:
    """Returns a time limit in nanoseconds, or -1 for none."""
    if timeout is None:
        return -1
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
        raise TypeError(f"timeout must be a number of seconds, and not {type(timeout).__name__}")
    if not timeout >= 0:
        raise ValueError("timeout must not be negative" if timeout < 0 else "timeout must be a number, and not NaN")
    return int(timeout * 1e9) if timeout < _LONGEST_SECONDS else -1


def _named(name: Any, signature: str | None) -> tuple[str, str | None]:
    """Returns name and signature, which a function with annotations may take the place of."""
    if callable(name):
        if signature is not None:
            raise TypeError("a function with annotations has a signature already")
        return name.__name__, signature_of(name)
    if not isinstance(name, str):
        raise TypeError(f"the name of a function must be a str, and not {type(name).__name__}")
    return name, signature


def handler(node: Node, name: Any, signature: str | None, timeout: float | None) -> Any:
    """Returns a function that calls a handler of the node."""
    name, signature = _named(name, signature)
    return _core.Native(node.job.core, node.id, None, name, signature or "s(s)", timeout_ns(timeout), node.job)


class Prototype:
    """Function of a library, as in ctypes: set `argtypes` and `restype`, and call it.

    `restype` is int of C by default, and None for void. `submit()` returns a farcall.Future.
    """

    __slots__ = ("_library", "_native", "_argtypes", "_restype", "__name__")

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self._native: Any = None
        self._argtypes: tuple[Any, ...] | None = None
        self._restype: Any = ctypes.c_int
        self.__name__ = name

    @property
    def argtypes(self) -> tuple[Any, ...] | None:
        """Types of the parameters."""
        return self._argtypes

    @argtypes.setter
    def argtypes(self, types: Any) -> None:
        made = tuple(types)
        for each in made:
            letter_of(each)
        self._argtypes, self._native = made, None

    @property
    def restype(self) -> Any:
        """Type of the result."""
        return self._restype

    @restype.setter
    def restype(self, kind: Any) -> None:
        letter_of(kind, True)
        self._restype, self._native = kind, None

    def _found(self) -> Any:
        if self._native is None:
            if self._argtypes is None:
                raise TypeError(f"set {self.__name__}.argtypes before the first call, to () for no arguments")
            letters = "".join(letter_of(each) for each in self._argtypes)
            self._native = self._library.function(self.__name__, f"{letter_of(self._restype, True)}({letters})")
        return self._native

    def __call__(self, *arguments: Any) -> Any:
        return self._found()(*arguments)

    def submit(self, *arguments: Any) -> Any:
        """Calls the function, and returns a future of its result."""
        return self._found().submit(*arguments)


def _load(node: Node, path: str, limit: int) -> int:
    try:
        return _core.load_library(node.job.core, node.id, path, limit)
    except UnknownFunction as error:
        raise OSError(f"node {node.id} cannot load libraries, because it is a device") from error
    except RuntimeError as error:
        if type(error) is RuntimeError and not node.job.has_ended:  # pylint: disable=unidiomatic-typecheck
            raise OSError(str(error)) from None  # as ctypes does
        raise


class Library:
    """A shared library that a node has loaded.

    `library.name` is the function `name`, as in ctypes, and function() the faster way to get one. The library stays
    loaded until unload(), or the end of the node.
    """

    def __init__(self, node: Node, path: str, timeout: float | None = None) -> None:
        self._node = node
        self._path = path
        self._prototypes: dict[str, Prototype] = {}
        limit = timeout_ns(timeout)
        # A node has a limited number of libraries, so a library is loaded once, and counted.
        with node.job.libraries_lock:
            loaded = node.job.libraries.setdefault((node.id, path), [0, 0])
            if loaded[1] == 0 or not node.alive:
                loaded[0] = _load(node, path, limit)
            loaded[1] += 1
            self._number: int = loaded[0]

    def __repr__(self) -> str:
        return f"<farcall library {self._path!r} on node {self._node.id}>"

    def __getattr__(self, name: str) -> Prototype:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Prototype:
        return self._prototypes.setdefault(name, Prototype(self, name))

    def function(self, name: Any, signature: str | None = None, *, timeout: float | None = None) -> Any:
        """Returns a function of the library, whose calls wait, at most for `timeout` seconds.

        `signature` has the letter of the result and, in parentheses, of the parameters, as in "d(dpl)"; the
        letters are in farcall/c/library.h. `name` may be a function with annotations that takes the place of both.
        Waits for the node.
        Raises UnknownFunction if the library does not have the function, and ValueError for a wrong signature.
        """
        name, signature = _named(name, signature)
        if signature is None:
            raise TypeError(f"{name} needs a signature, as in library.function({name!r}, \"d(d)\")")
        job = self._node.job
        return _core.Native(job.core, self._node.id, self._number, name, signature, timeout_ns(timeout), job)

    def unload(self) -> None:
        """Unloads the library, if each load() has had its unload(). Later calls raise UnknownFunction."""
        job = self._node.job
        with job.libraries_lock:
            loaded = job.libraries[self._node.id, self._path]
            if loaded[1] == 0:
                raise UnknownFunction(f"node {self._node.id} has no library {self._path!r}; it was unloaded")
            loaded[1] -= 1
            if loaded[1] == 0:
                _core.unload_library(job.core, self._node.id, self._number)


def get_errno() -> int:
    """Returns errno of the last function in C whose result this thread has received."""
    return _core.last_errno()
