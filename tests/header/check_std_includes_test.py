#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests check_std_includes.py on small trees."""

import pathlib
import tempfile
import unittest

import check_std_includes


class CheckStdIncludes(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def problems_of(self, text, **others):
        """Returns the problems of farcall/a.cpp with this text, beside other files farcall/<name>.hpp."""
        (self.root / "farcall").mkdir(exist_ok=True)
        for name, content in {"a.cpp": text, **{f"{n}.hpp": t for n, t in others.items()}}.items():
            (self.root / "farcall" / name).write_text(content, encoding="utf-8")
        return list(check_std_includes.check(self.root))

    def test_missing_header_is_found(self):
        self.assertEqual(self.problems_of("std::vector<int> v;"), ["farcall/a.cpp: std::vector needs #include <vector>"])

    def test_missing_header_of_fmt_is_found(self):
        self.assertEqual(self.problems_of("auto s = fmt::format(x);"),
                         ["farcall/a.cpp: fmt:: needs #include <fmt/format.h>"])

    def test_own_include_suffices(self):
        self.assertEqual(self.problems_of("#include <vector>\nstd::vector<int> v;"), [])

    def test_include_by_a_file_of_the_project_suffices(self):
        self.assertEqual(self.problems_of('#include "b.hpp"\nstd::vector<int> v;', b="#include <vector>"), [])
        self.assertEqual(self.problems_of("#include <farcall/b.hpp>\nstd::vector<int> v;", b="#include <vector>"), [])

    def test_headers_of_c_suffice(self):
        self.assertEqual(self.problems_of("#include <stdint.h>\nstd::uint8_t b;"), [])

    def test_comments_and_strings_are_no_code(self):
        self.assertEqual(self.problems_of('// std::map\n/* std::set */ auto s = "std::list"; auto r = R"(std::any)";'), [])

    def test_unknown_name_is_an_error(self):
        self.assertEqual(len(self.problems_of("std::no_such_name x;")), 1)

    def test_name_of_another_namespace_is_ignored(self):
        self.assertEqual(self.problems_of("other::std::vector<int> v;"), [])


if __name__ == "__main__":
    unittest.main()
