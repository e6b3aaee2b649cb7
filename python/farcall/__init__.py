"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle
from concurrent.futures import (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, CancelledError, as_completed,
                                wait)

from . import _core, _errors, _pickling
from ._errors import NodeFailed, RemoteError, RemoteTraceback, StartFailed, Stopped, Timeout
from ._executor import Executor
from ._future import Future

__all__ = ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "CancelledError", "Executor", "Future", "NodeFailed",
           "RemoteError", "RemoteTraceback", "StartFailed", "Stopped", "Timeout", "as_completed", "wait"]
__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads)
_core.set_errors(_errors.of_status, _errors.of_remote)
