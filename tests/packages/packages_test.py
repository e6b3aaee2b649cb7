#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs packages of farcall in a bare root, and uses them there as README.md says.

Run as: packages_test.py --cache FOLDER [--debs FOLDER] [--wheel FILE] [--source FILE]. `./run package` does this.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import unittest

import bare_root

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^  VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.M).group(1)
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
find_package(farcall REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE farcall::farcall)
"""
PYTHON = """
import math, os
import farcall
with farcall.Executor(2) as executor:
    assert executor.submit(os.getpid).result() != os.getpid()
    print(farcall.__version__, executor.function(math.sqrt)(16.0))
"""


def program_of_readme():
    """Returns the program in README.md, and the output that its comment says."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program = next(block for block in re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S) if "int main" in block)
    return program, re.search(r'printf\("%g %d\\n".*// (.*)$', program, re.M).group(1)


class PackagesTest(unittest.TestCase):
    """Each test has a root of its own."""

    options = argparse.Namespace()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = bare_root.BareRoot(self.options.cache, temporary.name)
        self.addCleanup(self.unmount)

    def unmount(self):
        for place in ("root/dev/shm", "root/sys", "root/proc", "root", "tmpfs"):
            bare_root.subprocess.run(["umount", "--lazy", self.root.path.parent / place], check=False)

    def install(self, *packages):
        files = [self.root.copy(next(self.options.debs.glob(f"{package}_{VERSION}*.deb"))) for package in packages]
        self.root.run("apt-get update -q && apt-get install -q -y --no-install-recommends " + " ".join(files))

    def check_program(self):
        """Compiles the program of README.md with pkg-config, and runs it."""
        program, output = program_of_readme()
        self.root.write("/tmp/program.cpp", program)
        self.root.run(f"cd /tmp && g++ -std=c++20 program.cpp $(pkg-config --cflags --libs farcall) -o program")
        self.assertEqual(self.root.run("/tmp/program").strip(), output)
        self.assertEqual(self.root.run("/tmp/program --farcall-targets=shm:4").strip(), output)

    def test_libraries_are_enough_for_the_program_of_the_readme(self):
        if not self.options.debs:
            self.skipTest("no Debian packages are given")
        self.install("libfarcall0", "libfarcall-dev")
        self.check_program()
        self.assertIn("libfarcall.so.0", self.root.run("ldd /tmp/program"))
        self.root.write("/tmp/project/CMakeLists.txt", PROJECT)
        self.root.run("cd /tmp/project && cp ../program.cpp . && cmake -G Ninja -B build -S . && cmake --build build")
        self.assertEqual(self.root.run("/tmp/project/build/program").strip(), program_of_readme()[1])
        self.root.run("cd /tmp/project && cmake -G Ninja -B static -S . -DCMAKE_EXE_LINKER_FLAGS=-static && cmake --build static")
        self.assertEqual(self.root.run("/tmp/project/static/program").strip(), program_of_readme()[1])

    def test_command_starts_and_measures(self):
        if not self.options.debs:
            self.skipTest("no Debian packages are given")
        self.install("libfarcall0", "farcall")
        self.assertEqual(self.root.run("farcall --version").splitlines()[0], f"farcall {VERSION}")
        self.root.run("farcall info --no-targets")
        self.assertIn("sync, empty", self.root.run("farcall bench offload --quick"))

    def test_python_package_calls_functions(self):
        if not self.options.debs:
            self.skipTest("no Debian packages are given")
        self.install("libfarcall0", "farcall", "python3-farcall")
        self.root.write("/tmp/calls.py", PYTHON)
        self.assertEqual(self.root.run("python3 /tmp/calls.py"), f"{VERSION} 4.0\n")
        self.root.run("apt-get purge -q -y libfarcall0 farcall python3-farcall")
        self.assertEqual(self.root.run("find /usr -name '*farcall*' -not -path '/usr/src/*'"), "")

    def test_older_interfaces_build_programs(self):
        if not self.options.debs:
            self.skipTest("no Debian packages are given")
        self.install("libfarcall0", "libfarcall-dev", "farcall-compat")
        for name in ("am2.c", "ham_main.cpp"):
            self.root.copy(ROOT / "tests/install/consumer" / name)
        self.root.run("cd /tmp && gcc -std=c11 am2.c $(pkg-config --cflags --libs am2) -o am2 && ./am2")
        self.root.run("cd /tmp && g++ -std=c++20 ham_main.cpp $(pkg-config --cflags --libs ham_offload_mpi) -o ham && ./ham")
        self.root.write("/tmp/veo.c", "#include <ve_offload.h>\n#include <stdio.h>\n"
                        "int main(void) { puts(veo_version_string()); return veo_proc_create(0) == NULL; }\n")
        self.root.run("cd /tmp && gcc veo.c -lveo -o veo")
        self.assertIn("farcall", self.root.run("/tmp/veo"))

    def test_wheel_calls_functions(self):
        if not self.options.wheel:
            self.skipTest("no wheel is given")
        wheel = self.root.copy(self.options.wheel)
        self.root.write("/tmp/calls.py", PYTHON)
        # The wheel uses OpenSSL of the system.
        self.root.run("apt-get update -q && apt-get install -q -y --no-install-recommends libssl3")
        self.root.run(f"python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --no-index {wheel}")
        self.assertEqual(self.root.run("/tmp/venv/bin/python /tmp/calls.py"), f"{VERSION} 4.0\n")
        # The command of a quick wheel is the one of the system's packages, and needs their libraries.
        if not self.options.quick:
            self.assertIn(VERSION, self.root.run("/tmp/venv/bin/farcall --version"))

    def test_source_builds_without_git(self):
        if not self.options.source:
            self.skipTest("no tarball is given")
        tarball = self.root.copy(self.options.source)
        self.root.run("apt-get update -q && apt-get install -q -y --no-install-recommends libssl-dev")
        self.root.run(f"! command -v git; cd /tmp && tar xf {tarball} && cd farcall-{VERSION} && "
                      "cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DFARCALL_LIBRARY_ONLY=ON "
                      "-DFARCALL_UNITY_BUILD=ON && cmake --build build && cmake --install build && ldconfig")
        self.check_program()
        self.root.run("test -z \"$(find /usr/local -name '*ham*' -o -name 'libveo*' -o -name 'farcall-bench*')\"")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", required=True)
    for name in ("--debs", "--wheel", "--source"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("-k", dest="pattern", help="run only the tests whose names match this")
    parser.add_argument("--quick", action="store_true", help="the wheel has the command of another build")
    PackagesTest.options = parser.parse_args()
    reason = bare_root.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    bare_root.enter_namespace()
    pattern = PackagesTest.options.pattern
    unittest.main(argv=[*sys.argv[:1], *(["-k", pattern] if pattern else [])], verbosity=2)


if __name__ == "__main__":
    main()
