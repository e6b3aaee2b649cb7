#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CPython's own tests of concurrent.futures with farcall.Executor and farcall.Future.

Exits with status 77 if this Python has no tests (Debian's package libpython3.11-testsuite).
"""

import concurrent.futures
import multiprocessing
import os
import sys
import tempfile
import unittest

import farcall

import tasks

try:
    from test import test_concurrent_futures as cpython
    cpython.ExecutorTest  # since Python 3.12, these are several modules
except (ImportError, AttributeError) as missing:
    print(f"skipped: this Python has no tests of concurrent.futures in one module: {missing}")
    sys.exit(77)

BY_NAME = "takes the class by its name from concurrent.futures; see faults_test.py"
INSIDE = "reads attributes of ProcessPoolExecutor that are no part of its interface"
SEMAPHORE = "sends a semaphore, which only children of multiprocessing can get"
UNPICKLING = "expects that an object whose unpickling fails breaks the executor; farcall fails the call alone"
# Tests that cannot pass, with the reasons.
DIFFERENCES = {
    "test_interpreter_shutdown": BY_NAME,
    "test_submit_after_interpreter_shutdown": BY_NAME,
    "test_hang_gh83386": BY_NAME,
    "test_context_manager_shutdown": BY_NAME,
    "test_del_shutdown": BY_NAME,
    "test_shutdown_no_wait": BY_NAME,
    "test_max_workers_negative": "expects that 0 workers are an error; see executor_test.py",
    "test_killed_child": INSIDE + ", and expects that a dead worker breaks the executor; see faults_test.py",
    "test_idle_process_reuse_one": INSIDE,
    "test_idle_process_reuse_multiple": INSIDE,
    "test_max_tasks_per_child": INSIDE + "; see executor_test.py",
    "test_max_tasks_per_child_defaults_to_spawn_context": INSIDE,
    "test_shutdown_deadlock_pickle": INSIDE,
    "test_traceback": "expects a class of the standard library for the remote traceback; see executor_test.py",
    "test_saturation": SEMAPHORE,
    "test_processes_terminate": SEMAPHORE,
    "test_error_at_task_unpickle": UNPICKLING,
    "test_exit_at_task_unpickle": UNPICKLING,
    "test_error_during_result_unpickle_in_result_handler": UNPICKLING,
    "test_exit_during_result_unpickle_in_result_handler": UNPICKLING,
}


class Executor(farcall.Executor):
    """Has the argument that is only for ProcessPoolExecutor."""

    def __init__(self, *arguments, mp_context=None, **options):
        del mp_context
        super().__init__(*arguments, **options)


class Mixin(cpython.ExecutorMixin):
    """Makes executors of farcall."""

    executor_type = Executor

    def get_context(self):
        """Returns a context for tests that want one, which the executor does not use."""
        return multiprocessing.get_context("spawn")


def made(name, *bases):
    """Returns a class of tests. Tests that cannot pass are skipped."""
    members = {test: unittest.skip(reason)(lambda self: None) for test, reason in DIFFERENCES.items()
               if any(hasattr(base, test) for base in bases)}
    return type(name, (*bases, Mixin, cpython.BaseTestCase), members)


ShutdownTest = made("ShutdownTest", cpython.ProcessPoolShutdownTest)
class WaitTest(made("WaitTest", cpython.WaitTests)):
    """Tests of wait()."""

    def test_first_exception(self):
        """Does the same as CPython's test, whose calls sleep for 1.5 and 3 s: a busy machine may wake the caller late."""
        with tempfile.TemporaryDirectory() as folder:
            gate = os.path.join(folder, "gate")
            calls = [self.executor.submit(function, *arguments)
                     for function, arguments in ((pow, (2, 21)), (divmod, (21, 0)), (tasks.pid_after, (gate,)))]
            finished, pending = concurrent.futures.wait(calls, return_when=concurrent.futures.FIRST_EXCEPTION)
            with open(gate, "w", encoding="ascii"):
                pass
            calls[2].result()
        self.assertIn(calls[1], finished)
        self.assertEqual(pending, set(calls) - finished)
        self.assertIn(calls[2], pending)


AsCompletedTest = made("AsCompletedTest", cpython.AsCompletedTests)
ExecutorTest = made("ExecutorTest", cpython.ProcessPoolExecutorTest)
DeadlockTest = made("DeadlockTest", cpython.ExecutorDeadlockTest)
FutureTest = made("FutureTest", cpython.FutureTests)


class InitializerTest(cpython.InitializerMixin, Mixin, cpython.BaseTestCase):
    """Tests of initializers."""


def replace_names():
    """Lets the tests use futures of farcall, and the class of errors that all executors have in common."""
    cpython.BrokenProcessPool = concurrent.futures.BrokenExecutor
    cpython.Future = farcall.Future
    for name in dir(cpython):
        if name.endswith("_FUTURE"):
            old = getattr(cpython, name)
            setattr(cpython, name, cpython.create_future(old._state, old._exception, old._result))


if __name__ == "__main__":
    replace_names()
    unittest.main(verbosity=2)
