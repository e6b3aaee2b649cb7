"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, as_completed, wait

from . import _core, _errors, _pickling
from ._errors import NodeFailed, RemoteError, RemoteTraceback, StartFailed
from ._executor import Executor
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._array import Array, empty, zero_copy

__all__ = ["ALL_COMPLETED", "Array", "FIRST_COMPLETED", "FIRST_EXCEPTION", "Executor", "Future", "NodeFailed",
           "RemoteError", "RemoteTraceback", "StartFailed", "as_completed", "empty", "wait", "zero_copy"]
__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads, _pickling.load_arguments)
_core.set_errors(_errors.of_status, _errors.of_remote)

# Names whose modules are imported when they are used first.
_LATER = {"Array": "_array", "empty": "_array", "zero_copy": "_array"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value
