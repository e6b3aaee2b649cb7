#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that spdx.py finds files without the line, and adds it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().with_name("spdx.py")
LINE = "SPDX-License-Identifier: Apache-2.0"
FILES = {
    "a.cpp": ("#pragma once\n", f"// {LINE}\n#pragma once\n"),
    "b.py": ('#!/usr/bin/env python3\n"""Text."""\n', f'#!/usr/bin/env python3\n# {LINE}\n"""Text."""\n'),
    "c/CMakeLists.txt": ("# A comment.\n", f"# {LINE}\n\n# A comment.\n"),
    "d": ("#!/bin/sh\ntrue\n", f"#!/bin/sh\n# {LINE}\ntrue\n"),
    "e.map": ("/* A comment. */\n", f"/* {LINE} */\n\n/* A comment. */\n"),
    "compat/f.h": ("#pragma once\n", f"/* {LINE} */\n#pragma once\n"),
    "g.f90": ("! A comment.\n", f"! {LINE}\n\n! A comment.\n"),
    "h.tcl": ("source a\n", f"# {LINE}\nsource a\n"),
    "compat/i.c.in": ("/* A comment. */\n", f"/* {LINE} */\n\n/* A comment. */\n"),
    "j.bash.in": ("name=@name@\n", f"# {LINE}\nname=@name@\n"),
    "k.pc.in": ("Name: k\n", "Name: k\n"),
    "data.txt": ("no source\n", "no source\n"),
}


class SpdxTest(unittest.TestCase):
    """A tree with a source of each kind."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for name, (text, _) in FILES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, "-B", TOOL, *arguments, self.root], check=False, text=True,
                              stdout=subprocess.PIPE)
        return done.returncode, {line.partition(":")[0] for line in done.stdout.splitlines()}

    def test_files_without_the_line_are_named(self):
        self.assertEqual(self.run_tool(), (1, set(FILES) - {"k.pc.in", "data.txt"}))

    def test_line_is_added_once(self):
        for _ in range(2):
            self.assertEqual(self.run_tool("--fix"), (0, set()))
        self.assertEqual(self.run_tool(), (0, set()))
        for name, (_, expected) in FILES.items():
            self.assertEqual((self.root / name).read_text(encoding="utf-8"), expected, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
