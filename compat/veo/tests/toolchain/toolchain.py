# SPDX-License-Identifier: Apache-2.0
"""Common code of the tests of the commands for kernels: running commands, and paths."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
SKIPPED = 77  # the exit status that ctest takes for a test that cannot run here

# Folder with bin, include and lib of the build tree, from the command line.
root = None


def environment(**changes):
    """Returns the caller's environment without variables that change the commands."""
    plain = {key: value for key, value in os.environ.items()
             if not key.startswith("FARCALL_") and key not in ("CFLAGS", "LDFLAGS")}
    # Quiet: some programs make calls that fail, and check the reason themselves.
    return {**plain, "LC_ALL": "C", "FARCALL_VEO_ERRORS": "quiet", **changes}


def run(*command, **changes):
    """Runs a command; returns its exit status, and its output and errors in one text."""
    folder = changes.pop("cwd", None)
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=100, cwd=folder,
                            env=environment(**changes))
    return result.returncode, result.stdout


class test_case(unittest.TestCase):
    """Test case with a temporary folder."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="farcall veo ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tool(self, name):
        return root / "bin" / name

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def good(self, *command, **changes):
        """Runs a command that must succeed, and returns its output."""
        status, text = run(*command, **changes)
        self.assertEqual(status, 0, f"{' '.join(map(str, command))}:\n{text}")
        return text

    def bad(self, *command, **changes):
        """Runs a command that must fail, and returns its output."""
        status, text = run(*command, **changes)
        self.assertNotEqual(status, 0, f"{' '.join(map(str, command))} should fail:\n{text}")
        return text

    def quiet(self, *command, **changes):
        """Runs a command that must succeed without output."""
        self.assertEqual(self.good(*command, **changes), "", " ".join(map(str, command)))

    def has_debug_information(self, file, function):
        text = self.good("readelf", "--debug-dump=info", file)
        return "DW_TAG_subprogram" in text and function in text

    def functions_of(self, library):
        lines = self.good("nm", "-D", "--defined-only", library).splitlines()
        return {line.split()[-1] for line in lines}


def main():
    """python <test> <folder with bin, include and lib> [unittest's arguments]"""
    global root
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} <folder with bin, include and lib> [test...]")
    root = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(module="__main__")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def missing(*programs):
    """Returns the first program that is not installed, or None."""
    return next((name for name in programs if shutil.which(name) is None), None)
