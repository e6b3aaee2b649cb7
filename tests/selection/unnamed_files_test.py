#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that unnamed_files.py reads traces, and that it finds files that a test's targets do not include."""

import pathlib
import tempfile
import unittest

from unnamed_files import environment_of, paths_in, unnamed

TRACE = """\
17    execve("/tree/build/bin/farcall", ["farcall", "run"], 0x7ffe /* 9 vars */) = 0
17    openat(AT_FDCWD</tmp>, "lib/x.so", O_RDONLY|O_CLOEXEC) = 3</tree/build/lib/x.so>
18    open("/tree/build/a", O_RDONLY) = 4</tree/build/a>
18    openat(AT_FDCWD</tmp>, "/tree/build/memfd", O_RDONLY <unfinished ...>
18    <... openat resumed>)             = 5</tree/build/memfd>
+++ exited with 0 +++
"""


class Traces(unittest.TestCase):
    def test_paths_of_programs_and_opened_files_are_read(self):
        self.assertEqual(paths_in(TRACE.splitlines(keepends=True)),
                         {"/tree/build/bin/farcall", "/tree/build/lib/x.so", "/tree/build/a", "/tree/build/memfd"})


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("farcall", "plugin.so.1", "data"):
            (self.folder / name).touch()
        (self.folder / "plugin.so").symlink_to("plugin.so.1")

    def unnamed(self, *used, needed=()):
        outputs = {"farcall", "plugin.so.1", "plugin.so", "all", str(self.folder / "data")}
        return unnamed([str(self.folder / name) for name in used], needed, outputs, self.folder)

    def test_used_files_are_found_unless_they_are_needed(self):
        self.assertEqual(self.unnamed("farcall", "plugin.so.1", needed=["farcall"]), ["plugin.so.1"])
        self.assertEqual(self.unnamed("farcall", needed=["farcall"]), [])

    def test_links_are_followed(self):
        self.assertEqual(self.unnamed("plugin.so", needed=["plugin.so.1"]), [])
        self.assertEqual(self.unnamed("plugin.so.1", needed=["plugin.so"]), [])
        self.assertNotEqual(self.unnamed("plugin.so"), [])

    def test_files_that_the_build_does_not_make_are_ignored(self):
        self.assertEqual(self.unnamed("data", "/etc/passwd"), [])


class Environment(unittest.TestCase):
    def test_properties_change_the_environment(self):
        test = {"name": "t", "properties": [{"name": "ENVIRONMENT", "value": ["A=1=2", "B="]},
                                            {"name": "ENVIRONMENT_MODIFICATION",
                                             "value": ["PATH=path_list_prepend:/bin"]}]}
        self.assertEqual(environment_of(test, {"A": "0", "PATH": "/usr"}), {"A": "1=2", "B": "", "PATH": "/bin:/usr"})

    def test_other_operations_are_refused(self):
        with self.assertRaises(SystemExit):
            environment_of({"name": "t", "properties": [{"name": "ENVIRONMENT_MODIFICATION", "value": ["A=unset:"]}]},
                           {})


if __name__ == "__main__":
    unittest.main()
