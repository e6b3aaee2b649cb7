#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the symbols of farcall's libraries.

Run as: check_abi.py <shared library> <static library> <libfarcall.map> <source folder>. Prints each fault, and exits
with status 1 if there is one. `check_abi.py --update <shared library>` writes the list of the C interface, c_names.txt.

The shared library exports the C interface and the namespace farcall, each name with the version of libfarcall.map.
The C interface is exactly the list in c_names.txt, and the functions that the headers declare. The static library
hides all names of farcall except for the C interface.
"""

import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
NAMES = FOLDER / "c_names.txt"
FUNCTION = re.compile(r"^FC_API\b[^;{]*?\b(fc_\w+)\(", re.M)


def lines_of(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def exported(library):
    """Returns the names that a shared library defines and exports, with their versions."""
    names = {}
    for line in lines_of("readelf", "--dyn-syms", "--wide", library):
        fields = line.split()
        # Number, value, size, type, binding, visibility, section, name@@version
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[6] in ("UND", "ABS"):
            continue
        name, _, version = fields[7].partition("@@")
        names[name] = version
    return names


def soname(library):
    for line in lines_of("readelf", "-d", library):
        if "(SONAME)" in line:
            return line.split("[")[1].split("]")[0]
    return ""


def visible_in(archive):
    """Yields the defined names with `farcall` of a static library that are not hidden."""
    for line in lines_of("readelf", "--syms", "--wide", archive):
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and fields[6] != "UND" and \
                fields[5] == "DEFAULT" and "farcall" in fields[7]:
            yield fields[7]


def patterns_of(script):
    """Returns the version of a version script, and a regular expression for the names that it exports."""
    text = re.sub(r"/\*.*?\*/", "", script.read_text(encoding="utf-8"), flags=re.S)
    version = re.search(r"^(\w+) \{", text, re.M).group(1)
    patterns = re.findall(r"^\s*([\w*]+);", text.partition("local:")[0].partition("global:")[2], re.M)
    return version, re.compile("|".join(pattern.replace("*", ".*") for pattern in patterns))


def faults_of(shared, static, script, source):
    """Yields the faults."""
    version, allowed = patterns_of(script)
    expected = f"libfarcall.so.{version.rpartition('_')[2]}"
    if soname(shared) != expected:
        yield f"the SONAME is {soname(shared)!r}, not {expected!r}"
    names = exported(shared)
    for name, its_version in names.items():
        if name != version and not allowed.fullmatch(name):
            yield f"{name} is exported, but is no name of farcall"
        elif name != version and its_version != version:
            yield f"{name} has the version {its_version!r}, not {version!r}"
    if not any(name.startswith("_ZN7farcall") for name in names):
        yield "no name of the namespace farcall is exported"
    listed = set(NAMES.read_text(encoding="utf-8").split())
    in_library = {name for name in names if name.startswith("fc_")}
    headers = [source / "farcall/farcall.h", *sorted((source / "farcall/c").glob("*.h"))]
    declared = {name for header in headers for name in FUNCTION.findall(header.read_text(encoding="utf-8"))}
    for name in sorted(listed - in_library):
        yield f"{name} is in {NAMES.name}, but the library no longer exports it: increment FARCALL_ABI, or keep it"
    for name in sorted(in_library - listed):
        yield f"{name} is exported, but is not in {NAMES.name}: {pathlib.Path(__file__).name} --update adds it"
    for name in sorted(declared - in_library):
        yield f"{name} is declared in a header, but not exported"
    for name in sorted(in_library - declared):
        yield f"{name} is exported, but no header declares it"
    for name in visible_in(static):
        yield f"{name} is not hidden in {static.name}"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--update":
        names = sorted(name for name in exported(sys.argv[2]) if name.startswith("fc_"))
        NAMES.write_text("\n".join(names) + "\n", encoding="utf-8")
        return 0
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    faults = list(faults_of(*map(pathlib.Path, sys.argv[1:])))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
