#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_release.py finds another version in each file."""

import pathlib
import re
import shutil
import tempfile
import unittest

import check_release

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = (check_release.PLACES, check_release.INTERFACES, check_release.FOLDERS)


class CheckReleaseTest(unittest.TestCase):
    """A copy of the files that name the version."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for name in {name for places in PLACES for name in places}:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)

    def test_tree_has_no_fault(self):
        self.assertEqual(list(check_release.faults_of(self.root)), [])

    def test_each_place_is_checked(self):
        for places in PLACES:
            for name, pattern in places.items():
                with self.subTest(name):
                    file = self.root / name
                    text = file.read_text(encoding="utf-8")
                    found = re.search(pattern, text, re.M)
                    file.write_text(text[:found.start(1)] + "9" + text[found.start(1) + 1:], encoding="utf-8")
                    self.assertNotEqual(list(check_release.faults_of(self.root)), [])
                    file.write_text("nothing\n" if name != "CMakeLists.txt" else text, encoding="utf-8")
                    if name != "CMakeLists.txt":
                        self.assertNotEqual(list(check_release.faults_of(self.root)), [])
                    file.write_text(text, encoding="utf-8")

    def edit(self, name, pattern, replacement):
        file = self.root / name
        file.write_text(re.sub(pattern, replacement, file.read_text(encoding="utf-8"), count=1), encoding="utf-8")

    def test_dates_agree(self):
        self.edit("CHANGELOG.md", r"## Unreleased \((\S+)\)", r"## \1 (2027-01-31)")
        self.assertEqual(len(list(check_release.faults_of(self.root))), 2)
        self.edit("CITATION.cff", r"(version: .*)", r"\1\ndate-released: 2027-01-31")
        self.assertEqual(len(list(check_release.faults_of(self.root))), 1)
        self.edit("packaging/debian/changelog", r"UNRELEASED", "unstable")
        self.assertEqual(len(list(check_release.faults_of(self.root))), 1, "Debian's date is another one")
        self.edit("packaging/debian/changelog", r">  .*", ">  Sun, 31 Jan 2027 12:00:00 +0000")
        self.assertEqual(list(check_release.faults_of(self.root)), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
