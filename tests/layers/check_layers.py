#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the tree: includes, READMEs, file lengths, build lists, settings, schemes.

Reads the order of layers from the table in docs/architecture.md, so that the page and the check agree.
Run as: check_layers.py [project root].
"""

import pathlib
import re
import sys

TABLE = "docs/architecture.md"
CODE = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh"}
CODE_FOLDERS = ("farcall", "compat", "tools", "python", "examples", "tests", "bench", "fuzz")
LONGEST_FILE = 700
LONGEST_README = 12
# Layers without code for devices: they ask transports, memory domains and call policies.
CORE = ("base", "memory", "job", "am", "call")
NOT_IN_THE_CORE = re.compile(r"(?<![a-z])(device|gpu|cuda)", re.IGNORECASE)

# Headers outside of the layers' folders that belong to a layer: C programs include them.
OWN_HEADERS = {"farcall/farcall.h": "c"}

SETTINGS = "farcall/base/settings_table.hpp"
SETTING_NAME = re.compile(r'\.name = "([\w-]+)"')
# Code that may name a transport's scheme: transports, their table, and the settings' defaults.
KNOWS_SCHEMES = ("farcall/transport/", "farcall/gpu/transport/", "farcall/transports.cpp", SETTINGS)
SCHEME = re.compile(r'"(?:self|shm|tcp|ucx|mpi|cuda|emulated)(?:://?)?"')

TABLE_ROW = re.compile(r"^\|[^|]*\|\s*`farcall/(\w+)/`\s*\|[^|]+\|\s*$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def code_files(root, folder):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in CODE and p.is_file())


def read_layers(root):
    """Returns the layers in the table's order. A layer may include itself and the layers before it."""
    table = root / TABLE
    if not table.is_file():
        raise SystemExit(f"{TABLE}: missing; the layer order is read from its table "
                         "(columns: layer | folder | one sentence)")
    layers = [m.group(1) for m in map(TABLE_ROW.match, lines_of(table)) if m]
    if len(layers) < 2:
        raise SystemExit(f"{TABLE}: no layer table found; a row looks like "
                         "'| 0 | `farcall/base/` | Words everybody needs. |'")
    if len(set(layers)) != len(layers):
        raise SystemExit(f"{TABLE}: a layer stands twice in the table: {', '.join(layers)}")
    return layers


def includes_of(path, root):
    """Yields (line number, path from the project root) of each include of a file of this project."""
    for number, line in enumerate(lines_of(path), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, name = match.groups()
        if bracket == '"' and (path.parent / name).is_file():
            yield number, (path.parent / name).resolve().relative_to(root).as_posix()
        elif name.split("/")[0] in CODE_FOLDERS:
            yield number, name


def check_includes(root, layers):
    folders = {p.name for p in (root / "farcall").iterdir() if p.is_dir()}
    for layer in sorted(folders - set(layers)):
        yield f"farcall/{layer}/: not in the layer table of {TABLE}"
    for order, layer in enumerate(layers):
        allowed = [f"farcall/{name}" for name in layers[: order + 1]]
        for path in code_files(root, f"farcall/{layer}"):
            is_test = path.stem.endswith(("_test", "_test_support"))
            for number, name in includes_of(path, root):
                top = "/".join(name.split("/")[:2])
                if (top in allowed or OWN_HEADERS.get(name) == layer
                        or (is_test and name.startswith("tests/"))):
                    continue
                where = path.relative_to(root).as_posix()
                yield (f"{where}:{number}: layer {order} ({layer}) must not include {name}; "
                       f"it may include {', '.join(allowed)}")


def check_readmes(root, layers):
    for layer in layers:
        readme = root / "farcall" / layer / "README.md"
        if not readme.parent.is_dir():
            continue
        name = readme.relative_to(root).as_posix()
        if not readme.is_file():
            yield (f"{name}: missing; it says the purpose, which types to read first, "
                   "what it never includes")
        elif len(lines_of(readme)) > LONGEST_README:
            yield f"{name}: {len(lines_of(readme))} lines, at most {LONGEST_README} are wanted"


def check_lengths(root):
    for folder in CODE_FOLDERS:
        for path in code_files(root, folder):
            length = len(lines_of(path))
            if length > LONGEST_FILE:
                yield (f"{path.relative_to(root).as_posix()}: {length} lines, more than "
                       f"{LONGEST_FILE}: more than one idea in it?")


def check_build_lists(root, layers):
    """Finds files that no CMakeLists.txt names, and that are therefore not built, tested or installed.

    Headers of tests, x_test_support.hpp, need no line there.
    """
    for layer in layers:
        folder = root / "farcall" / layer
        listing = folder / "CMakeLists.txt"
        if not listing.is_file():
            continue
        named = set(listing.read_text(encoding="utf-8").replace(")", " ").split())
        for path in code_files(root, f"farcall/{layer}"):
            if path.stem.endswith("_test_support"):
                continue
            if path.relative_to(folder).as_posix() not in named:
                yield (f"{path.relative_to(root).as_posix()}: not named in "
                       f"farcall/{layer}/CMakeLists.txt")


def check_words(root):
    for layer in CORE:
        for path in code_files(root, f"farcall/{layer}"):
            for number, line in enumerate(lines_of(path), 1):
                word = NOT_IN_THE_CORE.search(line)
                if word:
                    yield (f"{path.relative_to(root).as_posix()}:{number}: \"{word.group()}\" belongs "
                           "to farcall/gpu/; say it in general terms")


def library_sources(root):
    """Yields the path from the root and the text of each source of the library, without tests."""
    for path in code_files(root, "farcall"):
        if not path.stem.endswith(("_test", "_test_support")):
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def check_settings(root):
    """Finds rows of the settings table that no code reads."""
    table = root / SETTINGS
    if not table.is_file():
        return
    unread = dict.fromkeys(SETTING_NAME.findall(table.read_text(encoding="utf-8")))
    for name, text in library_sources(root):
        if name != SETTINGS:
            unread = [setting for setting in unread if f'"{setting}"' not in text]
    for setting in unread:
        yield f"{SETTINGS}: no code reads the setting \"{setting}\""


def check_schemes(root):
    """Finds code outside of transports that names a scheme. Such code must ask the table of transports."""
    for name, text in library_sources(root):
        if name.startswith(KNOWS_SCHEMES):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            scheme = SCHEME.search(line.split("//")[0])
            if scheme:
                yield f"{name}:{number}: {scheme[0]} is for transports alone; ask the table of transports"


def check(root):
    root = root.resolve()
    layers = read_layers(root)
    return [
        *check_includes(root, layers),
        *check_readmes(root, layers),
        *check_lengths(root),
        *check_build_lists(root, layers),
        *check_words(root),
        *check_settings(root),
        *check_schemes(root),
    ]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) in the shape of the tree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
