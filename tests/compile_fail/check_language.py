#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the error text for a program that is compiled as C++17, or without exceptions.

Run as: check_language.py <project root>. Compiles farcall.hpp in both ways, with g++, and with clang++-19
if it is installed. The first error must say what is missing; only the error that ends the compilation may
follow. The first include of each public header must lead to farcall/base/language.hpp, which has the check.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

COMPILERS = {"g++": True, "clang++-19": False}  # name → required
LANGUAGES = {("-std=c++17",): "farcall needs C++20",
             ("-std=c++20", "-fno-exceptions"): "farcall needs exceptions"}
MOST_ERRORS = 2
FIRST = "farcall/base/language.hpp"


def public_headers(root):
    """Yields farcall.hpp and the headers of C++ that the layers' CMakeLists.txt name."""
    yield "farcall/farcall.hpp"
    for lists in sorted((root / "farcall").glob("*/CMakeLists.txt")):
        for line in re.findall(r"^ *HEADERS (.*)$", lists.read_text(encoding="utf-8"), re.MULTILINE):
            for name in line.split():
                # A variable in place of a name holds further headers of this folder.
                if not name.startswith("$") and not name.endswith(".h"):
                    yield (lists.parent / name).relative_to(root).as_posix()


def first_include(header):
    """Returns the include that comes before all other code of the header, or None."""
    for line in header.read_text(encoding="utf-8").splitlines():
        if line.startswith("#pragma once") or line.startswith("//") or not line.strip():
            continue
        match = re.match(r"#include <(farcall/.*)>", line)
        return match.group(1) if match else None
    return None


def begins_with_check(header, root):
    seen = set()
    while header and header != FIRST and header not in seen:
        seen.add(header)
        header = first_include(root / header)
    return header == FIRST


def complaint(compiler, options, expected, root):
    run = subprocess.run([compiler, *options, "-fsyntax-only", f"-I{root}", "-x", "c++", "-"],
                         input="#include <farcall/farcall.hpp>\n", env={**os.environ, "LC_ALL": "C"},
                         capture_output=True, text=True, timeout=100)
    errors = re.findall(r"^.*\berror: .*$", run.stderr, re.MULTILINE)
    if not errors or expected not in errors[0]:
        return f"the first error is not '{expected}': {errors[0] if errors else 'none'}"
    return f"{len(errors)} errors" if len(errors) > MOST_ERRORS else None


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    headers = list(public_headers(root))
    if len(headers) < 2:
        raise SystemExit("check_language: no public headers found")
    wrong = [f"{header}: its first include does not lead to {FIRST}"
             for header in headers if not begins_with_check(header, root)]
    for compiler, required in COMPILERS.items():
        if shutil.which(compiler) is None:
            print(f"{compiler}: not installed" + ("" if required else ", left out"))
            if required:
                wrong.append(f"{compiler} is missing")
            continue
        for options, expected in LANGUAGES.items():
            what = complaint(compiler, options, expected, root)
            if what:
                wrong.append(f"{compiler} {' '.join(options)}: {what}")
    print("\n".join(wrong) or f"{len(headers)} headers, as promised")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
