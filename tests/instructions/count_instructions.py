#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that a call costs its caller in a window of 256, from making the call to
taking its result, and checks that the number has not risen.

Run as: count_instructions.py <farcall_window_of_calls>
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

WINDOW = 256
ROUNDS = (20, 120)
# Count of g++ 12 at -O2, plus five percent. A change that raises the limit says why here.
MOST = 208
# A smaller count means that something else was counted.
LEAST = 50


def instructions(program, rounds):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts",
             "--collect-atstart=no", "--toggle-collect=make_calls",
             "--toggle-collect=take_results", str(program), str(rounds)], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True,
            timeout=200, check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        raise SystemExit(f"{program} {rounds} under valgrind ended with {run.returncode}:\n"
                         f"{run.stdout}{run.stderr}")
    return int(found.group(1))


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    few, many = (instructions(program, rounds) for rounds in ROUNDS)
    each = (many - few) / ((ROUNDS[1] - ROUNDS[0]) * WINDOW)
    print(f"{each:.0f} instructions for each call, {MOST} at most")
    return 0 if LEAST <= each <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
