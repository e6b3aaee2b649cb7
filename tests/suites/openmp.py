#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of OpenMP_VV on targets of farcall: openmp.py [--llvm VERSION] FOLDER [TEST…].

`./run suites openmp` runs this program with the option --farcall. It compiles each C and C++ program of OpenMP 4.5 and
5.0, and runs it by LLVM's packaged plugin, then on two targets of this machine, and on two targets of a server. It
prints the number of programs, and each program whose result is not the expected one. It fails if

* a program passes by the packaged plugin but not on targets, and expected_of_openmp.txt does not list it,
* a program is listed there, but passes, except if the reason begins with "sometimes", or
* all programs were to be run, and fewer than LEAST pass by the packaged plugin.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import openmp_devices
from openmp_devices import omptarget

EXPECTED = pathlib.Path(__file__).resolve().parent / "expected_of_openmp.txt"
SKIPPED = 77
# Status with which a program of the suite says that it has not tested anything.
NOT_TESTED = -667 % 256
# Ends a program that hangs.
SECONDS = 60
LEAST = 100
VERSIONS = ("4.5", "5.0")
PLACES = ("packaged", "shm", "tcp")


def read_expected(text):
    """Returns the patterns of programs that are expected to fail on targets, with the reasons."""
    expected = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) +# (\S.*)", line)
        if match is None:
            raise SystemExit(f"{EXPECTED.name}:{number}: is not `TEST   # reason`")
        expected[match.group(1)] = match.group(2)
    return expected


def problems(results, expected):
    """Yields a line for each unexpected result. `results` has the results of each program by place."""
    for name, by_place in sorted(results.items()):
        if by_place.get("packaged") != "passed":
            continue
        failed = [place for place in PLACES[1:] if by_place[place] != "passed"]
        listed = [pattern for pattern in expected if fnmatch.fnmatchcase(name, pattern)]
        if failed and not listed:
            yield f"{name}: {', '.join(f'{by_place[place]} over {place}' for place in failed)}"
        if not failed and any(not expected[pattern].startswith("sometimes") for pattern in listed):
            yield f"{name}: is listed in {EXPECTED.name}, but passes"


def variables_of(name):
    """Returns the variable of the environment that a program's name asks for, as the suite's Makefile reads it."""
    found = re.fullmatch(r"test_(.*)_env_([^.]*)\..*", pathlib.Path(name).name)
    return {found.group(1).upper(): found.group(2)} if found else {}


def ended(command, environment):
    """Runs a program and the processes that it starts; returns the result."""
    status, _ = openmp_devices.ended(command, environment, SECONDS)
    return {0: "passed", NOT_TESTED: "skipped", None: "hung"}.get(status, "failed")


class Suite:
    """The suite's folder, the compiler, and a folder for programs."""

    def __init__(self, options, scratch):
        self.folder, self.farcall, self.llvm = options.folder.resolve(), options.farcall, options.llvm
        self.scratch = pathlib.Path(scratch)
        self.environment = openmp_devices.plain_environment()

    def names(self, chosen):
        """Returns the names of the chosen programs, such as 4.5/target/test_target_map.c."""
        root = self.folder / "tests"
        found = [str(path.relative_to(root)) for version in VERSIONS for path in sorted((root / version).rglob("*"))
                 if path.suffix in (".c", ".cpp")]
        return [name for name in found
                if not chosen or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in chosen)]

    def compiled(self, name):
        """Compiles a program; returns its path, or None."""
        program = self.scratch / name.replace("/", "_")
        libraries = [str(self.folder / "ompvv" / "libompvv.c")] if "static_lib" in name else []
        options = ["-O3", f"-fopenmp-version={name[0]}{name[2]}", f"-I{self.folder / 'ompvv'}", *libraries, "-lm",
                   *(["-std=c++11"] if name.endswith("cpp") else [])]
        done = subprocess.run(omptarget.command(self.llvm, self.folder / "tests" / name, program, *options),
                              capture_output=True, timeout=300, check=False)
        return program if done.returncode == 0 else None

    def results_of(self, name, server):
        """Compiles and runs a program; returns its results by place."""
        program = self.compiled(name)
        if program is None:
            return {"packaged": "not compiled"}
        environment = self.environment | variables_of(name)
        by_place = {"packaged": ended([program], environment | openmp_devices.packaged_environment(self.llvm))}
        if by_place["packaged"] == "passed":
            for place, targets in (("shm", "shm:2"), ("tcp", server)):
                by_place[place] = ended([self.farcall, "run", "--openmp", f"--targets={targets}", program], environment)
        program.unlink()
        return by_place


def main():
    """Runs the suite, and prints the problems."""
    parser = argparse.ArgumentParser(prog="./run suites openmp", description="Runs OpenMP_VV on targets of farcall.")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER",
                        help="git clone https://github.com/OpenMP-Validation-and-Verification/OpenMP_VV.git")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="parts of names of programs; all unless given")
    parser.add_argument("--llvm", choices=("15", "16"), default="16", help="version of clang")
    parser.add_argument("--list", action="store_true", help="print the results of each program, too")
    parser.add_argument("--farcall", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if omptarget.folder_of(options.llvm) is None:
        print(f"suites: openmp: clang-{options.llvm}, clang-tools-{options.llvm} and its libomptarget are needed")
        return SKIPPED
    if not (options.folder / "tests" / "4.5").is_dir():
        print(f"suites: openmp: {options.folder} has no folder tests/4.5")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="farcall-suites-") as scratch:
        suite = Suite(options, scratch)
        names = suite.names(options.tests)
        with openmp_devices.served(suite.farcall, suite.environment, 2) as server, \
                concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = {}
            for name, by_place in zip(names, pool.map(lambda name: suite.results_of(name, server), names)):
                results[name] = by_place
                if options.list:
                    print(name, *(f"{place}={by_place.get(place, '-')}" for place in PLACES), flush=True)
    for place in PLACES:
        counts = collections.Counter(by_place[place] for by_place in results.values() if place in by_place)
        print(f"{place:9}", ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    found = list(problems(results, read_expected(EXPECTED.read_text(encoding="utf-8"))))
    passed = sum(by_place["packaged"] == "passed" for by_place in results.values())
    if not options.tests and passed < LEAST:
        found.append(f"only {passed} programs pass by the packaged plugin; {LEAST} are expected")
    print(f"{len(found)} problem(s)")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
