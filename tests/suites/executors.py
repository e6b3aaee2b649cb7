#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test suites of other executors with farcall.Executor: executors.py NAME FOLDER [TEST…].

`./run suites` runs this program with the package of build/release. It prints the number of tests, and each test whose
result is not the expected one. It fails if

* a test fails, and expected_of_executors.txt does not list it, or
* a test is listed there, but passes, except if the reason begins with "sometimes".
"""

import argparse
import fnmatch
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected_of_executors.txt"
SKIPPED = 77
# Ends a suite that hangs.
SECONDS = 3600


class Suite(typing.NamedTuple):
    """Tests of a project."""

    modules: tuple[str, ...]  # Python packages that the tests import
    arguments: tuple[str, ...]  # files, and options of pytest
    names: str = ""  # expression of pytest for the names of tests


SUITES = {
    "loky": Suite(("loky", "psutil"), ("tests/test_process_executor_loky.py", "--loky-verbosity=50",
                                       "--skip-high-memory")),
    # The other classes are tests of MPI, and of chained futures that farcall lacks.
    "mpi4py": Suite(("mpi4py",), ("demo/futures/test_futures.py",), "ProcessPool and not Pickle"),
    "joblib": Suite(("joblib", "farcall.joblib"), ("joblib/test/test_parallel.py",), "loky"),
}

HELP = """\
suites, and the folder that each needs: the unpacked source package, of the version that is installed

  loky    pip install loky psutil pytest     pip download --no-deps --no-binary :all: loky
  mpi4py  pip install mpi4py pytest          pip download --no-deps --no-binary :all: mpi4py
  joblib  pip install joblib pytest          pip download --no-deps --no-binary :all: joblib
"""


def missing_modules(names):
    """Returns the modules that this Python lacks."""
    def is_missing(name):
        try:
            return importlib.util.find_spec(name) is None
        except ModuleNotFoundError:  # the package of a module
            return True

    return [name for name in names if is_missing(name)]


def read_expected(text, suite):
    """Returns the patterns of tests that are expected to fail, with the reasons."""
    expected = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) (\S+) +# (\S.*)", line)
        if match is None:
            raise SystemExit(f"{EXPECTED.name}:{number}: is not `SUITE TEST   # reason`")
        of_suite, test, reason = match.groups()
        if of_suite == suite:
            expected[test] = reason
    return expected


def read_results(text):
    """Returns the result of each test in a file of pytest."""
    results = {}
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        results[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return results


def problems(results, expected):
    """Yields a line for each failure that is not expected, and for each expected one that is absent."""
    for name, result in results.items():
        listed = [pattern for pattern in expected if fnmatch.fnmatchcase(name, pattern)]
        if result == "failed" and not listed:
            yield f"{name}: failed"
    passed = [name for name, result in results.items() if result == "passed"]
    for pattern, reason in expected.items():
        if reason.startswith("sometimes"):
            continue
        for name in fnmatch.filter(passed, pattern):
            yield f"{name}: is listed in {EXPECTED.name} ({pattern}), but passes"


def run(name, folder, tests):
    """Runs the tests, and returns their results."""
    suite = SUITES[name]
    with tempfile.TemporaryDirectory(prefix="farcall-suites-") as scratch:
        report = pathlib.Path(scratch, "results.xml")
        expressions = [f"({each})" for each in (suite.names, " or ".join(tests)) if each]
        chosen = [f"-k{' and '.join(expressions)}"] if expressions else []
        folders = [str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        search = os.pathsep.join(os.path.abspath(each) for each in folders if each)
        command = [sys.executable, "-B", "-m", "pytest", "-p", "executor_plugin", "-p", "no:cacheprovider", "-q",
                   "--no-header", "--tb=short", f"--junitxml={report}", *suite.arguments, *chosen]
        subprocess.run(command, cwd=folder, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
                       env=os.environ | {"EXECUTOR_SUITE": name, "PYTHONPATH": search})
        if not report.exists():
            raise SystemExit(f"suites: {name}: pytest has ended without results")
        return read_results(report.read_text(encoding="utf-8"))


def main():
    """Runs a suite, and prints the problems."""
    parser = argparse.ArgumentParser(prog="./run suites", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Runs tests of another executor with farcall's.", epilog=HELP)
    parser.add_argument("name", choices=SUITES, metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="an unpacked source package")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="parts of names of tests; all unless given")
    options = parser.parse_args()
    missing = missing_modules(("farcall", "pytest", *SUITES[options.name].modules))
    if missing:
        print(f"suites: {options.name}: {', '.join(missing)} is not installed for {sys.executable}")
        return SKIPPED
    results = run(options.name, options.folder.resolve(), options.tests)
    found = list(problems(results, read_expected(EXPECTED.read_text(encoding="utf-8"), options.name)))
    counts = {kind: list(results.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f"; {len(found)} problem(s)")
    for problem in found:
        print(problem)
    return 1 if found or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
