#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the core of a target for NEC's vector engine with Debian's clang.

Run as: check_vector_engine.py <project root>. Debian has no headers for that machine. The headers for
64-bit ARM replace them: they are for 64 bits, too, and use no code of x86. The files in CORE are compiled
to object files; the other files of the layers below jobs are checked without code. Exits with 77 if clang
or the headers are missing.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

COMPILER = "clang++-19"
HEADERS = pathlib.Path("/usr/aarch64-linux-gnu/include")
VECTOR_ENGINE = 251  # e_machine of its object files

# Compiled to object files: rings, dispatch, packing.
CORE = ("farcall/memory/ring.cpp", "farcall/am/responder.cpp", "farcall/call/invoke.cpp",
        "tests/vector_engine/core.cpp")
# Folders whose other files are checked with -fsyntax-only.
FOLDERS = ("farcall/base", "farcall/memory", "farcall/am", "farcall/call")


def compile_for_it(root, source, *options):
    libraries = sorted((HEADERS / "c++").iterdir())[-1]
    return subprocess.run(
        [COMPILER, "--target=ve-unknown-linux-gnu", "-std=c++20", "-O1", "-Wall", "-Wextra",
         "-Werror", "-nostdinc++", "-isystem", str(libraries), "-isystem",
         str(libraries / "aarch64-linux-gnu"), "-isystem", str(HEADERS), f"-I{root}",
         *options, str(source)], capture_output=True, text=True, timeout=250)


def all_of(sources, folder):
    """Returns a source that includes all of these, since the common headers take most of the time."""
    together = folder / "together.cpp"
    together.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
    return together


def machine_of(file):
    with open(file, "rb") as elf:
        return struct.unpack_from("<H", elf.read(20), 18)[0]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    if shutil.which(COMPILER) is None:
        print(f"{COMPILER} is not installed")
        return 77
    if not (HEADERS / "c++").is_dir():
        print(f"{HEADERS}/c++ is not there: apt-get install g++-aarch64-linux-gnu")
        return 77

    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # x86 code must not compile, or the check would find no error at all.
        wrong = folder / "wrong.cpp"
        wrong.write_text('int f() { int a = 0; asm volatile("cpuid" : "=a"(a)); return a; }\n')
        if compile_for_it(root, wrong, "-fsyntax-only").returncode == 0:
            print("code for x86 compiles too: this checks nothing")
            failures += 1
        count = len(CORE)
        for source in CORE:
            made = folder / "made.o"
            run = compile_for_it(root, root / source, "-c", "-o", str(made))
            if run.returncode != 0:
                print(f"{source} does not compile:\n{run.stderr}")
                failures += 1
            elif machine_of(made) != VECTOR_ENGINE:
                print(f"{source} became code for machine {machine_of(made)}")
                failures += 1
        for layer in FOLDERS:
            sources = [path for path in sorted((root / layer).glob("*.cpp"))
                       if not path.name.endswith("_test.cpp") and str(path.relative_to(root)) not in CORE]
            count += len(sources)
            run = compile_for_it(root, all_of(sources, folder), "-fsyntax-only")
            if run.returncode != 0:
                print(f"{layer} does not compile:\n{run.stderr}")
                failures += 1
    print(f"{count} files, {failures} failures")
    return 1 if failures or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
