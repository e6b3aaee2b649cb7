#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests packaging/sbom.py with a command and a library of the build.

Run as: sbom_test.py <farcall> <shared library>. Exits with 77 if this system is not Debian.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "packaging"))
import sbom  # noqa: E402

COMMAND, LIBRARY = map(pathlib.Path, sys.argv[1:3])


class SbomTest(unittest.TestCase):
    """The document of an installation with one command and one library."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for file, folder in ((COMMAND, "bin"), (LIBRARY, "lib")):
            (self.folder / folder).mkdir()
            shutil.copy(file, self.folder / folder)
        (self.folder / "lib" / "libfarcall.so.0").symlink_to(LIBRARY.name)
        (self.folder / "lib" / "libfarcall.a").write_text("no program", encoding="ascii")

    def test_document_names_the_files_and_what_they_link(self):
        document = sbom.document_of(self.folder)
        names = {file["fileName"] for file in document["files"]}
        self.assertEqual(names, {"./bin/farcall", f"./lib/{LIBRARY.name}"})
        packages = {package["name"] for package in document["packages"]}
        shown = subprocess.run(["objdump", "-p", COMMAND, LIBRARY], check=True, text=True, stdout=subprocess.PIPE).stdout
        for library in set(re.findall(r"NEEDED\s+(\S+)", shown)):
            name = re.sub(r"\.so.*", "", library)
            expected = {"libcrypto": "libssl3", "libm": "libc6", "libc": "libc6", "libz": "zlib1g", "libfarcall": "farcall",
                        "libgcc_s": "libgcc-s1"}.get(name, name.replace("_", "-"))
            if name != "ld-linux-x86-64":
                self.assertTrue(any(package.startswith(expected) for package in packages), (library, packages))
        self.assertIn("libcli11-dev", packages)

    def test_documents_of_one_tree_are_equal(self):
        self.assertEqual(sbom.document_of(self.folder), sbom.document_of(self.folder))

    def test_unknown_licences_are_refused(self):
        self.addCleanup(setattr, sbom, "LICENSES", sbom.LICENSES)
        sbom.LICENSES = {}
        self.assertRaisesRegex(SystemExit, "whose licence LICENSES lacks", sbom.document_of, self.folder)


if __name__ == "__main__":
    if shutil.which("dpkg-query") is None:
        print("skipped: this system is not Debian, so packages cannot be looked up")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
