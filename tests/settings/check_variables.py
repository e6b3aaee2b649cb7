#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/settings.md has every FARCALL_ variable that the tree reads or sets.

Run as: check_variables.py [project root]
"""

import pathlib
import re
import sys

DOCUMENT = "docs/settings.md"
CODE_FOLDERS = ("farcall", "compat", "tools", "python", "examples", "tests", "bench", "fuzz")
CODE = {".hpp", ".cpp", ".h", ".c", ".cu", ".py"}

# In code a variable is a whole string literal, or the beginning of "NAME=value". Variables of rows of the
# settings table never appear in code.
IN_CODE = re.compile(r'"(FARCALL_[A-Z0-9_]+)(?:"|=)')
# A shell script expands a variable, sets it for a command, or passes its name on.
IN_SHELL = re.compile(r"\$\{?(FARCALL_[A-Z0-9_]+)|(?<![\w-])(?<!-D)(FARCALL_[A-Z0-9_]+)="
                      r"|variable=(FARCALL_[A-Z0-9_]+)|set_tool (FARCALL_[A-Z0-9_]+)")
IN_DOCUMENT = re.compile(r"`(FARCALL_[A-Z0-9_]+\*?)`")


def is_shell(path):
    return not path.suffix and path.is_file() and path.read_bytes().startswith(b"#!/usr/bin/env bash")


def variables_in(path):
    """Yields (line number, name) of each variable in a source file or shell script."""
    pattern = IN_CODE if path.suffix in CODE else IN_SHELL
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for match in pattern.finditer(line):
            yield number, next(name for name in match.groups() if name)


def is_known(name, documented):
    return any(name.startswith(d[:-1]) if d.endswith("*") else name == d for d in documented)


def problems(root):
    documented = IN_DOCUMENT.findall((root / DOCUMENT).read_text(encoding="utf-8"))
    if not documented:
        yield f"{DOCUMENT}: names no variable"
    files = [p for folder in CODE_FOLDERS for p in sorted((root / folder).rglob("*"))
             if p.suffix in CODE or p.suffix == ".bash" or is_shell(p)]
    for path in files + [root / "run"]:
        # Unit tests invent variables.
        if not path.is_file() or path.stem.endswith("_test"):
            continue
        for number, name in variables_in(path):
            if not is_known(name, documented):
                yield (f"{path.relative_to(root).as_posix()}:{number}: {name} is not in {DOCUMENT}; "
                       "make it a row of a table of settings, and name it there")


def main(arguments):
    root = pathlib.Path(arguments[1] if len(arguments) > 1 else ".").resolve()
    found = list(problems(root))
    print("\n".join(found) if found else f"every variable is in {DOCUMENT}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
