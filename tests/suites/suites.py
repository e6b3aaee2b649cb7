#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test suites of other projects over host files.

`./run suites` and the tests suites.* run this program with the options --farcall, --program and --way. It runs
a suite twice: on this machine in a local folder, and on a target in a folder of the host whose operations
are all forwarded. It prints the results of both and each test whose results differ, and fails if

* a test has differing results, and expected_failures.txt does not list it, or
* a test is listed there, but passes in both folders.

A test that fails in the local folder says nothing about farcall and is left out of the comparison.
"""

import argparse
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected_failures.txt"
# Debian's CPython: libpython3.11-testsuite has its tests.
PYTHON = "/usr/bin/python3.11"
SKIPPED = 77
# Ends a suite that hangs.
SECONDS = 3600


@dataclasses.dataclass
class way:
    """Describes how a target uses host files."""

    options: list
    # True if the host may rename the folder, so that operations that are not forwarded find no file.
    hides: bool
    # True if shared mappings and locks work.
    complete: bool


WAYS = {
    "preload": way(["--host-files-by=preload"], hides=True, complete=False),
    "mount": way(["--host-files-by=mount"], hides=False, complete=True),
}


class unusable(Exception):
    """Says why a suite cannot run."""


def require_mounts(farcall):
    """Throws unusable if this machine cannot mount host files."""
    program = pathlib.Path(farcall).with_name("farcall-mount")
    if not program.exists():
        raise unusable(f"{program} was not built: it needs libfuse3-dev")
    checked = subprocess.run([program, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        raise unusable(checked.stdout.strip() or f"{program} --check fails")


def required(path):
    if not path.exists():
        raise unusable(f"{path} does not exist; ./run suites --help says what the folder must contain")
    return path


def quoted(path):
    return shlex.quote(str(path))


def matching(scripts, chosen, names=lambda script: script.stem):
    return [script for script in sorted(scripts)
            if any(fnmatch.fnmatchcase(names(script), pattern) for pattern in chosen)]


# --- results of programs: functions of (name, output, status, folder for results) -----------------------


def read_status(name, output, status, results):
    """Reads a program that is one test."""
    del output, results
    return {name: "passed" if status == 0 else "failed"}


TAP = re.compile(r"^(not )?ok (\d+)(.*)$", re.M)


def read_tap(name, output, status, results):
    """Reads the protocol TAP. A program that ends before its last test has a failed test `end`."""
    del results
    read = {}
    for bad, number, rest in TAP.findall(output):
        remark = rest.rpartition("# ")[2].upper()
        # A test with the remark TODO is meant to fail.
        if remark.startswith("SKIP") or (bad and remark.startswith("TODO")):
            read[f"{name}.{number}"] = "skipped"
        else:
            read[f"{name}.{number}"] = "failed" if bad else "passed"
    planned = re.search(r"^1\.\.(\d+)", output, re.M)
    if planned is None or (int(planned.group(1)) != len(read)):
        read[f"{name}.end"] = "failed"
    elif not read:
        read[f"{name}.end"] = "skipped"
    return read


def read_sqlite(name, output, status, results):
    """Reads the output of SQLite's test scripts."""
    del results
    read = {f"{name}:{test}": "passed" if end == " Ok" else "failed"
            for test, end in re.findall(r"^(\S+)\.\.\.( Ok)?$", output, re.M)}
    ended = re.search(r"^\d+ errors out of \d+ tests", output, re.M)
    read[f"{name}:end"] = "passed" if ended else "failed"
    return read


def read_lines(name, output, status, results):
    """Reads the file that cpython_tests.py writes."""
    del output, status
    lines = results / "lines"
    if not lines.exists():
        return {f"{name}.end": "failed"}
    pairs = [line.split(" ", 1) for line in lines.read_text(encoding="utf-8").splitlines()]
    return {test: result for result, test in pairs}


def read_errors(name, output, status, results):
    """Reads the lines of farcall_errno_table, whose results are names of errors, and numbers."""
    del results
    read = dict(line.rsplit(" ", 1) for line in output.splitlines() if " " in line)
    read[f"{name}.end"] = "passed" if status == 0 else "failed"
    return read


def read_xfstests(name, output, status, results):
    """Reads what xfstests' program check prints."""
    del status, results
    read = {}
    for test, rest in re.findall(r"^(\w+/\d+)[^\S\n](.*)$", output, re.M):
        if "[not run]" in rest or "[expunged]" in rest:
            read[test] = "skipped"
        elif "[failed" in rest or "output mismatch" in rest or "_check_" in rest:
            read[test] = "failed"
        else:
            read.setdefault(test, "passed")
    read[f"{name}.end"] = "passed" if re.search(r"^(Passed all|Failed) ", output, re.M) else "failed"
    return read


# --- suites: functions of (folder, chosen tests, way), which return (name, command, reader) -------------


def fsx(folder, chosen, how):
    program = folder / "ltp" / "fsx"
    if not program.exists():
        program = required(folder / "fsx")
    # Maps no files (-R, -W) if shared mappings do not work.
    options = "" if how.complete else "-R -W"
    return [(f"fsx.{seed}", f"{quoted(program)} {options} -q -l 1048576 -N 20000 -S {seed} file", read_status)
            for seed in chosen or range(1, 5)]


FIO_JOBS = {
    "sequential": "--rw=write --bs=64k --verify=crc32c",
    "random": "--rw=randwrite --bs=4k --verify=sha256",
    "mixed": "--rw=randrw --bs=4k --verify=md5",
    "odd_sizes": "--rw=randwrite --bsrange=512-200k --bs_unaligned=1 --verify=crc32c",
    "large": "--rw=write --bs=3m --verify=xxhash",
    "vectors": "--rw=randwrite --bs=16k --ioengine=pvsync --verify=crc32c",
    "positions": "--rw=randwrite --bs=8k --ioengine=sync --verify=crc32c",
    "synced": "--rw=randwrite --bs=4k --fsync=16 --verify=crc32c",
    "several_jobs": "--rw=randwrite --bs=4k --numjobs=4 --verify=crc32c",
    "several_files": "--rw=randwrite --bs=4k --nrfiles=16 --verify=crc32c",
    "threads": "--rw=randwrite --bs=4k --numjobs=4 --thread --verify=crc32c",
    "backlog": "--rw=randwrite --bs=4k --verify_backlog=64 --verify=pattern --verify_pattern=0x5a",
    "mapped": "--rw=randwrite --bs=4k --ioengine=mmap --verify=crc32c",
    "asynchronous": "--rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --verify=crc32c",
}


def fio(folder, chosen, how):
    del how
    program = quoted(required(folder / "fio"))
    common = "--size=4m --ioengine=psync --do_verify=1 --verify_fatal=1 --minimal"
    return [(f"fio.{name}", f"{program} --name={name} {common} {FIO_JOBS[name]}", read_status)
            for name in chosen or FIO_JOBS]


def xfstests(folder, chosen, how):
    if not how.complete:
        raise unusable("xfstests mounts file systems: --way=mount")
    required(folder / "check")
    required(folder / "ltp" / "fsx")
    arguments = " ".join(quoted(word) for word in chosen or ["-g", "generic/quick"])
    return [("xfstests", f"sh {quoted(HERE / 'xfstests.sh')} {quoted(folder)} $RESULTS {arguments}", read_xfstests)]


def pjdfstest(folder, chosen, how):
    del how
    required(folder / "pjdfstest")
    scripts = matching(required(folder / "tests").glob("*/*.t"), chosen or ["*"],
                       lambda script: script.parent.name)
    return [(f"{script.parent.name}/{script.stem}", f"sh {quoted(script)}", read_tap) for script in scripts]


def git(folder, chosen, how):
    del how
    required(folder / "git")
    tests = required(folder / "t")
    required(tests / "helper" / "test-tool")
    # Checks of malloc() would replace LD_PRELOAD.
    return [(script.stem, f"top=$PWD; cd {quoted(tests)} && TEST_NO_MALLOC_CHECK=1 "
                          f"TEST_OUTPUT_DIRECTORY=$RESULTS sh ./{script.name} --root=$top", read_tap)
            for script in matching(tests.glob("t[0-9]*.sh"), chosen or GIT_SCRIPTS)]


# Tests of the files in a repository and in a working tree, and of clones.
GIT_SCRIPTS = ("t0[01]*", "t1[01]*", "t2*", "t3[02]*", "t5[367]*", "t7[03]*")


def sqlite(folder, chosen, how):
    program = quoted(required(folder / "testfixture"))
    if not how.complete:
        # Does without locks: runs each script with another file layer of SQLite.
        program += f" {quoted(HERE / 'sqlite_without_locks.tcl')}"
    makefile = required(folder / "Makefile").read_text(encoding="utf-8")
    source = folder / re.search(r"^TOP = (.*)$", makefile, re.M).group(1)
    scripts = matching(required(source / "test").glob("*.test"), chosen or SQLITE_SCRIPTS)
    if not chosen:
        scripts = [script for script in scripts if not SLOW_SQLITE_SCRIPT.search(script.stem)]
    return [(script.stem, f"{program} {quoted(script)}", read_sqlite) for script in scripts]


# Tests of files, journals and locks.
SQLITE_SCRIPTS = ("attach*", "backup*", "delete*", "exclusive*", "io", "journal*", "jrnlmode*", "lock*", "mmap*",
                  "pager*", "rollback*", "savepoint*", "shared*", "superlock", "symlink*", "tempdb*", "trans*",
                  "vacuum*", "wal*", "zerodamage")
# Tests that let memory and files of SQLite fail take hours.
SLOW_SQLITE_SCRIPT = re.compile("big|crash|err|fault|malloc|slow|thread")


def cpython(folder, chosen, how):
    del how
    if not os.path.exists(PYTHON):
        raise unusable(f"{PYTHON} is not installed")
    modules = chosen or CPYTHON_MODULES
    for module in modules:
        if not (folder / f"{module}.py").exists():
            required(folder / module)
    return [(module, f"{PYTHON} -B {quoted(HERE / 'cpython_tests.py')} {quoted(folder)} $RESULTS/lines {module}",
             read_lines) for module in modules]


CPYTHON_MODULES = ("test_os", "test_io", "test_shutil", "test_tempfile", "test_mmap", "test_sqlite3")

def errors(folder, chosen, how):
    del chosen, how
    return [("errors", quoted(required(folder / "farcall_errno_table")), read_errors)]


SUITES = {suite.__name__: suite for suite in (errors, fsx, xfstests, fio, pjdfstest, git, sqlite, cpython)}

# --- runs ------------------------------------------------------------------------------------------------


def output_of(command, environment, log):
    """Returns the status of the command. Its processes end at the latest with it."""
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=os.environ | environment, start_new_session=True)
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            output.write(f"ended after {SECONDS} s\n".encode())
            return 124
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def run(test, options, scratch, on_target):
    """Runs a test in a new folder; returns its results."""
    name, command, read = test
    how = WAYS[options.way]
    place = scratch / ("there" if on_target else "here")
    folder = place / "folder"
    (folder / "tmp").mkdir(parents=True)
    results = place / "results"
    results.mkdir()
    log = results / "log"
    command = f"cd {quoted(folder)} && {command}"
    environment = {"TMPDIR": str(folder / "tmp"), "RESULTS": str(results)}
    if on_target:
        environment["FARCALL_IO_FORWARD"] = "always"
        words = [options.farcall, "run", "--targets", "shm", f"--host-files={folder}", *how.options,
                 options.program, "hide" if how.hides else "keep", str(folder), command]
    else:
        words = ["sh", "-c", command]
    status = output_of(words, environment, log)
    text = log.read_text(encoding="utf-8", errors="replace")
    read_results = read(name, text, status, results)
    if options.verbose and "failed" in read_results.values():
        print(f"--- {name}, {place.name}: status {status}\n{text}")
    shutil.rmtree(place)
    return read_results


# --- comparison ------------------------------------------------------------------------------------------


def read_expected(text, suite, way_name):
    """Returns the patterns of tests that are expected to differ, with the reasons."""
    expected = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) (\S+) (\S+) +# (\S.*)", line)
        if match is None:
            raise unusable(f"{EXPECTED.name}:{number}: is not `SUITE WAYS TEST   # reason`")
        of_suite, ways, test, reason = match.groups()
        if of_suite == suite and way_name in ways.split(","):
            expected[test] = reason
    return expected


def differences(here, there):
    """Returns the tests that pass or are skipped in the local folder, and have another result on the target."""
    found = {}
    for name in sorted(here.keys() | there.keys()):
        local, remote = here.get(name, "absent"), there.get(name, "absent")
        if local != remote and local != "failed":
            found[name] = (local, remote)
    return found


def problems(here, there, expected):
    """Yields a line for each difference that is not expected, and for each expected one that is absent."""
    found = differences(here, there)
    unused = set(expected)
    for name, (local, remote) in found.items():
        patterns = {pattern for pattern in expected if fnmatch.fnmatchcase(name, pattern)}
        unused -= patterns
        if not patterns:
            yield f"{name}: {local} in the local folder, {remote} on the target"
    # Tests that were not chosen, or that this machine cannot run, say nothing about a pattern.
    passed = [name for name in here if here[name] == there.get(name) and here[name] not in NOT_PASSED]
    for pattern in sorted(unused):
        if fnmatch.filter(passed, pattern):
            yield f"{pattern}: is listed in {EXPECTED.name}, but passes on the target, too"


# The suite `errors` has other results than passed, failed and skipped: the errors of calls.
NOT_PASSED = ("failed", "skipped")


def count(results, result):
    return sum(1 for value in results.values() if (value if value in NOT_PASSED else "passed") == result)


def report(name, here, there):
    for place, results in (("local", here), ("target", there)):
        print(f"{name:24} {place:7} {count(results, 'passed'):6} passed {count(results, 'failed'):6} failed "
              f"{count(results, 'skipped'):6} skipped", flush=True)


HELP = """\
suites, and the folder that each needs:

  errors     farcall_errno_table, a program   ./run build: build/release/bin. Calls of libc, most of which fail
             of this build.
  fsx        fsx, or ltp/fsx, the program.    git clone https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git;
             make. Tests are seeds
  xfstests   the same checkout, for the mount. Tests are arguments of its program check, after --: generic/001
  fio        fio, the program.                apt-get install fio: /usr/bin. Tests are jobs of this command
  pjdfstest  pjdfstest, the program, and      git clone https://github.com/pjd/pjdfstest.git;
             tests/.                          autoreconf -ifs && ./configure && make pjdfstest
  git        git, t/ and t/helper/test-tool.  apt-get source git, or git clone https://github.com/git/git.git; make
  sqlite     testfixture and Makefile.        apt-get source sqlite3; in an empty folder:
                                              .../configure --enable-all && make testfixture
  cpython    test_os.py and so on.            apt-get install libpython3.11-testsuite: /usr/lib/python3.11/test;
                                              it lacks test_sqlite3, which apt-get source python3.11 has
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="./run suites", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a suite in a local folder and in a folder of host files, and compares the results.",
        epilog=HELP)
    parser.add_argument("name", choices=SUITES, metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="a checkout or build of the suite")
    parser.add_argument("tests", nargs="*", metavar="TEST",
                        help="scripts, modules or jobs of the suite, also with * and ?; a selection unless given")
    parser.add_argument("--way", choices=WAYS, default="preload", help="way to use host files")
    parser.add_argument("--verbose", action="store_true", help="print the output of failed tests")
    parser.add_argument("--farcall", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    # Ends the processes of a suite, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    here, there = {}, {}
    try:
        expected = read_expected(EXPECTED.read_text(encoding="utf-8"), options.name, options.way)
        if options.way == "mount":
            require_mounts(options.farcall)
        tests = SUITES[options.name](options.folder.resolve(), options.tests, WAYS[options.way])
        if not tests:
            raise unusable(f"{options.folder}: has no test of these names: {' '.join(options.tests)}")
        with tempfile.TemporaryDirectory(prefix="farcall-suites-") as scratch:
            for test in tests:
                local = run(test, options, pathlib.Path(scratch), on_target=False)
                remote = run(test, options, pathlib.Path(scratch), on_target=True)
                report(test[0], local, remote)
                here |= local
                there |= remote
    except unusable as reason:
        print(f"suites: {options.name}: {reason}")
        return SKIPPED
    if len(tests) > 1:
        report("all", here, there)
    found = list(problems(here, there, expected))
    differing = len(differences(here, there))
    print(f"{differing} test(s) differ; {len(found)} problem(s)")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
