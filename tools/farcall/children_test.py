#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the farcall command from a program that ignores SIGCHLD, which its children inherit.

Run as: children_test.py <farcall> <program> <1 if the command has the profiler, else 0>
"""

import os
import signal
import subprocess
import sys
import tempfile

HANG_LIMIT_S = 60


def run(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=HANG_LIMIT_S, stdin=subprocess.DEVNULL,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    except subprocess.TimeoutExpired as hung:
        raise SystemExit(f"{words} has not ended: {hung.stdout} {hung.stderr}") from hung


def expect_status(status, *words):
    done = run(*words)
    if done.returncode != status:
        raise SystemExit(f"{words}: status {done.returncode} in place of {status}\n{done.stdout}{done.stderr}")


def main():
    farcall, program, has_profiler = sys.argv[1:]
    for status in ("0", "3"):
        ends = (program, "status", status)
        expect_status(int(status), farcall, "run", "-n", "3", *ends)
        expect_status(int(status), farcall, "run", "--label", "-n", "3", *ends)
        if has_profiler == "0":
            continue
        with tempfile.TemporaryDirectory() as folder:
            expect_status(int(status), farcall, "prof", "-o", os.path.join(folder, "profile.svg"), "--", *ends)
    expect_status(0, farcall, "functions", program)
    expect_status(0, farcall, "info")


if __name__ == "__main__":
    main()
