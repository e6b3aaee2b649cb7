#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what libveo exports with what its headers declare.

Run as: symbols.py --map libveo.map --headers <folder>... [--shared libveo.so] [--static libveo.a]
                   [--old libaveoVH.so]

The map has to name exactly the functions in the headers. A shared library has to export exactly
these, each in the version VERSION_1, and be called libveo.so.1; an archive has to define them. The
old name has to give the same functions. Needs nm and readelf.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

SONAME = "libveo.so.1"
FILE = "libveo.so.1.0.0"
VERSION = "VERSION_1"
# Headers without functions of the library: for kernels, and for clocks, which are inline.
NOT_OF_THE_LIBRARY = {"veo_ve.h", "veo_time.h", "urpc_time.h"}
DECLARED = re.compile(r"\b((?:farcall_)?veo_\w+|syscall_wrapper|ve_\w+|veos_\w+)\s*\(")


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def declared_in(path):
    """Returns the names of the functions that a header declares."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return set(DECLARED.findall(text))


def declared_in_folders(folders):
    names = set()
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("*.h")):
            if path.name not in NOT_OF_THE_LIBRARY:
                names |= declared_in(path)
    return names


def listed_in(path):
    """Returns the names in the version VERSION_1 of a linker's map."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    node = re.fullmatch(r"\s*(\w+)\s*\{\s*global:(.*)local:\s*\*;\s*\};\s*", text, re.DOTALL)
    if not node or node.group(1) != VERSION:
        raise SystemExit(f"{path}: not one version {VERSION} {{ global: ... local: *; }};")
    return set(node.group(2).replace(";", " ").split())


def differences(what, found, wanted):
    for name in sorted(wanted - found):
        yield f"{what}: {name} is missing"
    for name in sorted(found - wanted):
        yield f"{what}: {name} should not be there"


def exported_by(path):
    """Returns (names in the right version, lines of other symbols)."""
    names = set()
    others = []
    listing = output_of("nm", "-D", "--defined-only", "--with-symbol-versions", path)
    for line in listing.splitlines():
        symbol = line.split()[-1]
        name, _, version = symbol.partition("@@")
        if name == VERSION:
            continue  # the version itself
        if version == VERSION:
            names.add(name)
        else:
            others.append(symbol)
    return names, others


def dynamic_entries(path, tag):
    return re.findall(rf"\({tag}\)[^\[]*\[([^\]]*)\]", output_of("readelf", "-dW", path))


def check_shared(path, wanted):
    names, others = exported_by(path)
    yield from differences(path, names, wanted)
    for symbol in others:
        yield f"{path}: exports {symbol}, which is not in {VERSION}"
    soname = dynamic_entries(path, "SONAME")
    if soname != [SONAME]:
        yield f"{path}: its soname is {soname}, not {SONAME}"
    if os.path.basename(os.path.realpath(path)) != FILE:
        yield f"{path}: leads to {os.path.realpath(path)}, not to a file {FILE}"


def check_static(path, wanted):
    defined = []
    for line in output_of("nm", "--defined-only", "--extern-only", path).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TW":
            defined.append(fields[2])
    for name in sorted(wanted):
        if defined.count(name) != 1:
            yield f"{path}: {name} is defined {defined.count(name)} times"


def check_old(path, wanted):
    names, _ = exported_by(path)
    # A library that needs libveo.so.1 is right, too: the names are there at run time.
    if names != wanted and SONAME not in dynamic_entries(path, "NEEDED"):
        yield f"{path}: neither gives the functions, nor needs {SONAME}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--map", required=True, type=pathlib.Path)
    parser.add_argument("--headers", required=True, nargs="+")
    parser.add_argument("--shared")
    parser.add_argument("--static")
    parser.add_argument("--old")
    args = parser.parse_args()

    wanted = declared_in_folders(args.headers)
    if len(wanted) < 68:
        raise SystemExit(f"only {len(wanted)} functions in {args.headers}; VEO alone has 68")
    problems = list(differences(args.map, listed_in(args.map), wanted))
    if args.shared:
        problems += check_shared(args.shared, wanted)
    if args.static:
        problems += check_static(args.static, wanted)
    if args.old:
        problems += check_old(args.old, wanted)
    print("\n".join(problems + [f"{len(wanted)} functions, {len(problems)} problem(s)"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
