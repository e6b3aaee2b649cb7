# SPDX-License-Identifier: Apache-2.0
"""Checks the types of the package, of uses that must and must not be allowed, and of the code in the guide.

typing_test.py [FOLDER]: the folder has the Python package mypy, if it is not installed. pyright runs, too, if it is in
PATH.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import guide_test
import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
MYPY = [sys.executable, "-m", "mypy", f"--cache-dir={os.devnull}", "--no-error-summary"]
# Examples have no annotations, and declare functions in C without a body.
LAX = ["--allow-untyped-defs", "--allow-untyped-calls", "--ignore-missing-imports", "--disable-error-code=empty-body"]


def check(command):
    """Runs a type checker with the project's settings, and returns what it prints."""
    done = subprocess.run(command, cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=500)
    return "" if done.returncode == 0 else done.stdout


class Types(support.TestCase):
    """Types that the checkers see."""

    GUARD = 550

    def test_package_and_its_uses_pass_strict_checks(self):
        self.assertEqual(check(MYPY), "")

    def test_package_and_its_uses_pass_pyright(self):
        if shutil.which("pyright") is None:
            self.skipTest("pyright is not in PATH")
        self.assertEqual(check(["pyright"]), "")

    def test_code_of_the_guide_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            programs = [code for page in guide_test.PAGES for code, _ in guide_test.programs_of(page).values()]
            for number, code in enumerate(programs):
                file = pathlib.Path(folder, f"program{number}.py")
                file.write_text(code, encoding="utf-8")
                files.append(str(file))
            self.assertEqual(check([*MYPY, *LAX, *files]), "")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.argv[1:2] + [os.environ.get("PYTHONPATH", "")])
    del sys.argv[1:2]
    if subprocess.run([*MYPY, "--version"], capture_output=True, check=False).returncode != 0:
        print("skipped: the Python package mypy is not installed")
        sys.exit(77)
    support.main()
