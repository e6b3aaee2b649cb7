#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that check_exports.py finds each kind of fault."""

import unittest

from check_exports import check, check_names, read_table

FUNCTIONS = {"open": [("__file", "const char *"), ("__oflag", "int")], "read": [("__fd", "int"), ("__buf", "void *")],
             "fputs": [("__s", "const char *"), ("__stream", "FILE *")], "abs": [("__x", "int")]}
GUIDE = "| `ENOLCK` | `lockf` |"


def problems(rows, ours=(), tests=""):
    return list(check(rows, set(ours), FUNCTIONS, GUIDE, tests))


class Faults(unittest.TestCase):
    def test_rows_without_a_verdict_and_twice(self):
        _, _, found = read_table("a\nb safe\nb safe\n")
        self.assertEqual(len(found), 2)

    def test_missing_and_stale_rows(self):
        self.assertEqual(len(list(check_names({"old": ("safe", "")}, {"new"}))), 2)

    def test_interposed_functions_that_the_library_lacks(self):
        self.assertEqual(len(problems({"open": ("interposed", "")})), 1)
        self.assertEqual(problems({"open": ("interposed", "")}, ["open"]), [])

    def test_refused_functions_without_a_documented_error(self):
        self.assertEqual(len(problems({"lockf": ("refused", "")}, ["lockf"])), 1)
        self.assertEqual(len(problems({"lockf": ("refused", "EPERM")}, ["lockf"])), 1)
        self.assertEqual(problems({"lockf": ("refused", "ENOLCK"), "lockf64": ("refused", "ENOLCK")},
                                  ["lockf", "lockf64"]), [])

    def test_safe_functions_of_files_that_no_test_calls(self):
        for name in ("open", "read", "fputs", "__read_chk", "__open"):
            self.assertEqual(len(problems({name: ("safe", "")})), 1, name)
            self.assertEqual(problems({name: ("safe", "")}, tests="::open(x); read (y); fputs(z)"), [], name)
        self.assertEqual(problems({"abs": ("safe", "")}), [])

    def test_old_names_of_functions_that_are_not_safe(self):
        rows = {"fputs": ("interposed", ""), "_IO_fputs": ("safe", "")}
        self.assertEqual(len(problems(rows, ["fputs"])), 1)
        rows["_IO_fputs"] = ("interposed", "")
        self.assertEqual(problems(rows, ["fputs", "_IO_fputs"]), [])
        self.assertEqual(problems({"abs": ("safe", ""), "_IO_abs": ("safe", "")}), [])

    def test_safe_functions_that_the_library_has(self):
        self.assertEqual(len(problems({"abs": ("safe", "")}, ["abs"])), 1)


if __name__ == "__main__":
    unittest.main()
