# SPDX-License-Identifier: Apache-2.0
"""Tests the source package and the wheel, which are installed without the rest of the tree and without a compiler.

wheel_test.py --wheel FILE [INTERPRETER…] tests a wheel. wheel_test.py --library FILE --command FILE [INTERPRETER…]
builds one, for which it compiles the extension module only, and takes the library and the command from another build.
--tools FOLDER has the Python packages build, scikit-build-core and pip, if they are not installed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUARD_SECONDS = 500
LARGEST_WHEEL = 4 << 20
NEEDED = ("build", "scikit_build_core", "pip")
# Libraries that each system with glibc has, and OpenSSL.
OF_SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|ssl|crypto|farcall)\.so|ld-linux")

PROGRAM = """
import math, os, sys
import farcall
assert "numpy" not in sys.modules
with farcall.Executor(2) as executor:
    assert executor.submit(os.getpid).result() != os.getpid()
    print(farcall.__version__, executor.function(math.sqrt)(16.0), list(executor.map(abs, [-1, -2])))
"""


def tools_environment(options):
    """Returns the environment in which the tools for wheels can be imported."""
    return os.environ | {"PYTHONPATH": options.tools}


def run(*command, environment=None, folder=None):
    """Runs a command and returns its output. The test fails if the command fails."""
    done = subprocess.run([str(word) for word in command], env=environment, cwd=folder, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=GUARD_SECONDS)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ends with {done.returncode}:\n{done.stdout}")
    return done.stdout


class WheelTest(unittest.TestCase):
    """A wheel, and the source package that it was built from if the test has built it."""

    options = argparse.Namespace()
    wheel = pathlib.Path()
    source = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        if cls.options.wheel:
            cls.wheel = cls.options.wheel
            return
        # Builds the wheel from the unpacked source package.
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", cls.folder / "dist", ROOT,
            f"-Ccmake.define.FARCALL_WHEEL_LIBRARY={cls.options.library}",
            f"-Ccmake.define.FARCALL_WHEEL_COMMAND={cls.options.command}", environment=tools_environment(cls.options))
        cls.wheel, = (cls.folder / "dist").glob("*.whl")
        cls.source, = (cls.folder / "dist").glob("*.tar.gz")
        if cls.options.keep:
            shutil.rmtree(cls.options.keep, ignore_errors=True)
            shutil.copytree(cls.folder / "dist", cls.options.keep)

    def test_wheel_runs_with_all_later_interpreters(self):
        self.assertRegex(self.wheel.name, r"^farcall-[\d.]+-cp311-abi3-(linux|manylinux)\w+\.whl$")

    def test_wheel_contains_the_package_the_library_and_the_command(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = {name.removeprefix("farcall/") for name in wheel.namelist() if name.startswith("farcall/")}
        python = {path.name for path in (ROOT / "python/farcall").iterdir() if path.is_file()}
        rest = {name for name in names - python if not name.startswith("include/") and name[-1:] not in ("", "/")}
        self.assertEqual(python - names, set())
        self.assertEqual({re.sub(r"\.so\.\d.*", ".so.N", name) for name in rest},
                         {"_core.abi3.so", "bin/farcall", "lib/libfarcall.so", "lib/libfarcall.so.N"})

    def test_build_lists_all_python_files(self):
        text = (ROOT / "python/CMakeLists.txt").read_text(encoding="utf-8")
        listed = re.search(r"^set\(files\n(.*?)\)", text, re.M | re.S).group(1).split()
        self.assertEqual(sorted(listed), sorted(path.name for path in (ROOT / "python/farcall").iterdir()
                                                if path.is_file()))

    def test_source_package_contains_neither_tests_nor_hidden_files(self):
        if self.source is None:
            self.skipTest("the wheel was not built by this test")
        with tarfile.open(self.source) as source:
            names = [member.name.partition("/")[2] for member in source]
        self.assertIn("farcall/farcall.h", names)
        self.assertIn("LICENSE", names)
        self.assertEqual([name for name in names if pathlib.PurePath(name).stem.endswith("_test") or "/." in name], [])

    def test_complete_wheel_is_small_and_needs_only_the_system(self):
        if not self.options.wheel:
            self.skipTest("the library of this wheel is from a build for tests")
        self.assertLess(self.wheel.stat().st_size, LARGEST_WHEEL)
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.folder / "unpacked")
        package = self.folder / "unpacked/farcall"
        for file in (package / "_core.abi3.so", package / "bin/farcall", *package.glob("lib/*.so.*")):
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file))
            self.assertEqual([name for name in needed if not OF_SYSTEM.match(name)], [], file.name)
        self.assertTrue((package / "include/farcall/farcall.h").exists())

    def test_wheel_works_without_a_compiler(self):
        for interpreter in self.options.interpreters:
            with self.subTest(interpreter):
                self.check_installation(interpreter)

    def check_installation(self, interpreter):
        """Installs the wheel into a new environment of the interpreter, and uses the package there."""
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        run(interpreter, "-m", "venv", "--without-pip", place / "venv")
        python = place / "venv/bin/python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps",
            "--disable-pip-version-check", self.wheel, environment=tools_environment(self.options))
        bare = {"PATH": str(place / "venv/bin"), "HOME": str(place)}
        version = run(interpreter, "-c", "import sys; print(sys.version.split()[0])").strip()
        self.assertEqual(run(python, "-c", PROGRAM, environment=bare, folder=place), "0.1.0 4.0 [1, 2]\n")
        self.assertEqual(run(place / "venv/bin/farcall", "--version", environment=bare, folder=place).split()[-1],
                         "0.1.0")
        print(f"the wheel works with Python {version} ({interpreter})", flush=True)


def read_options():
    """Returns the options of the program, and removes them from its arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--library")
    parser.add_argument("--command")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the wheel that this test builds")
    parser.add_argument("--tools", default="")
    parser.add_argument("interpreters", nargs="*", default=[sys.executable])
    options = parser.parse_args()
    del sys.argv[1:]
    return options


def main():
    """Runs the tests, or exits with status 77 if the tools are not there."""
    WheelTest.options = read_options()
    script = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    missing = run(sys.executable, "-c", script, *NEEDED,
                  environment=tools_environment(WheelTest.options)).split()
    if missing:
        print(f"skipped: Python packages that build wheels are not installed: {', '.join(missing)}")
        sys.exit(77)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
