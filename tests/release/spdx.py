#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each source file names its licence in a line of its own (SPDX).

Run as: spdx.py [--fix] [root]. Prints the files without the line, and exits with status 1 if there are any. --fix adds
the line to these files.
"""

import pathlib
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
SLASHES = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".js")
HASHES = (".py", ".pyi", ".sh", ".bash", ".cmake", ".tcl")
# The line is one of the first ones, behind the line that names the interpreter.
FIRST = 3


def mark_of(path, first_line):
    """Returns the beginning of a comment in the language of a file, or None if the file is no source."""
    # Templates of sources end in ".in", as in "a.c.in".
    suffix = pathlib.PurePath(path.stem).suffix if path.suffix == ".in" else path.suffix
    # Programs in C90 include headers of compat/.
    if suffix in (".map", ".css") or (suffix in (".c", ".h") and "compat" in path.parts):
        return "/*"
    if suffix in SLASHES or suffix == ".S":
        return "//"
    if suffix == ".f90":
        return "!"
    if suffix in HASHES or path.name == "CMakeLists.txt" or first_line.startswith("#!"):
        return "#"
    return None


def sources_in(root):
    """Yields the source files of the tree that git knows or would add."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=False,
                            stdout=subprocess.PIPE)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if "build" not in path.parts]
    for name in sorted(filter(None, names)):
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            mark = mark_of(path, file.readline())
        if mark:
            yield path, mark


def has_line(path):
    with path.open(encoding="utf-8", errors="replace") as file:
        return any(LINE in line for line, _ in zip(file, range(FIRST)))


def add_line(path, mark):
    text = path.read_text(encoding="utf-8")
    first, rest = "", text
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        first += "\n"
    line = f"{mark} {LINE}{' */' if mark == '/*' else ''}\n"
    # A blank line keeps the line apart from the first comment of the file.
    gap = "\n" if rest.startswith((mark, "/*")) else ""
    path.write_text(first + line + gap + rest, encoding="utf-8")


def main():
    arguments = sys.argv[1:]
    fix = "--fix" in arguments
    roots = [argument for argument in arguments if argument != "--fix"]
    root = pathlib.Path(roots[0]) if roots else pathlib.Path(__file__).resolve().parents[2]
    lacking = [(path, mark) for path, mark in sources_in(root) if not has_line(path)]
    for path, mark in lacking:
        if fix:
            add_line(path, mark)
        else:
            print(f"{path.relative_to(root)}: the first {FIRST} lines lack '{LINE}'; spdx.py --fix adds it")
    return 1 if lacking and not fix else 0


if __name__ == "__main__":
    sys.exit(main())
