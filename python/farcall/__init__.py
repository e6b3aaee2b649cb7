"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle
from concurrent.futures import (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, CancelledError, as_completed,
                                wait)

from . import _core, _errors, _pickling
from ._errors import NodeFailed, RemoteError, RemoteTraceback, StartFailed, Stopped, Timeout
from ._executor import Executor
from ._future import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import joblib as joblib
    from ._actors import get

__all__ = ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "CancelledError", "Executor", "Future", "NodeFailed",
           "RemoteError", "RemoteTraceback", "StartFailed", "Stopped", "Timeout", "as_completed", "get", "wait"]

__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads)
_core.set_errors(_errors.of_status, _errors.of_remote)

# Names whose modules are imported when they are used first.
_LATER = {"get": "_actors"}


def __getattr__(name: str) -> object:
    import importlib

    if name == "joblib":
        return importlib.import_module(".joblib", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value
