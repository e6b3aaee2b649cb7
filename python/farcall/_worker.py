# SPDX-License-Identifier: Apache-2.0
"""Life of a worker: a forked process that runs tasks until the job of its host ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading

from . import _core, _errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

job: Any = None
_parked: list[threading.Lock] = []
_thread = threading.local()


def main(socket: int) -> bool:
    """Serves calls of the host at the other end of the socket, or of the host that has started this target if it is -1.

    Returns False if no host has started it.
    """
    global job  # pylint: disable=global-statement
    job = _core.serve_open(socket, _errors.describe)
    if job is None:
        return False
    job.set_hooks(_begin_call, _end_call)
    sys.unraisablehook = _core.on_unraisable
    signal.signal(_core.set_stop(_errors.Stopped), _core.on_stop)
    _thread.serves = True
    _core.serve()
    atexit._run_exitfuncs()  # pylint: disable=protected-access
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # the host may have closed its descriptors
            stream.flush()
    return True


def serves() -> bool:
    """True if the calling thread runs tasks."""
    return getattr(_thread, "serves", False)


def begin_wait() -> None:
    """Says that the calling thread runs a task that is about to wait for other calls.

    If no other thread takes calls, a helper thread begins to, so that the calls that the task waits for can run.
    """
    if _core.begin_wait():
        _start_helper()


def _start_helper() -> None:
    try:
        parked = _parked.pop()
    except IndexError:
        threading.Thread(target=_help, name="farcall-helper", daemon=True).start()
    else:
        parked.release()


def end_wait() -> None:
    """Says that the task of begin_wait() goes on."""
    _core.end_wait()


def begin_calls(is_of_task: bool) -> None:
    """Says that the calling thread waits for calls, or may wait for them. True is for a thread that runs a task."""
    if is_of_task:
        begin_wait()
    elif _core.begin_calls():
        _start_helper()


def end_calls(is_of_task: bool) -> None:
    """Says that the calls of begin_calls() have ended."""
    if is_of_task:
        end_wait()
    else:
        _core.end_calls()


def _begin_call() -> None:
    begin_calls(serves())


def _end_call() -> None:
    end_calls(serves())


def _help() -> None:
    turn = threading.Lock()
    turn.acquire()
    _thread.serves = True
    while not _core.serve(True):
        _parked.append(turn)
        turn.acquire()


def join_multiprocessing(key: bytes) -> None:
    """Lets tasks use objects of managers of multiprocessing, for which the host has the key."""
    from multiprocessing import process

    process.current_process().authkey = key


def reseed() -> None:
    """Gives NumPy's global generator a new seed after a fork, as Python does for the module random."""
    module: Any = sys.modules.get("numpy.random")
    if module is not None:
        module.seed()


def limit_threads(count: int) -> None:
    """Limits the threads of numerical libraries that are loaded from now on."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                 "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"):
        os.environ.setdefault(name, str(count))
