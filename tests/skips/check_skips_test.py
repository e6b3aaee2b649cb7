#!/usr/bin/env python3
"""Shows that check_skips.py tells an expected skip from a surprising one."""

import io
import pathlib
import tempfile
import unittest

import check_skips

SKIPPED = '<testcase name="{}" status="notrun"><skipped message=""/></testcase>'
PASSED = '<testcase name="{}" status="run"/>'


def junit(*cases):
    return io.StringIO(f"<testsuite>{''.join(cases)}</testsuite>")


class CheckSkips(unittest.TestCase):
    def test_no_skip(self):
        status, lines = check_skips.check(junit(PASSED.format("a")), {})
        self.assertEqual(status, 0)
        self.assertIn("0 of 1", lines[-1])

    def test_an_expected_skip_passes_and_shows_its_reason(self):
        results = junit(PASSED.format("a"), SKIPPED.format("cuda.put/0"))
        status, lines = check_skips.check(results, {"cuda.*": "no device"})
        self.assertEqual(status, 0)
        self.assertIn("no device", lines[0])

    def test_a_surprising_skip_fails(self):
        results = junit(PASSED.format("a"), SKIPPED.format("b"), SKIPPED.format("cuda.put"))
        status, lines = check_skips.check(results, {"cuda.*": "no device"})
        self.assertEqual(status, 1)
        self.assertIn("b: did not run", "\n".join(lines))
        self.assertIn("2 of 3 tests skipped, 1 of them expected", lines[-1])

    def test_nothing_ran(self):
        status, _ = check_skips.check(junit(SKIPPED.format("a")), {"a": "why not"})
        self.assertEqual(status, 1)
        status, _ = check_skips.check(junit(), {})
        self.assertEqual(status, 1)

    def test_the_list_needs_reasons(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "expected.txt"
            path.write_text("# comment\n\ncuda.*   # no device\n", encoding="utf-8")
            self.assertEqual(check_skips.read_expected(path), {"cuda.*": "no device"})
            path.write_text("cuda.*\n", encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "no reason"):
                check_skips.read_expected(path)


if __name__ == "__main__":
    unittest.main()
