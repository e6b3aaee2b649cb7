#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles programs that must not compile, and checks the error.

Run as: run_compile_fail.py <project root> [file.cpp ...]. Each .cpp file of this folder begins with

    // expect: <regular expression that the one error must match, or: success>
    // names: <regular expression for the type that the error must name>
    // first: <optional regular expression for the error's line, or g++'s line that says where it begins>
    // flags: <optional flags of the compiler>

and is compiled with g++, and with clang++-19 if it is installed. A file passes if it has one error, which
matches these lines. Headers that many files include first are precompiled.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMPILERS = {"g++": True, "clang++-19": False}  # name → required
PRECOMPILED = ("farcall/farcall.hpp", "farcall/call/pack.hpp")


def promise(path, word):
    match = re.search(rf"^// {word}: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return match.group(1).strip() if match else None


def is_clang(compiler):
    return compiler.startswith("clang")


def precompiled(header, folder, compiler):
    """Returns the path of a header's precompiled form."""
    return folder / compiler / f"{header}.{'pch' if is_clang(compiler) else 'gch'}"


def precompile(header, compiler, root, folder):
    to = precompiled(header, folder, compiler)
    to.parent.mkdir(parents=True, exist_ok=True)
    # -w: g++ warns of `#pragma once` in a header that is compiled by itself.
    subprocess.run([compiler, "-std=c++20", "-w", "-x", "c++-header", f"-I{root}",
                    str(root / header), "-o", str(to)], check=True, timeout=100)


def options(path, compiler, folder):
    """Returns the flags of `path`: its own ones, or flags that use its first header precompiled."""
    own = promise(path, "flags")
    if own:
        return own.split()
    first = re.search(r"^#include <(.*)>$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if not first or first.group(1) not in PRECOMPILED:
        return []
    if is_clang(compiler):
        return ["-include-pch", str(precompiled(first.group(1), folder, compiler))]
    # g++ finds the precompiled header by the path of the header.
    return [f"-I{folder / compiler}"]


def beginning(errors):
    """Returns the error's line, after g++'s last line that says what is instantiated."""
    lines = errors.splitlines()
    at = next(i for i, line in enumerate(lines) if re.search(r"\b(?:fatal )?error: ", line))
    first = next((i for i in range(at, -1, -1) if ": In " in lines[i]), at)
    return f"{lines[first]}\n{lines[at]}"


def complaint(compiler, root, path, folder):
    """Returns how the compilation of `path` differs from its promises, or None."""
    run = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", *options(path, compiler, folder), f"-I{root}",
         str(path)],
        env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, timeout=100)
    expected, name = promise(path, "expect"), promise(path, "names")
    if expected == "success":
        return f"should compile:\n{run.stderr}" if run.returncode else None
    if not expected or not name:
        return "needs a line '// expect: …' and a line '// names: …'"
    if run.returncode == 0:
        return "compiles, and must not"
    errors = re.findall(r"^.*\b(?:fatal )?error: .*$", run.stderr, re.MULTILINE)
    if len(errors) != 1:
        return f"{len(errors)} errors instead of one:\n" + "\n".join(errors)
    if not re.search(expected, errors[0]):
        return f"the error does not match '{expected}':\n{errors[0]}"
    if not re.search(name, run.stderr):
        return f"nothing names '{name}':\n{run.stderr}"
    first = promise(path, "first")
    if first and not re.search(first, beginning(run.stderr)):
        return f"what names '{first}' does not come first:\n{run.stderr}"
    return None


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [pathlib.Path(name) for name in sys.argv[2:]]
    files = files or sorted(pathlib.Path(__file__).resolve().parent.glob("*.cpp"))
    if not any(promise(path, "expect") != "success" for path in files):
        raise SystemExit("compile_fail: no files that must not compile")

    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for compiler, required in COMPILERS.items():
            if shutil.which(compiler) is None:
                print(f"{compiler}: not installed" + ("" if required else ", left out"))
                failures += required
                continue
            for header in PRECOMPILED:
                precompile(header, compiler, root, folder)
            for path in files:
                wrong = complaint(compiler, root, path, folder)
                failures += wrong is not None
                print(f"{compiler} {path.name}: {wrong or 'as promised'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
