# SPDX-License-Identifier: Apache-2.0
"""Runs modules of CPython's own tests in the working folder, and writes a line for each test.

Run as: cpython_tests.py FOLDER RESULTS MODULE…. FOLDER has the modules; a package counts as all of its
modules. A line of RESULTS is `RESULT TEST`; RESULT is passed, failed or skipped. suites.py runs this
program on a target and on the host.
"""

import importlib
import pkgutil
import sys
import unittest

import test
from test import support

# Classes whose tests use pipes and timers only, and take half a minute.
WITHOUT_FILES = ("SignalsTest",)


class recorded_result(unittest.TextTestResult):
    """Records the result of each test. A test fails if a part of it fails."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.result_of = {}

    def startTest(self, test):
        super().startTest(test)
        self.result_of.setdefault(test.id(), "passed")

    def addError(self, test, err):
        super().addError(test, err)
        self.result_of[test.id()] = "failed"

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.result_of[test.id()] = "failed"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        # A skipped part of a test has the test as `test_case`.
        if not hasattr(test, "test_case"):
            self.result_of[test.id()] = "skipped"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.result_of[test.id()] = "failed"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.result_of[test.id()] = "failed"


def modules_of(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        return [module]
    return [importlib.import_module(f"{name}.{inner.name}")
            for inner in pkgutil.iter_modules(module.__path__) if inner.name.startswith("test_")]


def tests_of(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from tests_of(part)
        elif not type(part).__name__.endswith(WITHOUT_FILES):
            yield part


def main():
    folder, results, *names = sys.argv[1:]
    test.__path__.append(folder)
    # Other resources are gigabytes on the disk, minutes of a processor, or other machines.
    support.use_resources = []
    suite = unittest.TestSuite()
    for name in names:
        for module in modules_of(f"test.{name}"):
            suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    tests = unittest.TestSuite(tests_of(suite))
    outcome = unittest.TextTestRunner(verbosity=2, resultclass=recorded_result).run(tests)
    with open(results, "w", encoding="utf-8") as file:
        for name, result in sorted(outcome.result_of.items()):
            file.write(f"{result} {name}\n")


if __name__ == "__main__":
    main()
