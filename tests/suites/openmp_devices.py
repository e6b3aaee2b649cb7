# SPDX-License-Identifier: Apache-2.0
"""Runs OpenMP programs by LLVM's packaged plugin and on targets of farcall, in suites."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "compat" / "openmp" / "tests"))
import omptarget  # pylint: disable=wrong-import-position


def plain_environment():
    """Returns the environment without variables of farcall and of OpenMP runtimes."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("FARCALL_", "OMP_", "KMP_"))}


def packaged_environment(llvm):
    """Returns the variables with which a program finds the packaged plugin of this version of LLVM."""
    # The packaged plugin is found by the loader's path only.
    return {"LD_LIBRARY_PATH": str(omptarget.folder_of(llvm) / "lib")}


def ended(command, environment, seconds):
    """Runs a program and the processes that it starts; returns its status, or None if it hangs, and its output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env=environment, start_new_session=True, encoding="utf-8", errors="replace") as process:
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        return process.returncode, output


@contextlib.contextmanager
def served(farcall, environment, count):
    """A server of targets; returns the URL of `count` of them."""
    target = pathlib.Path(farcall).resolve().with_name("farcall-openmp-target")
    with subprocess.Popen([farcall, "serve", "--plain", "--listen", "127.0.0.1:0", "--", target],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as server:
        try:
            for line in server.stdout:
                found = re.search(r"(\d+\.\d+\.\d+\.\d+:\d+)", line)
                if found:
                    break
            yield f"tcp://{found.group(1)}?count={count}"
        finally:
            server.terminate()
            server.communicate()
