#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that executors.py reads results, and that it finds each kind of problem."""

import unittest

import executors

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a.Wait" name="one"/>
<testcase classname="tests.a.Wait" name="two"><failure message="x"/></testcase>
<testcase classname="tests.a.Wait" name="three"><skipped/></testcase>
<testcase classname="tests.a.Wait" name="four"/>
<testcase classname="tests.a.Wait" name="four"><error message="in its end"/></testcase>
</testsuite></testsuites>"""


class Results(unittest.TestCase):
    def test_are_read(self):
        self.assertEqual(executors.read_results(RESULTS), {"Wait.one": "passed", "Wait.two": "failed",
                                                           "Wait.three": "skipped", "Wait.four": "failed"})

    def test_unlisted_failures_are_problems(self):
        self.assertEqual(list(executors.problems({"a": "failed", "b": "skipped", "c": "passed"}, {})), ["a: failed"])
        self.assertEqual(list(executors.problems({"a.b": "failed"}, {"a.*": "reason"})), [])

    def test_listed_tests_that_pass_are_problems(self):
        self.assertEqual(len(list(executors.problems({"a": "passed"}, {"a": "reason"}))), 1)
        self.assertEqual(list(executors.problems({"a": "passed"}, {"a": "sometimes: reason"})), [])
        self.assertEqual(list(executors.problems({"a": "skipped"}, {"a": "reason", "b": "reason"})), [])


class Expected(unittest.TestCase):
    def test_needs_a_reason(self):
        for text in ("loky a\n", "loky a #\n", "a # b\n"):
            with self.assertRaises(SystemExit):
                executors.read_expected(text, "loky")

    def test_file_can_be_read(self):
        text = executors.EXPECTED.read_text(encoding="utf-8")
        for suite in ("loky", "mpi4py"):
            self.assertTrue(executors.read_expected(text, suite))


if __name__ == "__main__":
    unittest.main()
