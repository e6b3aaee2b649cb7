# SPDX-License-Identifier: Apache-2.0
"""Plug-in of pytest that gives the tests of another project farcall's executor in place of their own.

The variable EXECUTOR_SUITE names the project. Attributes that the tests read, and that are no part of the interface of
an executor, are added here if they say nothing about calls.
"""

import multiprocessing.context
import os
import signal
import sys
import types

import pytest

import farcall

SUITE = os.environ["EXECUTOR_SUITE"]
# Ends a test that hangs.
SECONDS = 60


class Executor(farcall.Executor):
    """Accepts arguments that only the executors of other projects have."""

    def __init__(self, max_workers=None, *, context=None, timeout=None, job_reducers=None, result_reducers=None,
                 **options):
        del context, timeout, job_reducers, result_reducers
        super().__init__(2 if max_workers is None else max_workers, **options)
        self._flags = types.SimpleNamespace(broken=None)
        self._has_ended = False

    @property
    def num_workers(self):
        """Number of workers, as mpi4py names it."""
        return 0 if self._has_ended else self._max_workers

    def bootup(self, wait=True):
        """Does nothing, because the workers have been started."""
        del wait
        if self._has_ended:
            raise RuntimeError("cannot boot up after shutdown")
        return self

    def shutdown(self, wait=True, *, kill_workers=False, cancel_futures=False):
        """Ends the executor. With `kill_workers`, does not wait for calls that run."""
        self._has_ended = True
        if kill_workers:
            self._pool.shut()
            self._pool.cancel_pending()
            self._pool.kill()
        super().shutdown(wait, cancel_futures=cancel_futures)


def replace_in_loky():
    """Loky's tests use a class of a module, and send events to the workers."""
    # Events can be sent at any time, because they have names in the system.
    multiprocessing.context.assert_spawning = lambda obj: None
    from loky import process_executor

    process_executor.ProcessPoolExecutor = Executor
    process_executor.TerminatedWorkerError = farcall.NodeFailed
    process_executor.BrokenProcessPool = farcall.NodeFailed
    sys.path.insert(0, os.getcwd())
    from tests import _executor_mixin

    _executor_mixin._check_subprocesses_number = lambda *arguments, **options: None


def replace_in_mpi4py():
    """The tests of mpi4py.futures use a class of the package."""
    from mpi4py import futures

    futures.MPIPoolExecutor = Executor


def replace_in_joblib():
    """The tests of joblib use processes by the name of a backend."""
    import farcall.joblib
    from joblib import parallel

    farcall.joblib.register()
    parallel.BACKENDS["loky"] = parallel.BACKENDS["farcall"]


{"loky": replace_in_loky, "mpi4py": replace_in_mpi4py, "joblib": replace_in_joblib}[SUITE]()


def fail(*_):
    """Ends the test that the alarm is for."""
    raise TimeoutError(f"the test has not ended after {SECONDS} seconds")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Runs a test with an alarm."""
    del item
    signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
