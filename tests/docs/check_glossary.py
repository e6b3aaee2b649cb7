#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that pages agree on their terms: check_glossary.py [project root]

* docs/glossary.md has one entry for each term.
* Transports that pages name are in the table of docs/architecture.md, as are the folders of
  farcall/transport, and the glossary's entry "transport" lists the same ones.
* A number of layers in prose is the number of rows of the table of layers.
"""

import pathlib
import re
import sys

from check_markdown import pages, without_code

GLOSSARY = "docs/glossary.md"
ARCHITECTURE = "docs/architecture.md"
# Records say how things were when they were decided.
RECORDS = ("docs/decisions/", "CHANGELOG.md")
# The transport of tests/pipe, the example of a module, is no part of the library.
EXAMPLES = {"pipe"}
LAYER_ROW = re.compile(r"^\| \d+ \| `farcall/\w+/`", re.M)
TRANSPORT_ROW = re.compile(r"^\| `([\w-]+)` \| `(farcall/[\w/]+/)` \|", re.M)
NAMED_TRANSPORT = re.compile(r"\btransports? `([a-z-]+)`|`([a-z-]+)` transports?\b")
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
           "seventeen eighteen nineteen twenty").split()
COUNTED_LAYERS = re.compile(rf"\b(\d+|{'|'.join(NUMBERS)}) layers\b", re.I)


def entries(text):
    """Yields (line, term, meaning) for each term; "credit, window" are two terms of one entry."""
    for number, line in enumerate(text.splitlines(), 1):
        cells = [c.strip() for c in line.split("|")]
        if len(cells) > 3 and not cells[0] and cells[1] != "term" and set(cells[1]) != {"-"}:
            for term in cells[1].split(","):
                yield number, term.strip().lower(), cells[2]


def check_terms(root):
    first = {}
    for number, term, _ in entries((root / GLOSSARY).read_text(encoding="utf-8")):
        if term in first:
            yield f"{GLOSSARY}:{number}: {term} has an entry in line {first[term]} already; join them, or rename one"
        first.setdefault(term, number)


def check_transports(root):
    table = dict(TRANSPORT_ROW.findall((root / ARCHITECTURE).read_text(encoding="utf-8")))
    listed = ", ".join(sorted(table))
    for scheme, folder in table.items():
        if not (root / folder).is_dir():
            yield f"{ARCHITECTURE}: the folder of transport {scheme} is {folder}, which does not exist"
    for folder in sorted(p for p in (root / "farcall/transport").glob("*/") if any(p.glob("*.cpp"))):
        name = folder.relative_to(root).as_posix() + "/"
        if name not in table.values():
            yield f"{ARCHITECTURE}: the table of transports lacks {name}"
    for number, term, meaning in entries((root / GLOSSARY).read_text(encoding="utf-8")):
        named = set(re.findall(r"`([a-z-]+)`", meaning))
        if term == "transport" and named != set(table):
            yield f"{GLOSSARY}:{number}: lists {', '.join(sorted(named))}; the table of {ARCHITECTURE} has {listed}"
    for name, number, line in prose(root):
        for match in NAMED_TRANSPORT.finditer(line):
            scheme = match.group(1) or match.group(2)
            if scheme not in set(table) | EXAMPLES:
                yield f"{name}:{number}: transport {scheme} is not in the table of {ARCHITECTURE}: {listed}"


def check_layers(root):
    rows = len(LAYER_ROW.findall((root / ARCHITECTURE).read_text(encoding="utf-8")))
    for name, number, line in prose(root):
        for word in COUNTED_LAYERS.findall(without_code(line)):
            count = int(word) if word.isdigit() else NUMBERS.index(word.lower())
            # A smaller number counts some of them.
            if count != rows and 2 * count > rows:
                yield f"{name}:{number}: {word} layers; the table of {ARCHITECTURE} has {rows}"


def prose(root):
    """Yields (page, line number, line) for the docs and the pages of the root, except records."""
    for page in pages(root):
        name = page.relative_to(root).as_posix()
        if name.startswith("docs/") or "/" not in name:
            if not name.startswith(RECORDS):
                for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
                    yield name, number, line


def check(root):
    yield from check_terms(root)
    yield from check_transports(root)
    yield from check_layers(root)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    problems = list(check(root))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) in the terms of the pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
