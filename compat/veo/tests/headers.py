#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles each public header of libveo alone, as C and as C++, old and new, without a warning.

Run as: headers.py --host <folder>... --kernel <folder> --c <compiler>... --cxx <compiler>...

The headers for kernels must compile with __ve__; veo_ve.h must not without.
"""

import argparse
import pathlib
import subprocess
import sys

C_STANDARDS = ("gnu89", "gnu99", "c11", "gnu17")
CXX_STANDARDS = ("c++98", "c++11", "c++20")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror")


def compiles(compiler, language, standard, include, options):
    """Returns the compiler's warnings about a header; empty if there are none."""
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, *options, "-fsyntax-only", "-"]
    done = subprocess.run(command, input=f'#include "{include}"\n', capture_output=True, text=True,
                          check=False)
    return done.stderr.strip() or (f"exit status {done.returncode}" if done.returncode else "")


def headers_in(folder):
    return [path.name for path in sorted(pathlib.Path(folder).glob("*.h"))]


def ways(args):
    for compiler in args.c:
        for standard in C_STANDARDS:
            # Strict C declares POSIX's clocks only with this macro; C++ always does.
            yield compiler, "c", standard, ["-D_DEFAULT_SOURCE"]
    for compiler in args.cxx:
        for standard in CXX_STANDARDS:
            yield compiler, "c++", standard, []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True, nargs="+")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--c", required=True, nargs="+")
    parser.add_argument("--cxx", required=True, nargs="+")
    args = parser.parse_args()

    folders = [f"-I{folder}" for folder in (*args.host, args.kernel)]
    headers = [name for folder in args.host for name in headers_in(folder)]
    kernel_headers = headers_in(args.kernel)
    if not headers or not kernel_headers:
        raise SystemExit("no headers in " + " ".join((*args.host, args.kernel)))

    count = 0
    problems = []
    for compiler, language, standard, options in ways(args):
        cases = [(name, []) for name in headers] + [(name, ["-D__ve__"]) for name in kernel_headers]
        for name, more in cases:
            count += 1
            said = compiles(compiler, language, standard, name, [*folders, *options, *more])
            if said:
                problems.append(f"{name}, {compiler} -std={standard}:\n{said}")
        for name in ["veo_ve.h"]:
            count += 1
            if not compiles(compiler, language, standard, name, [*folders, *options]):
                problems.append(f"{name}, {compiler} -std={standard}: compiles without __ve__")
    print("\n".join(problems + [f"{count} compilations, {len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
