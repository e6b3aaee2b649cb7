#!/usr/bin/env python3
"""Runs CPython's own tests of concurrent.futures with farcall.Executor.

Exits with status 77 if this Python has no tests (Debian's package libpython3.11-testsuite).
"""

import sys
import unittest

import farcall

try:
    from test import test_concurrent_futures as cpython
    cpython.ExecutorTest  # since Python 3.12, these are several modules
except (ImportError, AttributeError) as missing:
    print(f"skipped: this Python has no tests of concurrent.futures in one module: {missing}")
    sys.exit(77)

# Tests that cannot pass, with the reasons.
DIFFERENCES = {
    "test_interpreter_shutdown": "imports the class by its name from concurrent.futures; see faults_test.py",
    "test_submit_after_interpreter_shutdown": "the same; see faults_test.py",
    "test_hang_gh83386": "the same; see faults_test.py",
    "test_max_workers_negative": "expects that 0 workers are an error; see executor_test.py",
}


class Mixin(cpython.ExecutorMixin):
    """Makes executors of farcall."""

    executor_type = farcall.Executor


def made(name, *bases):
    """Returns a class of tests. Tests that cannot pass are skipped."""
    members = {test: unittest.skip(reason)(lambda self: None) for test, reason in DIFFERENCES.items()
               if any(hasattr(base, test) for base in bases)}
    return type(name, (*bases, Mixin, cpython.BaseTestCase), members)


ShutdownTest = made("ShutdownTest", cpython.ExecutorShutdownTest)
WaitTest = made("WaitTest", cpython.WaitTests)
AsCompletedTest = made("AsCompletedTest", cpython.AsCompletedTests)
ExecutorTest = made("ExecutorTest", cpython.ExecutorTest)


class InitializerTest(cpython.InitializerMixin, Mixin, cpython.BaseTestCase):
    """Tests of initializers."""


if __name__ == "__main__":
    unittest.main(verbosity=2)
