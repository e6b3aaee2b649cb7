"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION

from . import _core, _errors, _pickling
from ._errors import NodeFailed, RemoteError, RemoteTraceback, StartFailed
from ._executor import Executor
from ._future import Future
from ._waiting import as_completed, wait

__all__ = ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "Executor", "Future", "NodeFailed", "RemoteError",
           "RemoteTraceback", "StartFailed", "as_completed", "wait"]
__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads)
_core.set_errors(_errors.of_status, _errors.of_remote)
