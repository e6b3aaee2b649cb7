#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example on this machine, with two emulated targets that run its build for another machine.

Run as: run_emulated.py <machine> <build folder of that machine> [--veo] <program> [argument...].
With --veo the program uses libveo, and its nodes run that machine's helper. Exits with 77 if the other
program is not built or there is no emulator for it; with 1 if `./run test` lists the machine in
FARCALL_CROSS, which means that it has built it.
"""

import os
import pathlib
import shutil
import subprocess
import sys


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    machine, folder, *command = sys.argv[1:]
    folder = pathlib.Path(folder)
    veo = command[0] == "--veo"
    if veo:
        del command[0]
        other = folder / "veo" / "libexec" / "farcall" / "veo" / "aveorun"
    else:
        other = folder / "bin" / pathlib.Path(command[0]).name
    missing = None
    if not other.exists():
        missing = f"{other} is not built; ./run cross {machine} builds it"
    elif shutil.which(f"qemu-{machine}") is None:
        missing = f"qemu-{machine} is not installed; ./run cross {machine} installs it"
    if missing:
        print(missing)
        return 1 if machine in os.environ.get("FARCALL_CROSS", "").split() else 77

    targets = f"exec:qemu-{machine} -L /usr/{machine}-linux-gnu '{other}'?count=2"
    environment = {"FARCALL_VEO_NODES" if veo else "FARCALL_TARGETS": targets,
                   "FARCALL_START_TIMEOUT_MS": "60000",
                   "VEO_TEST_KERNELS": str(folder / "compat" / "veo" / "tests" / "kernels")}
    run = subprocess.run(command, timeout=280, env={**os.environ, **environment})
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
