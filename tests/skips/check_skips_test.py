#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that check_skips.py tells expected skips from unexpected ones."""

import io
import pathlib
import tempfile
import unittest

import check_skips
from check_skips import Skip

SKIPPED = '<testcase name="{}" status="notrun"><skipped message=""/></testcase>'
PASSED = '<testcase name="{}" status="run"/>'


def junit(*cases):
    return io.StringIO(f"<testsuite>{''.join(cases)}</testsuite>")


class CheckSkips(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "expected.txt"
            path.write_text(text, encoding="utf-8")
            return check_skips.read_expected(path)

    def test_no_skip(self):
        status, lines = check_skips.check(junit(PASSED.format("a")), [], {})
        self.assertEqual(status, 0)
        self.assertIn("0 of 1", lines[-1])

    def test_an_expected_skip_passes_and_shows_its_reason(self):
        results = junit(PASSED.format("a"), SKIPPED.format("cuda.put/0"))
        status, lines = check_skips.check(results, [Skip("cuda.*", "no device")], {})
        self.assertEqual(status, 0)
        self.assertIn("no device", lines[0])

    def test_a_surprising_skip_fails(self):
        results = junit(PASSED.format("a"), SKIPPED.format("b"), SKIPPED.format("cuda.put"))
        status, lines = check_skips.check(results, [Skip("cuda.*", "no device")], {})
        self.assertEqual(status, 1)
        self.assertIn("b: did not run", "\n".join(lines))
        self.assertIn("2 of 3 tests skipped, 1 of them expected", lines[-1])

    def test_a_skip_shows_why_its_thing_is_lacking(self):
        results = junit(PASSED.format("a"), SKIPPED.format("disk"))
        expected = [Skip("disk", "needs fio", "fio")]
        status, lines = check_skips.check(results, expected, {"fio": "no such package", "root": "x"})
        self.assertEqual(status, 0)
        self.assertEqual(lines[0], "skips: disk: needs fio (no such package)")

    def test_a_skip_without_a_thing_that_is_there_fails(self):
        results = junit(PASSED.format("a"), SKIPPED.format("disk"))
        expected = [Skip("disk", "needs fio", "fio")]
        status, lines = check_skips.check(results, expected, {"root": "not root"})
        self.assertEqual(status, 1)
        self.assertIn("disk: did not run, although this machine does not lack fio", lines[0])
        self.assertIn("1 of 2 tests skipped, 0 of them expected", lines[-1])

    def test_one_of_several_things_is_enough(self):
        results = junit(PASSED.format("a"), SKIPPED.format("disk"))
        expected = [Skip("disk", "needs fio", "fio"), Skip("d*", "needs root", "root")]
        status, lines = check_skips.check(results, expected, {"root": "not root"})
        self.assertEqual(status, 0)
        self.assertEqual(lines[0], "skips: disk: needs root (not root)")

    def test_nothing_ran(self):
        status, _ = check_skips.check(junit(SKIPPED.format("a")), [Skip("a", "why not")], {})
        self.assertEqual(status, 1)
        status, _ = check_skips.check(junit(), [], {})
        self.assertEqual(status, 1)

    def test_the_list_is_read(self):
        self.assertEqual(
            self.read("# comment\n\ncuda.*   # no device\ndisk/* without fio   # needs it\n"),
            [Skip("cuda.*", "no device"), Skip("disk/*", "needs it", "fio")])

    def test_the_list_needs_reasons(self):
        for line in ("cuda.*\n", "disk without fio\n"):
            with self.assertRaisesRegex(SystemExit, "no reason"):
                self.read(line)

    def test_the_list_has_no_other_words(self):
        for line in ("cuda.* with fio  # why\n", "a without b c  # why\n", "a without  # why\n"):
            with self.assertRaisesRegex(SystemExit, "neither"):
                self.read(line)


if __name__ == "__main__":
    unittest.main()
