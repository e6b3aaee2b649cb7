#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs mini-applications of other projects on targets of farcall: miniapps.py [--llvm VERSION] FOLDER [TEST…].

`./run suites miniapps` runs this program with the option --farcall. FOLDER has the programs of PROGRAMS, which their
own projects have built for -fopenmp-targets of this machine's processor. Each program runs by LLVM's packaged plugin,
and then on 1, 2 and 4 targets of this machine, and of a server. Its regions run on the last of these devices. It passes
if it ends with 0 and reports that its results are right. The command fails if a program passes by the packaged plugin
but not everywhere on targets, or if no program passes.
"""

import argparse
import pathlib
import re
import sys
import time

import openmp_devices
from openmp_devices import omptarget

SKIPPED = 77
# Ends a program that hangs.
SECONDS = 900
DEVICES = (1, 2, 4)
# Programs by kind: file in the folder, arguments, and the text by which the program reports right results.
PROGRAMS = {
    "stencil": ("stencil-target", ["10", "1000"], re.compile(r"^Solution validates$", re.M)),
    "transport": ("XSBench", ["-s", "small", "-m", "event"],
                  re.compile(r"^Verification checksum: \d+ \(Valid\)$", re.M)),
    "solver": ("gaussian", ["-s", "256"], re.compile(r"^PASS$", re.M)),
}


def result_of(status, output, right):
    """Returns the result of a program that has ended with this status and output."""
    if status is None:
        return "hung"
    return "passed" if status == 0 and right.search(output) else "failed"


def problems(results):
    """Yields a line for each unexpected result. `results` has pairs of place and result for each program."""
    passed = [name for name, by_place in results.items() if by_place["packaged"] == "passed"]
    for name in passed:
        for place, result in results[name].items():
            if result != "passed":
                yield f"{name}: {result} on {place}"
    if not passed:
        yield "no program passes by the packaged plugin"


def main():
    """Runs the programs, and prints the problems."""
    parser = argparse.ArgumentParser(prog="./run suites miniapps", description="Runs mini-applications on targets.",
                                     epilog="programs: " + ", ".join(f"{file} ({kind})" for kind, (file, *_) in
                                                                     PROGRAMS.items()))
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER", help="folder that has the built programs")
    parser.add_argument("tests", nargs="*", metavar="TEST", help=f"{', '.join(PROGRAMS)}; all unless given")
    parser.add_argument("--llvm", choices=("15", "16"), default="16", help="version of the clang that built them")
    parser.add_argument("--farcall", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if omptarget.folder_of(options.llvm) is None:
        print(f"suites: miniapps: libomptarget of LLVM {options.llvm} is not installed")
        return SKIPPED
    chosen = options.tests or list(PROGRAMS)
    if not set(chosen) <= PROGRAMS.keys():
        parser.error(f"there are the programs {', '.join(PROGRAMS)}")
    absent = [PROGRAMS[kind][0] for kind in chosen if not (options.folder / PROGRAMS[kind][0]).is_file()]
    if absent:
        print(f"suites: miniapps: {options.folder} has no {', '.join(absent)}")
        return SKIPPED
    # Without devices, a program would run its regions on the host, and pass.
    plain = openmp_devices.plain_environment() | {"OMP_TARGET_OFFLOAD": "MANDATORY"}
    results = {}

    def run(kind, place, before, variables):
        file, arguments, right = PROGRAMS[kind]
        begin = time.monotonic()
        status, output = openmp_devices.ended([*before, options.folder.resolve() / file, *arguments],
                                              plain | variables, SECONDS)
        result = result_of(status, output, right)
        results.setdefault(kind, {})[place] = result
        print(f"{kind:9} {place:24} {result} after {time.monotonic() - begin:.1f} s", flush=True)
        if result != "passed":
            print(f"status {status}, last lines:", *output.splitlines()[-10:], sep="\n", flush=True)

    with openmp_devices.served(options.farcall, openmp_devices.plain_environment(), max(DEVICES)) as server:
        for kind in chosen:
            run(kind, "packaged", [], openmp_devices.packaged_environment(options.llvm))
            for link, targets in (("shm", "shm:{}"), ("tcp", server.partition("?")[0] + "?count={}")):
                for count in DEVICES:
                    run(kind, f"device {count} of {count} by {link}",
                        [options.farcall, "run", "--openmp", "--targets=" + targets.format(count)],
                        {"OMP_DEFAULT_DEVICE": str(count - 1)})
    found = list(problems(results))
    print(f"{len(found)} problem(s)")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
