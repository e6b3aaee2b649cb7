#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the table of the C library's functions: check_exports.py [--update] LIBRARY CLANG [LIBC]

LIBRARY is libfarcall-io.so. libc_exports.txt has a row for each function that the C library exports: its name, a
verdict and a note. Verdicts are:

  interposed  the preloaded library has the function, too
  refused     the same, and for files of the host the function fails with the error number that is the note's first
              word; the guide names both in one line
  safe        libc's function is right for files of the host, too. If it takes a path, a descriptor, a FILE* or a DIR*,
              a test in this folder calls it

With --update, adds the missing rows as safe or interposed, and removes rows of functions that are gone.
"""

import pathlib
import re
import sys

from libc_headers import base_of, declared, exports, takes_file

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "libc_exports.txt"
GUIDE = HERE.parent.parent / "docs/guide/16-files.md"
# Parameters of these functions are texts that no function opens; argp_state_help() writes like argp_help().
TEXTS = {"__assert", "__assert_fail", "__assert_perror_fail", "__xpg_basename", "basename", "dirname", "argp_state_help"}
HEAD = """# Functions that the C library exports, for check_exports.py: name, verdict, note.
# Of glibc {version}; rows of functions that another version lacks, or has in addition, are not checked there.
"""


def read_table(text):
    """Returns the rows as name -> (verdict, note), the version in the head, and messages about faulty lines."""
    rows, problems = {}, []
    version = re.search(r"# Of glibc ([\d.]+)", text)
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, verdict, note = (line.split(None, 2) + ["", ""])[:3]
        if verdict not in ("interposed", "refused", "safe"):
            problems.append(f"line {number}: {name} has no verdict: interposed, refused or safe")
        if name in rows:
            problems.append(f"line {number}: {name} has a row already")
        rows[name] = (verdict, note)
    return rows, version.group(1) if version else "", problems


def is_documented(name, error, guide):
    """True if a line of the guide has both the function and the error number."""
    names = {name, base_of(name), re.sub(r"64(?=_|$)", "", base_of(name))}
    return any(f"`{error}`" in line and any(f"`{n}`" in line for n in names) for line in guide.splitlines())


def is_called(name, tests):
    """True if a test calls the function, or the one of which this is another name."""
    names = {name, base_of(name), re.sub(r"64(?=_|$)", "", base_of(name))}
    return any(re.search(rf"\b{re.escape(n)}\s*\(", tests) for n in names)


def check(rows, ours, functions, guide, tests):
    """Yields a message for each row that is not true."""
    for name, (verdict, note) in rows.items():
        if verdict in ("interposed", "refused") and name not in ours:
            yield f"{name} is {verdict}, but the library does not export it"
        if verdict == "safe" and name in ours:
            yield f"{name} is safe, but the library exports it: the verdict is interposed or refused"
        if verdict == "refused":
            error = (note.split() or [""])[0]
            if not re.fullmatch(r"E[A-Z]+", error):
                yield f"{name} is refused without an error number"
            elif not is_documented(name, error, guide):
                yield f"{name} is refused with {error}, which no line of {GUIDE.name} says"
        new_name = name.removeprefix("_IO_")
        if verdict == "safe" and new_name != name and rows.get(new_name, ("safe",))[0] != "safe":
            yield f"{name} is safe, but {new_name} is {rows[new_name][0]}: give both the same verdict"
        if verdict == "safe" and name not in TEXTS and takes_file(name, functions) and not is_called(name, tests):
            yield f"{name} is safe and takes a file, but no test calls it"


def check_names(rows, there):
    """Yields a message for each function without a row, and for each row without a function."""
    yield from (f"{name} has no row" for name in sorted(there - rows.keys()))
    yield from (f"{name} has a row, but the C library does not export it" for name in sorted(rows.keys() - there))


def write_table(rows, there, ours, version):
    lines = [HEAD.format(version=version)]
    for name in sorted(there):
        verdict, note = rows.get(name, ("safe", ""))
        if verdict == "safe" and name in ours:
            verdict = "interposed"
        lines.append(f"{name} {verdict} {note}".strip() + "\n")
    TABLE.write_text("".join(lines), encoding="utf-8")


def libc_in_use():
    """Returns the path of the C library of this process, and its version."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
    path = re.search(r"/\S*/libc\.so\.6$", maps, re.M).group()
    import os
    return path, os.confstr("CS_GNU_LIBC_VERSION").split()[-1]


def main(arguments):
    update = "--update" in arguments
    arguments = [a for a in arguments if a != "--update"]
    libc, version = libc_in_use()
    there = exports(arguments[2] if len(arguments) > 2 else libc)
    ours = exports(arguments[0])
    rows, of_version, problems = read_table(TABLE.read_text(encoding="utf-8") if TABLE.exists() else "")
    if update:
        write_table(rows, there, ours, version)
        return 0
    if version == of_version:
        problems += check_names(rows, there)
    else:
        rows = {name: row for name, row in rows.items() if name in there}
    tests = "".join(p.read_text(encoding="utf-8") for p in HERE.glob("*_test.cpp"))
    problems += check(rows, ours, declared(arguments[1]), GUIDE.read_text(encoding="utf-8"), tests)
    for problem in problems:
        print(f"{TABLE.name}: {problem}")
    print(f"{len(problems)} problem(s) in {len(rows)} rows")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
