# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of the package."""

import faulthandler
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import farcall
from farcall import _paths

GUARD_SECONDS = 60
# Targets start slowly on a machine with much other work.
os.environ.setdefault("FARCALL_START_TIMEOUT_MS", "45000")
TemporaryFolder = tempfile.TemporaryDirectory

try:
    import cloudpickle  # noqa: F401
    HAS_CLOUDPICKLE = True
except ImportError:
    HAS_CLOUDPICKLE = False

needs_cloudpickle = unittest.skipUnless(HAS_CLOUDPICKLE, "cloudpickle is not installed")


class TestCase(unittest.TestCase):
    """Test that ends the process, with the stacks of all threads, if it hangs."""

    GUARD = GUARD_SECONDS

    def setUp(self):
        faulthandler.dump_traceback_later(self.GUARD, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def executor(self, *arguments, **options):
        """Returns an executor that ends with the test."""
        made = farcall.Executor(*arguments, **options)
        self.addCleanup(made.shutdown)
        return made


def stress_rounds(full):
    """Returns the number of rounds of a stress test: all in `./run soak`, and otherwise a fifth."""
    return full if os.environ.get("FARCALL_TEST_LENGTH") == "full" else full // 5


def run(command, seconds=GUARD_SECONDS):
    """Runs a command, and returns its exit status, output and errors."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr


def run_program(text):
    """Runs a program of Python, and returns its exit status, output and errors."""
    return run([sys.executable, "-c", textwrap.dedent(text)])


def build_program(case, source):
    """Returns the path of a program of targets that the tests of a class use. Skips them if there is no compiler."""
    folder = tempfile.TemporaryDirectory()
    case.addClassCleanup(folder.cleanup)
    path = os.path.join(folder.name, "target")
    try:
        command = ["cc", "-rdynamic", "-I", _paths.get_include(), os.path.join(os.path.dirname(__file__), source),
                   "-o", path, *shlex.split(_paths.libraries())]
    except FileNotFoundError as error:
        raise unittest.SkipTest(str(error)) from None
    status, _, errors = run(command) if shutil.which("cc") else (1, "", "there is no cc")
    if status != 0:
        raise unittest.SkipTest(f"cannot build a program in C: {errors}")
    return path


def sizes_of_process(*names):
    """Return values of /proc/self/status, in KiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file)
    return [int(values[name].split()[0]) for name in names]


def anonymous_memory_of(pid):
    """Returns how many bytes of a process are in no file, also if a parent has the same pages."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return 1024 * int(re.search(r"^Anonymous: +(\d+) kB", text, re.M).group(1))


def is_gone(pid):
    """True if a process has ended; a zombie has ended, too."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def stop(pid):
    """Stops a process, and waits until all its threads have stopped, which they do one after another."""
    def is_stopped(task):
        try:
            return task.read_text().rpartition(")")[2].split()[0] == "T"
        except (FileNotFoundError, ProcessLookupError):
            return True

    os.kill(pid, signal.SIGSTOP)
    if not wait_until(lambda: all(map(is_stopped, pathlib.Path(f"/proc/{pid}/task").glob("*/stat")))):
        raise AssertionError(f"process {pid} has not stopped")


def wait_until(condition, seconds=GUARD_SECONDS / 2):
    """Waits until a condition holds. Returns False if this takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def main():
    """Runs the tests of the calling file.

    With the argument `--packages FOLDER`, the tests need packages in this folder: the program then skips if the folder
    does not exist, and otherwise fails if a test skips because a package is missing.
    """
    folder = sys.argv.pop(sys.argv.index("--packages") + 1) if "--packages" in sys.argv else None
    if folder is not None:
        sys.argv.remove("--packages")
        if not os.path.isdir(folder):
            print(f"skipped: {folder} does not exist; ./run setup test installs packages into it")
            sys.exit(77)
    # unittest of Python 3.12 exits with status 5 if all tests skip.
    program = unittest.main(verbosity=2, exit=False)
    missing = [str(test) for test, reason in program.result.skipped if folder is not None and "not installed" in reason]
    for test in missing:
        print(f"{test} lacks a package of {folder}")
    sys.exit(not program.result.wasSuccessful() or bool(missing))
