#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that g++ and clang++ give functions the same signature texts.

Run as: compare_signatures.py <project root>. Exits with 77 if one of the compilers is missing.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILERS = ("g++", "clang++-19")
SOURCE = pathlib.Path(__file__).resolve().parent / "print_signatures.cpp"

# Signatures that the documentation quotes.
KNOWN = ("FvvE|-", "FddE|8:8,8:8")


def signatures(compiler, root, folder):
    program = folder / compiler
    subprocess.run([compiler, "-std=c++20", "-w", f"-I{root}", str(SOURCE), "-o", str(program)],
                   check=True, timeout=100)
    run = subprocess.run([str(program)], check=True, timeout=20, capture_output=True, text=True)
    return run.stdout.splitlines()


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for compiler in COMPILERS:
        if shutil.which(compiler) is None:
            print(f"{compiler} is not installed; there is nothing to compare")
            return 77

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (signatures(compiler, sys.argv[1], pathlib.Path(folder))
                        for compiler in COMPILERS)
    different = [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
    for pair in different:
        for compiler, text in zip(COMPILERS, pair):
            print(f"{compiler}: {text}")
    missing = [text for text in KNOWN if text not in ours]
    for text in missing:
        print(f"no function has the signature {text}")
    print(f"{len(ours)} and {len(theirs)} signatures, {len(different)} differ")
    return 1 if different or missing or not ours or len(ours) != len(theirs) else 0


if __name__ == "__main__":
    sys.exit(main())
