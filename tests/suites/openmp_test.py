#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that openmp.py reads its file of expected failures, and that it finds each kind of problem."""

import unittest

import openmp


class Problems(unittest.TestCase):
    def problems(self, by_place, expected=None):
        return list(openmp.problems({"5.0/a/t.c": by_place}, expected or {}))

    def test_same_results(self):
        self.assertEqual(self.problems({"packaged": "passed", "shm": "passed", "tcp": "passed"}), [])

    def test_failures_of_the_packaged_plugin_say_nothing(self):
        for result in ("failed", "hung", "skipped", "not compiled"):
            self.assertEqual(self.problems({"packaged": result}), [])

    def test_failures_on_targets(self):
        for shm, tcp in (("failed", "passed"), ("passed", "hung"), ("skipped", "failed")):
            self.assertEqual(len(self.problems({"packaged": "passed", "shm": shm, "tcp": tcp})), 1)

    def test_listed_failures(self):
        failed = {"packaged": "passed", "shm": "failed", "tcp": "failed"}
        self.assertEqual(self.problems(failed, {"5.0/a/*": "reason"}), [])
        self.assertEqual(len(self.problems(failed, {"4.5/*": "reason"})), 1)

    def test_listed_programs_that_pass(self):
        passed = {"packaged": "passed", "shm": "passed", "tcp": "passed"}
        self.assertEqual(len(self.problems(passed, {"5.0/a/t.c": "reason"})), 1)
        self.assertEqual(self.problems(passed, {"5.0/a/t.c": "sometimes slow"}), [])


class Files(unittest.TestCase):
    def test_expected_file_can_be_read(self):
        openmp.read_expected(openmp.EXPECTED.read_text(encoding="utf-8"))
        self.assertEqual(openmp.read_expected("# a\n\nb   # c d\n"), {"b": "c d"})
        with self.assertRaises(SystemExit):
            openmp.read_expected("b\n")

    def test_variables_are_in_names(self):
        self.assertEqual(openmp.variables_of("5.0/p/test_omp_target_offload_env_DEFAULT.c"),
                         {"OMP_TARGET_OFFLOAD": "DEFAULT"})
        self.assertEqual(openmp.variables_of("5.0/p/test_target.c"), {})


if __name__ == "__main__":
    unittest.main()
