#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the sources of a next minor release: next_release.py <source folder> <folder>

Copies the sources of the library, and increments the minor version, the number of the binary interface, and the
versions of the wire format and of connections. Files that are already there and equal keep their times, so that a
second build compiles nothing.
"""

import pathlib
import re
import sys

SOURCES = ("CMakeLists.txt", "cmake", "farcall")
NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
# Files with a number, the pattern that finds it, and the difference to the next release's.
CHANGES = (
    ("CMakeLists.txt", r"^  VERSION \d+\.(\d+)\.\d+$", 1),
    ("CMakeLists.txt", r"^set\(FARCALL_ABI (\d+)\)$", 1),
    ("farcall/farcall.h", r"FC_VERSION_MINOR (\d+) ", 1),
    ("farcall/base/version.hpp", r"this_release = (0x\w{6});", 0x000100),
    ("farcall/transport/wire_release.hpp", r" wire_version = (\d+);", 1),
    ("farcall/transport/tcp/handshake.hpp", r" connection_version = (\d+);", 1),
)


def incremented(text, pattern, difference):
    """Returns the text with another number where the pattern finds one. The pattern must match once."""
    found, = re.finditer(pattern, text, re.M)
    number = found[1]
    other = int(number, 0) + difference
    as_text = f"0x{other:0{len(number) - 2}x}" if number.startswith("0x") else str(other)
    return text[:found.start(1)] + as_text + text[found.end(1):]


def files_of(source):
    """Yields the files of the library, relative to the source folder."""
    for name in SOURCES:
        path = source / name
        for file in sorted(path.rglob("*")) if path.is_dir() else (path,):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(source)


def make(source, folder):
    """Makes the copy."""
    wanted = set()
    for name in files_of(source):
        content = (source / name).read_bytes()
        for file, pattern, difference in CHANGES:
            if pathlib.Path(file) == name:
                content = incremented(content.decode(), pattern, difference).encode()
        copy = folder / name
        wanted.add(copy)
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    for left in folder.rglob("*"):
        if left.is_file() and left not in wanted:
            left.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
