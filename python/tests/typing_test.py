# SPDX-License-Identifier: Apache-2.0
"""Checks the types of the package, of uses that must and must not be allowed, and of the code in the guide.

typing_test.py [FOLDER] [--pyright]: checks with mypy or pyright. The folder has their Python packages, if they are not
installed. The package pyright needs Node.js.
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
PYRIGHT = [sys.executable, "-m", "pyright"]
MYPY = [sys.executable, "-m", "mypy", f"--cache-dir={os.devnull}", "--no-error-summary"]
# Examples have no annotations, and declare functions in C without a body.
LAX = ["--allow-untyped-defs", "--allow-untyped-calls", "--ignore-missing-imports", "--disable-error-code=empty-body"]


def check(command):
    """Runs a type checker with the project's settings, and returns what it prints."""
    done = subprocess.run(command, cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=500)
    return "" if done.returncode == 0 else done.stdout


class Mypy(support.TestCase):
    """Types as mypy sees them."""

    GUARD = 550

    def test_package_and_its_uses_pass_strict_checks(self):
        self.assertEqual(check(MYPY), "")

    def test_code_of_the_guide_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            programs = [code for page in guide_test.PAGES for code, _ in guide_test.programs_of(page).values()]
            for number, code in enumerate(programs):
                file = pathlib.Path(folder, f"program{number}.py")
                file.write_text(code, encoding="utf-8")
                files.append(str(file))
            self.assertEqual(check([*MYPY, *LAX, *files]), "")


class Pyright(support.TestCase):
    """Types as pyright sees them."""

    GUARD = 550

    def test_package_and_its_uses_pass(self):
        self.assertEqual(check(PYRIGHT), "")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    wants_pyright = "--pyright" in arguments
    if wants_pyright:
        arguments.remove("--pyright")
    os.environ["PYTHONPATH"] = os.pathsep.join(arguments + [os.environ.get("PYTHONPATH", "")])
    if wants_pyright and shutil.which("node") is None:
        print("skipped: node, with which pyright runs, is not in PATH")
        sys.exit(77)
    if subprocess.run([*(PYRIGHT if wants_pyright else MYPY), "--version"], capture_output=True,
                      check=False).returncode != 0:
        print(f"skipped: the Python package {'pyright' if wants_pyright else 'mypy'} is not installed")
        sys.exit(77)
    sys.argv[1:] = ["Pyright" if wants_pyright else "Mypy"]
    support.main()
