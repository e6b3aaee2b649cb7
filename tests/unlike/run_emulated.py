#!/usr/bin/env python3
"""Runs an example here with two targets that are the same example for another machine.

Run as: run_emulated.py <machine> <build folder of that machine> <program> [argument...]. Exits with
77 when the other program is not built, or nothing can run it; `./run test` says in FARCALL_CROSS
which machines it has built for, and then that is a failure.
"""

import os
import pathlib
import shutil
import subprocess
import sys


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    machine, folder, program, *arguments = sys.argv[1:]
    other = pathlib.Path(folder) / "bin" / pathlib.Path(program).name
    missing = None
    if not other.exists():
        missing = f"{other} is not built; ./run cross {machine} builds it"
    elif shutil.which(f"qemu-{machine}") is None:
        missing = f"qemu-{machine} is not installed; ./run cross {machine} installs it"
    if missing:
        print(missing)
        return 1 if machine in os.environ.get("FARCALL_CROSS", "").split() else 77

    targets = f"exec:qemu-{machine} -L /usr/{machine}-linux-gnu '{other}'?count=2"
    run = subprocess.run([program, *arguments], timeout=200,
                         env={**os.environ, "FARCALL_TARGETS": targets,
                              "FARCALL_START_TIMEOUT_MS": "60000"})
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
