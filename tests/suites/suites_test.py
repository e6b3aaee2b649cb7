#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that suites.py reads results, and that it finds each kind of problem."""

import unittest

import suites


class Readers(unittest.TestCase):
    def test_tap(self):
        text = "ok 1 - a\nnot ok 2 - b\nok 3 # skip c (missing X)\nnot ok 4 - d # TODO known breakage\nok 5\n1..5\n"
        self.assertEqual(suites.read_tap("t", text, 1, None),
                         {"t.1": "passed", "t.2": "failed", "t.3": "skipped", "t.4": "skipped", "t.5": "passed"})

    def test_tap_of_a_program_that_ends_early(self):
        for text in ("1..3\nok 1\nok 2\n", "ok 1\nok 2\n"):
            self.assertEqual(suites.read_tap("t", text, 1, None)["t.end"], "failed")
        self.assertEqual(suites.read_tap("t", "1..0 # SKIP no root\n", 0, None), {"t.end": "skipped"})

    def test_sqlite(self):
        text = "a-1... Ok\na-2...\n! a-2 expected: [1]\n! a-2 got:      [2]\na-3...\nError: locked\na-4... Ok\n"
        read = suites.read_sqlite("a", text, 1, None)
        self.assertEqual(read, {"a:a-1": "passed", "a:a-2": "failed", "a:a-3": "failed", "a:a-4": "passed",
                                "a:end": "failed"})
        text = "a-1... Ok\n0 errors out of 2 tests on x Linux\n"
        self.assertEqual(suites.read_sqlite("a", text, 0, None), {"a:a-1": "passed", "a:end": "passed"})


    def test_xfstests(self):
        text = ("generic/001 4s ...  3s\ngeneric/002       [not run] no x\ngeneric/003 1s ... - output mismatch (see y)\n"
                "    --- a\ngeneric/004  [failed, exit status 1]- output mismatch\nRan: generic/001\nFailed 2 of 4 tests\n")
        self.assertEqual(suites.read_xfstests("x", text, 1, None),
                         {"generic/001": "passed", "generic/002": "skipped", "generic/003": "failed",
                          "generic/004": "failed", "x.end": "passed"})
        self.assertEqual(suites.read_xfstests("x", "", 1, None), {"x.end": "failed"})

    def test_errors(self):
        read = suites.read_errors("e", 'open("none",O_RDONLY) ENOENT\nread(fd) ok\n', 0, None)
        self.assertEqual(read, {'open("none",O_RDONLY)': "ENOENT", "read(fd)": "ok", "e.end": "passed"})
        self.assertEqual(suites.read_errors("e", "", 1, None), {"e.end": "failed"})
        self.assertEqual(suites.count(read, "passed"), 3)


class Comparison(unittest.TestCase):
    def problems(self, here, there, expected=()):
        return list(suites.problems(here, there, dict.fromkeys(expected, "reason")))

    def test_equal_results(self):
        self.assertEqual(self.problems({"a": "passed", "b": "failed"}, {"a": "passed", "b": "failed"}), [])

    def test_unlisted_differences(self):
        for there in ({"a": "failed"}, {"a": "skipped"}, {}):
            self.assertEqual(len(self.problems({"a": "passed"}, there)), 1)
        self.assertEqual(len(self.problems({}, {"a": "failed"})), 1)

    def test_listed_differences(self):
        self.assertEqual(self.problems({"a.b": "passed"}, {"a.b": "failed"}, ["a.b"]), [])
        self.assertEqual(self.problems({"a.b": "passed"}, {"a.b": "failed"}, ["a.*"]), [])

    def test_listed_tests_that_pass(self):
        self.assertEqual(len(self.problems({"a": "passed"}, {"a": "passed"}, ["a"])), 1)

    def test_differing_errors(self):
        self.assertEqual(len(self.problems({"a": "ENOENT"}, {"a": "EACCES"})), 1)
        self.assertEqual(self.problems({"a": "ENOENT"}, {"a": "EACCES"}, ["a"]), [])
        self.assertEqual(len(self.problems({"a": "ENOENT"}, {"a": "ENOENT"}, ["a"])), 1)

    def test_listed_tests_that_did_not_run(self):
        self.assertEqual(self.problems({"a": "passed"}, {"a": "passed"}, ["b"]), [])
        self.assertEqual(self.problems({"a": "skipped"}, {"a": "skipped"}, ["a"]), [])

    def test_tests_that_fail_in_the_local_folder(self):
        self.assertEqual(self.problems({"a": "failed"}, {"a": "passed"}), [])


class Expected(unittest.TestCase):
    def test_is_of_a_suite_and_a_way(self):
        text = "# comment\n\ngit preload a  # b\ngit preload,mount c # d\nfio preload e # f\ngit mount g # h\n"
        self.assertEqual(suites.read_expected(text, "git", "preload"), {"a": "b", "c": "d"})

    def test_needs_a_reason(self):
        for text in ("git preload a\n", "git preload a #\n", "git a # b\n"):
            with self.assertRaises(suites.unusable):
                suites.read_expected(text, "git", "preload")

    def test_file_can_be_read(self):
        text = suites.EXPECTED.read_text(encoding="utf-8")
        for suite in suites.SUITES:
            for way in suites.WAYS:
                suites.read_expected(text, suite, way)


if __name__ == "__main__":
    unittest.main()
