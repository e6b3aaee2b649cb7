#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests blind_test.py with a small project in place of another one."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import blind_test

PROGRAM = pathlib.Path(blind_test.__file__)


SEED = ("--seed", "0123abcd")


def run(*arguments):
    return subprocess.run([sys.executable, "-B", PROGRAM, *map(str, arguments)], capture_output=True, text=True)


class BlindTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.sheet = self.folder / "sheet"
        self.key = self.folder / "key"
        self.other = self.folder / "other"
        self.other.mkdir()

    def write_sources(self, count):
        lines = (f"/// Returns the size of the buffer with number {i}.\nint size_{i}();\n" for i in range(count))
        (self.other / "sizes.hpp").write_text("\n".join(lines))

    def test_identifiers_are_letters(self):
        self.assertEqual(blind_test.without_names("Calls send_all() of fc::lane, then send_all again."),
                         "Calls P of Q, then P again.")

    def test_units_and_known_products_stay(self):
        text = "Reads 64 MiB at 2 GHz, by OpenSSL under AddressSanitizer."
        self.assertEqual(blind_test.without_names(text), text)

    def test_names_of_projects_are_replaced(self):
        self.assertEqual(blind_test.without_names("What UCX and farcall share."),
                         "What the library and the library share.")

    def test_sheet_hides_the_projects(self):
        self.write_sources(blind_test.COMMENTS)
        drawn = run("draw", self.sheet, self.key, self.other, *SEED)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        sources = list(blind_test.read_key(self.key).values())
        self.assertEqual(sources.count("other comment"), blind_test.COMMENTS)
        self.assertEqual(sources.count("ours comment"), blind_test.COMMENTS)
        self.assertEqual(sources.count("ours paragraph"), blind_test.PARAGRAPHS)
        self.assertNotIn("farcall", self.sheet.read_text())
        self.assertNotEqual(sources, sorted(sources))

    def test_sheet_is_the_same_at_one_commit(self):
        self.write_sources(blind_test.COMMENTS)
        run("draw", self.sheet, self.key, self.other, *SEED)
        first = self.sheet.read_text()
        run("draw", self.sheet, self.key, self.other, *SEED)
        self.assertEqual(self.sheet.read_text(), first)

    def test_too_few_comments_are_an_error(self):
        self.write_sources(3)
        drawn = run("draw", self.sheet, self.key, self.other, *SEED)
        self.assertEqual(drawn.returncode, 1)
        self.assertIn("other has 3 passages", drawn.stderr)

    def test_rates_of_two_readers(self):
        self.key.write_text("1 ours comment\n2 other comment\n")
        first, second = self.folder / "first", self.folder / "second"
        first.write_text("1 A\n2 A\n")
        second.write_text("1 C\n2 A\n")
        rated = run("rate", self.key, first, second)
        self.assertIn("other comment                 1  100.0%    0.0%    0.0%", rated.stdout)
        self.assertIn("ours comment                  1   50.0%    0.0%   50.0%", rated.stdout)

    def test_item_without_a_rating_is_an_error(self):
        self.key.write_text("1 ours comment\n2 other comment\n")
        (self.folder / "first").write_text("1 A\n")
        rated = run("rate", self.key, self.folder / "first")
        self.assertEqual(rated.returncode, 1)
        self.assertIn("lacks ratings of 1 items, for instance 2", rated.stderr)


if __name__ == "__main__":
    unittest.main()
