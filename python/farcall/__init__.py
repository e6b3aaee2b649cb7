"""Calls Python functions in other processes: import farcall; farcall.Executor(4)."""

from __future__ import annotations

import pickle

from . import _core, _errors, _pickling

__version__: str = _core.version

_core.set_pickling(_pickling.dumps, pickle.loads, _pickling.loads)
_core.set_errors(_errors.of_status, _errors.of_remote)
