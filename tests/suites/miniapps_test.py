#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that miniapps.py tells right results from wrong ones."""

import sys
import unittest

import miniapps
import openmp_devices


class Results(unittest.TestCase):
    def result(self, kind, output, status=0):
        return miniapps.result_of(status, output, miniapps.PROGRAMS[kind][2])

    def test_right_results(self):
        self.assertEqual(self.result("stencil", "a\nSolution validates\nRate: 1\n"), "passed")
        self.assertEqual(self.result("transport", "Verification checksum: 945990 (Valid)\n"), "passed")
        self.assertEqual(self.result("solver", "checks\nPASS\n"), "passed")

    def test_wrong_results(self):
        self.assertEqual(self.result("stencil", "ERROR: L1 norm = 1 Reference L1 norm = 2\n"), "failed")
        self.assertEqual(self.result("transport", "Verification checksum: 945990 (WARNING)\n"), "failed")
        self.assertEqual(self.result("solver", "FAIL\n"), "failed")

    def test_ends(self):
        self.assertEqual(self.result("solver", "PASS\n", status=1), "failed")
        self.assertEqual(self.result("solver", "PASS\n", status=None), "hung")


class Problems(unittest.TestCase):
    def test_failures_on_targets(self):
        self.assertEqual(list(miniapps.problems({"a": {"packaged": "passed", "shm": "passed"}})), [])
        self.assertEqual(list(miniapps.problems({"a": {"packaged": "passed", "shm": "failed", "tcp": "hung"}})),
                         ["a: failed on shm", "a: hung on tcp"])

    def test_failures_of_the_packaged_plugin_say_nothing(self):
        passed = {"packaged": "passed", "shm": "passed"}
        self.assertEqual(list(miniapps.problems({"a": passed, "b": {"packaged": "failed", "shm": "failed"}})), [])

    def test_programs_that_all_fail(self):
        self.assertEqual(len(list(miniapps.problems({"a": {"packaged": "failed", "shm": "passed"}}))), 1)


class Runs(unittest.TestCase):
    def test_programs_that_end_and_hang(self):
        end = [sys.executable, "-c", "print('text'); raise SystemExit(3)"]
        self.assertEqual(openmp_devices.ended(end, {}, 60), (3, "text\n"))
        hang = [sys.executable, "-c", "import signal; print('text', flush=True); signal.pause()"]
        self.assertEqual(openmp_devices.ended(hang, {}, 0.5)[0], None)


if __name__ == "__main__":
    unittest.main()
