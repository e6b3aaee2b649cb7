# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, and pools that exist at that time."""

from __future__ import annotations

import os
import sys
import threading
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

pools: weakref.WeakSet[Any] = weakref.WeakSet()
_has_begun = False


def is_ending() -> bool:
    """True if the interpreter has begun to end, so that threads cannot be started."""
    return _has_begun


def refuse(*_: Any) -> Any:
    """Raises the error of a call after the end of its executor."""
    raise RuntimeError("cannot schedule new futures after " + ("interpreter " if _has_begun else "") + "shutdown")


def refuse_to_make(kind: str) -> None:
    """Raises RuntimeError at the end of the interpreter. `kind` is the thing to make, with its article."""
    if _has_begun:
        raise RuntimeError(f"{kind} cannot be made at the end of the program, for instance in a function of atexit; "
                           "make it before")


def _finish_all() -> None:
    """Lets all pools finish their calls, before the interpreter ends. After Ctrl-C, ends the calls instead."""
    global _has_begun  # pylint: disable=global-statement
    _has_begun = True
    is_interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    for pool in list(pools):
        pool.forget_maps()
        pool.shut()
        if is_interrupted:
            pool.abandon()
    for pool in list(pools):
        pool.wait()


def _forget_all() -> None:
    """Leaves the pools to the parent. Runs in each forked child."""
    for pool in list(pools):
        pool.leave_to_parent()
    pools.clear()


# The function runs before the interpreter waits for non-daemon threads, as in executors of the standard library.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined] # pylint: disable=protected-access
os.register_at_fork(after_in_child=_forget_all)
