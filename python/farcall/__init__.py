# SPDX-License-Identifier: Apache-2.0
"""Calls Python functions in other processes.

    import farcall

    with farcall.Executor(4) as executor:
        print(executor.submit(pow, 2, 10).result())
        print(list(executor.map(abs, [-1, -2])))

Executor has worker processes, and the interface of concurrent.futures. Its create() makes actors, which are objects on
a worker, and empty() makes arrays in shared memory. Job calls processes of every kind, also functions in C, and spmd()
is for programs whose processes all run the program. `python -m farcall` is the farcall command.
"""

from __future__ import annotations

from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, CancelledError

from . import _ends as _ends  # registers its function for the end of the interpreter
from ._waiting import as_completed, wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import joblib as joblib
    from ._actors import get
    from ._array import Array, empty, zero_copy
    from ._buffer import Buffer
    from ._errors import (NodeFailed, OutOfMemory, RemoteError, RemoteTraceback, StartFailed, Stopped, Timeout,
                          UnknownFunction, WrongNode)
    from ._executor import Executor
    from ._future import Future
    from ._job import Job, Node, NodeEvent
    from ._native import In, InOut, Library, Out, get_errno
    from ._paths import get_include, get_library
    from ._spmd import Equals, spmd
    from ._types import f32, f64, i8, i16, i32, i64, size_t, u8, u16, u32, u64

    __version__: str

__all__ = ["ALL_COMPLETED", "Array", "Buffer", "CancelledError", "FIRST_COMPLETED", "FIRST_EXCEPTION", "Equals",
           "Executor", "Future", "In", "InOut", "Job", "Library", "Node", "NodeEvent", "NodeFailed", "Out",
           "OutOfMemory", "RemoteError", "RemoteTraceback", "StartFailed", "Stopped", "Timeout", "UnknownFunction",
           "WrongNode", "as_completed", "empty", "f32", "f64", "get", "get_errno", "get_include", "get_library", "i16",
           "i32", "i64", "i8", "size_t", "spmd", "u16", "u32", "u64", "u8", "wait", "zero_copy"]

# Names whose modules are imported when they are used first: the extension module and the libraries that it needs take
# several milliseconds, which programs that only import the package need not spend.
_LATER = {
    **dict.fromkeys(("NodeFailed", "OutOfMemory", "RemoteError", "RemoteTraceback", "StartFailed", "Stopped", "Timeout",
                     "UnknownFunction", "WrongNode"), "_errors"),
    "Executor": "_executor",
    "Future": "_future",
    **dict.fromkeys(("Array", "empty", "zero_copy"), "_array"),
    "Buffer": "_buffer",
    "get": "_actors",
    **dict.fromkeys(("Job", "Node", "NodeEvent"), "_job"),
    **dict.fromkeys(("In", "InOut", "Library", "Out", "get_errno"), "_native"),
    **dict.fromkeys(("get_include", "get_library"), "_paths"),
    **dict.fromkeys(("Equals", "spmd"), "_spmd"),
    **dict.fromkeys(("f32", "f64", "i8", "i16", "i32", "i64", "size_t", "u8", "u16", "u32", "u64"), "_types"),
}


def __getattr__(name: str) -> object:
    import importlib

    if name == "joblib":
        return importlib.import_module(".joblib", __name__)
    if name == "__version__":
        value: object = importlib.import_module("._core", __name__).version
    elif name in _LATER:
        value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
