#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that slowest.py reads the logs of ninja and ctest, and puts the slowest first."""

import io
import pathlib
import tempfile
import unittest

import slowest

LOG = """# ninja log v5
0\t1500\t1\tlib.a\taa
10\t20010\t1\tCMakeFiles/farcall.dir/farcall/base/clock.cpp.o\tbb
5\t4005\t1\tlib.a\tcc
0\t700\t1\tone.txt\tdd
0\t700\t1\ttwo.txt\tdd
a line that was cut sh
"""


class Slowest(unittest.TestCase):
    def test_the_last_build_of_a_file_counts(self):
        self.assertEqual(slowest.steps_of(LOG)["lib.a"], 4.0)

    def test_a_step_with_two_outputs_counts_once(self):
        steps = slowest.steps_of(LOG)
        self.assertIn("one.txt", steps)
        self.assertNotIn("two.txt", steps)

    def test_names_of_objects_are_readable(self):
        self.assertEqual(slowest.readable("CMakeFiles/farcall.dir/farcall/base/clock.cpp.o"),
                         "farcall: farcall/base/clock.cpp")
        self.assertEqual(slowest.readable("tests/CMakeFiles/unit_tests.dir/__/base/a_test.cpp.o"),
                         "tests/unit_tests: base/a_test.cpp")
        self.assertEqual(slowest.readable("bin/farcall"), "bin/farcall")

    def test_missing_outputs_are_left_out(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            own = f"0\t2000\t1\t{folder}/own.o\tee\n"
            (folder / ".ninja_log").write_text(LOG + own, encoding="utf-8")
            (folder / "lib.a").touch()
            (folder / "own.o").touch()
            self.assertEqual(slowest.built(folder), [(4.0, f"{folder.name}  lib.a"),
                                                     (2.0, f"{folder.name}  own.o")])
            self.assertEqual(slowest.built(folder / "absent"), [])

    def test_tests_with_their_times(self):
        junit = io.StringIO('<testsuite><testcase name="a" time="0.5" status="run"/>'
                            '<testcase name="b" time="12" status="run"/>'
                            '<testcase name="c" status="notrun"/></testsuite>')
        self.assertEqual(slowest.ran(junit), [(0.5, "a"), (12.0, "b"), (0.0, "c")])
        self.assertEqual(slowest.ran(pathlib.Path("absent")), [])

    def test_the_table_has_the_twenty_slowest_in_order(self):
        lines = slowest.table("tests", [(float(n), f"t{n}") for n in range(30)])
        self.assertEqual(lines[0], "slowest tests, of 30 that took 435 s one after another:")
        self.assertEqual(lines[1].split(), ["29.0", "s", "t29"])
        self.assertEqual(len(lines), 21)
        self.assertEqual(slowest.table("tests", []), [])


if __name__ == "__main__":
    unittest.main()
