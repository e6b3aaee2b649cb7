#!/usr/bin/env python3
"""Compiles the core of a target for NEC's vector engine, as far as Debian's clang can.

Run as: check_vector_engine.py <project root>. There are no headers for that machine, so those of
the compiler for ARM stand in: they are of the same kind, 64 bits and without anything of x86. The
layers below the job are made to object files, and the rest is looked at. Exits with 77 when clang or
the headers are missing.
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

# Made to object files: rings, dispatch, packing.
CORE = ("farcall/memory/ring.cpp", "farcall/am/responder.cpp", "farcall/call/invoke.cpp",
        "tests/vector_engine/core.cpp")
# Compiled without code.
FOLDERS = ("farcall/base", "farcall/memory", "farcall/am", "farcall/call")


def compile_for_it(root, source, *options):
    libraries = sorted((HEADERS / "c++").iterdir())[-1]
    return subprocess.run(
        [COMPILER, "--target=ve-unknown-linux-gnu", "-std=c++20", "-O1", "-Wall", "-Wextra",
         "-Werror", "-nostdinc++", "-isystem", str(libraries), "-isystem",
         str(libraries / "aarch64-linux-gnu"), "-isystem", str(HEADERS), f"-I{root}",
         *options, str(source)], capture_output=True, text=True, timeout=250)


def all_of(sources, folder):
    """Returns a source that includes these: most of the time of each goes into the same headers."""
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
        # A check that lets anything through is none.
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
