#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_abi.py finds each fault. Run as: check_abi_test.py <C compiler> <archiver>"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_abi

SCRIPT = "FARCALL_7 {\n  global:\n    fc_*; /* a comment; */\n    _ZN7farcall*;\n  local:\n    *;\n};\n"
SOURCE = "void fc_one(void) {}\nvoid _ZN7farcall3twoEv(void) {}\n"
COMPILER, ARCHIVER = sys.argv[1:3]


class CheckAbiTest(unittest.TestCase):
    """Libraries of a few functions, each with one fault."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "farcall/c").mkdir(parents=True)
        (self.folder / "libfarcall.map").write_text(SCRIPT, encoding="utf-8")
        self.addCleanup(setattr, check_abi, "NAMES", check_abi.NAMES)
        check_abi.NAMES = self.folder / "c_names.txt"
        check_abi.NAMES.write_text("fc_one\n", encoding="utf-8")

    def faults(self, source=SOURCE, script=SCRIPT, header="FC_API void fc_one(void);\n", soname="libfarcall.so.7",
               archive_option="-fvisibility=hidden"):
        """Returns the faults of libraries of this source."""
        (self.folder / "x.c").write_text(source, encoding="utf-8")
        (self.folder / "farcall/farcall.h").write_text(header, encoding="utf-8")
        (self.folder / "used.map").write_text(script, encoding="utf-8")
        x, shared, static = self.folder / "x.o", self.folder / "libx.so", self.folder / "libx.a"
        subprocess.run([COMPILER, "-fPIC", "-shared", f"-Wl,-soname,{soname}", "-o", shared, self.folder / "x.c",
                        f"-Wl,--version-script={self.folder}/used.map"], check=True)
        subprocess.run([COMPILER, "-c", archive_option, "-o", x, self.folder / "x.c"], check=True)
        subprocess.run([ARCHIVER, "rc", static, x], check=True)
        return list(check_abi.faults_of(shared, static, self.folder / "libfarcall.map", self.folder))

    def test_good_libraries_have_no_fault(self):
        self.assertEqual(self.faults(), [])

    def test_soname_is_checked(self):
        self.assertIn("SONAME", self.faults(soname="libfarcall.so.8")[0])

    def test_names_of_others_are_not_exported(self):
        found = self.faults(SOURCE + "void other(void) {}\n", SCRIPT.replace("fc_*;", "fc_*; other;"))
        self.assertEqual(found, ["other is exported, but is no name of farcall"])

    def test_names_have_the_version(self):
        self.assertIn("has the version 'FARCALL_6'", self.faults(script=SCRIPT.replace("_7", "_6"))[0])

    def test_lost_names_are_reported(self):
        check_abi.NAMES.write_text("fc_one\nfc_two\n", encoding="utf-8")
        self.assertIn("no longer exports it", self.faults()[0])

    def test_new_names_are_reported(self):
        found = self.faults(SOURCE + "void fc_new(void) {}\n", header="FC_API void fc_one(void);\nFC_API int fc_new(int);\n")
        self.assertIn("fc_new is exported, but is not in", found[0])

    def test_declared_names_are_exported(self):
        self.assertEqual(self.faults(header="FC_API void fc_one(void);\nFC_API int fc_two(int);\n"),
                         ["fc_two is declared in a header, but not exported"])

    def test_names_of_no_header_are_reported(self):
        self.assertEqual(self.faults(header=""), ["fc_one is exported, but no header declares it"])

    def test_static_library_hides_its_names(self):
        self.assertEqual(self.faults(archive_option="-fvisibility=default"),
                         ["_ZN7farcall3twoEv is not hidden in libx.a"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
