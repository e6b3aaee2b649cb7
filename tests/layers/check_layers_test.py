#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests check_layers.py: each test breaks one rule, which must be found."""

import pathlib
import tempfile
import unittest

import check_layers

TABLE = """\
| layer | folder | one sentence |
|---|---|---|
| 0 | `farcall/base/` | Words. |
| 1 | `farcall/memory/` | Rings. |
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.write("docs/architecture.md", TABLE)
        for layer in ("base", "memory"):
            self.write(f"farcall/{layer}/README.md", "Purpose.\n")
            self.write(f"farcall/{layer}/CMakeLists.txt",
                       "farcall_layer(HEADERS a.hpp SOURCES a.cpp\nTESTS a_test.cpp)")
        self.write("farcall/memory/a.hpp", "#include <farcall/base/a.hpp>\n#include <vector>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def problems(self):
        return check_layers.check(self.root)

    def expect_one_problem(self, *words):
        problems = self.problems()
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.problems(), [])

    def test_including_a_later_layer_is_found(self):
        self.write("farcall/base/a.hpp", "#pragma once\n#include <farcall/memory/a.hpp>\n")
        self.expect_one_problem("farcall/base/a.hpp:2", "farcall/memory/a.hpp")

    def test_a_relative_include_is_found_too(self):
        self.write("farcall/base/a.cpp", '#  include "../memory/a.hpp"\n')
        self.expect_one_problem("farcall/base/a.cpp:1", "farcall/memory/a.hpp")

    def test_the_umbrella_header_is_closed_to_layers(self):
        self.write("farcall/memory/a.cpp", "#include <farcall/farcall.hpp>\n")
        self.expect_one_problem("farcall/memory/a.cpp:1", "farcall/farcall.hpp")

    def test_the_c_header_is_open_to_its_layer_only(self):
        self.write("docs/architecture.md", TABLE + "| 2 | `farcall/c/` | C. |\n")
        self.write("farcall/c/README.md", "Purpose.\n")
        self.write("farcall/c/CMakeLists.txt", "farcall_layer(SOURCES a.cpp)")
        self.write("farcall/c/a.cpp", "#include <farcall/farcall.h>\n")
        self.assertEqual(self.problems(), [])
        self.write("farcall/memory/a.cpp", "#include <farcall/farcall.h>\n")
        self.expect_one_problem("farcall/memory/a.cpp:1", "farcall/farcall.h")

    def test_the_umbrella_header_may_include_every_layer(self):
        self.write("farcall/farcall.hpp", "#include <farcall/memory/a.hpp>\n")
        self.assertEqual(self.problems(), [])

    def test_only_tests_may_include_test_support(self):
        self.write("farcall/base/a_test.cpp", "#include <tests/support/a.hpp>\n")
        self.assertEqual(self.problems(), [])
        self.write("farcall/base/a.cpp", "#include <tests/support/a.hpp>\n")
        self.expect_one_problem("farcall/base/a.cpp:1", "tests/support/a.hpp")

    def test_a_test_may_not_include_a_later_layer(self):
        self.write("farcall/base/a_test.cpp", "#include <farcall/memory/a.hpp>\n")
        self.expect_one_problem("farcall/base/a_test.cpp:1")

    def test_tools_may_include_everything(self):
        self.write("tools/a.cpp", "#include <farcall/memory/a.hpp>\n")
        self.assertEqual(self.problems(), [])

    def test_a_folder_outside_the_table_is_found(self):
        self.write("farcall/extra/a.hpp", "")
        self.expect_one_problem("farcall/extra/", "not in the layer table")

    def test_a_missing_or_long_readme_is_found(self):
        (self.root / "farcall/base/README.md").unlink()
        self.expect_one_problem("farcall/base/README.md", "missing")
        self.write("farcall/base/README.md", "line\n" * 13)
        self.expect_one_problem("farcall/base/README.md", "13 lines")

    def test_a_long_file_is_found(self):
        self.write("tools/a.cpp", "\n" * 700)
        self.assertEqual(self.problems(), [])
        self.write("tools/a.cpp", "\n" * 701)
        self.expect_one_problem("tools/a.cpp", "701 lines")

    def test_a_file_that_is_not_built_is_found(self):
        self.write("farcall/base/forgotten_test.cpp", "")
        self.expect_one_problem("farcall/base/forgotten_test.cpp", "not named")

    def test_headers_of_tests_need_no_line_in_the_build(self):
        self.write("farcall/base/a_test_support.hpp", "#include <tests/support/a.hpp>\n")
        self.assertEqual(self.problems(), [])

    def test_a_word_of_devices_in_the_core_is_found(self):
        self.write("farcall/memory/a.hpp", "#pragma once\n// As on a GPU.\n")
        self.expect_one_problem("farcall/memory/a.hpp:2", "GPU", "farcall/gpu/")

    def test_setting_that_no_code_reads_is_found(self):
        self.write("farcall/base/settings_table.hpp", '{.name = "read"}, {.name = "unread"}\n')
        self.write("farcall/base/CMakeLists.txt", "farcall_layer(HEADERS settings_table.hpp SOURCES a.cpp)")
        self.write("farcall/base/a.cpp", 'row("read");\n')
        self.expect_one_problem("settings_table.hpp", '"unread"')

    def test_scheme_outside_of_transports_is_found(self):
        self.write("farcall/base/a.cpp", 'if (scheme == "tcp") {}  // "shm" in a comment\n')
        self.expect_one_problem("farcall/base/a.cpp:1", '"tcp"')

    def test_a_missing_table_is_an_error(self):
        self.write("docs/architecture.md", "No table here.\n")
        with self.assertRaisesRegex(SystemExit, "no layer table"):
            self.problems()
        (self.root / "docs/architecture.md").unlink()
        with self.assertRaisesRegex(SystemExit, "missing"):
            self.problems()


if __name__ == "__main__":
    unittest.main()
