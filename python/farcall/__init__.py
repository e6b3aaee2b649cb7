"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle
from typing import Any
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, as_completed, wait

from . import _core, _errors, _pickling
from ._errors import NodeFailed, RemoteError, RemoteTraceback, StartFailed
from ._executor import Executor
from ._future import Future

__all__ = ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "Executor", "Future", "NodeFailed", "RemoteError",
           "RemoteTraceback", "StartFailed", "as_completed", "get", "wait"]


def get(actor: Any) -> Any:
    """Returns a copy of the object of an actor, which the worker pickles."""
    from ._actors import get as get_actor

    return get_actor(actor)


def __getattr__(name: str) -> Any:
    if name == "joblib":
        import importlib

        return importlib.import_module("farcall.joblib")
    raise AttributeError(f"module 'farcall' has no attribute {name!r}")


__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads)
_core.set_errors(_errors.of_status, _errors.of_remote)
