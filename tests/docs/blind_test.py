#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how well readers understand our prose and other projects' prose. Projects' names are hidden.

  blind_test.py draw SHEET KEY FOLDER…  writes a sheet of comments and paragraphs in a random order, and
                                        the key that says which project each is from; each FOLDER is
                                        another project's sources
  blind_test.py rate KEY RATINGS…       prints the rates by project; each RATINGS is one reader's file

A reader sees the sheet alone, and writes a line "number letter" for each item: A if it was understood at
first reading, B if it needed a second reading or the code, C if it stayed unclear or misleads.

The seed is the first eight hex digits of HEAD, so that nobody chooses the sample.
Identifiers and names of projects are replaced by letters.
"""

import argparse
import collections
import pathlib
import random
import re
import subprocess
import sys

import passages

COMMENTS = 60
PARAGRAPHS = 20
OURS = "ours"
RATINGS = ("A", "B", "C")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CODE_FOLDERS = ("farcall", "compat", "tools", "python")
CODE_SUFFIXES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
DOC_FOLDERS = ("docs",)
# Code that a sentence names: `quoted`, call(), a::b, a_b, a.b(), camelCase and constants.
NAME = re.compile(r"`[^`]+`|\b\w+(?:(?:::|->|\.(?=\w+\())\w+)+(?:\(\))?|\b\w+\(\)|\b\w*[a-z0-9]_\w+|\b_\w+"
                  r"|\b[a-z]+[A-Z]\w*|\b[A-Z]+(?:_[A-Z0-9]+)+\b|\b[A-Z][a-z]+[A-Z]\w*")
# Units and names of products that readers know.
KNOWN_NAME = re.compile(r"(?:[KMGT]iB|[kMG]Hz|OpenSSL|InfiniBand|RoCE)$|"
                        r"(?:Address|Thread|UndefinedBehavior)Sanitizer$")
PROJECT = re.compile(r"\b(?:farcall|nng|nanomsg|ucx|uc[pstm]|openucx|tensorpipe|absl|abseil|pytorch|"
                     r"ham-offload|a?veo|amlapi)\w*\b", re.I)
# Comments for programs and lawyers, and tables of contents, are no prose.
NO_PROSE = re.compile(r"@(?:file|defgroup|ingroup|addtogroup)|-----|=====|\*\*\*|TODO|FIXME|http|^File:|[Ll]icen[sc]e")
FEWEST_WORDS = 5
MOST_WORDS = 90


def is_test(path):
    """True for tests, benchmarks and third-party code, whose comments have other readers."""
    return bool(re.search(r"test|bench|third_party|demo|example|perf", str(path)))


def sample_texts(root, folders, suffixes, kind):
    """Returns the passages of one kind in all files of these folders, in a fixed order."""
    texts = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in suffixes or is_test(name) or not path.is_file():
                continue
            content = path.read_text(errors="replace")
            lines = content.splitlines()
            for passage in passages.passages(name, content):
                words = len(passage.text.split())
                # A cell of a table is no paragraph: its meaning is in its row's first cell.
                is_cell = lines[passage.line - 1].lstrip().startswith("|")
                if (passage.kind == kind and FEWEST_WORDS <= words <= MOST_WORDS
                        and not is_cell and not NO_PROSE.search(passage.text)):
                    texts.append(passage.text)
    return texts


def without_names(text):
    """Replaces each identifier by a letter, and each project's name by "the library"."""
    letters = {}

    def letter(match):
        if KNOWN_NAME.match(match[0]):
            return match[0]
        bare = match[0].strip("`").removesuffix("()")
        return letters.setdefault(bare, chr(ord("P") + len(letters) % 11) if bare else "")

    return PROJECT.sub("the library", NAME.sub(letter, text))


def seed_of_head():
    """Returns the first eight hex digits of the commit that is checked out."""
    shown = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True, capture_output=True)
    if shown.returncode != 0:
        raise SystemExit(f"blind_test.py: git names no commit of {ROOT}; name a seed with --seed")
    return shown.stdout[:8]


def draw(sheet, key, folders, seed):
    chance = random.Random(int(seed, 16))
    items = []

    def take(project, kind, texts, count):
        if len(texts) < count:
            raise SystemExit(f"blind_test.py: {project} has {len(texts)} passages of the kind \"{kind}\"; "
                             f"{count} are needed. Name a folder with more sources.")
        items.extend((f"{project} {kind}", text) for text in chance.sample(texts, count))

    take(OURS, "comment", sample_texts(ROOT, CODE_FOLDERS, CODE_SUFFIXES, passages.COMMENT), COMMENTS)
    take(OURS, "paragraph", sample_texts(ROOT, DOC_FOLDERS, (".md",), passages.TEXT), PARAGRAPHS)
    for folder in folders:
        root = pathlib.Path(folder).resolve()
        if not root.is_dir():
            raise SystemExit(f"blind_test.py: there is no folder {folder}")
        # Folders of one project, for instance its "src" and "include", count as one.
        take(root.name, "comment", sample_texts(root, (".",), CODE_SUFFIXES, passages.COMMENT), COMMENTS)
    chance.shuffle(items)
    pathlib.Path(sheet).write_text("".join(f"{i}. {without_names(text)}\n\n"
                                           for i, (_, text) in enumerate(items, 1)))
    pathlib.Path(key).write_text("".join(f"{i} {source}\n" for i, (source, _) in enumerate(items, 1)))
    print(f"{len(items)} items, seed {seed}: {sheet}")


def read_key(path):
    return {int(number): source for number, source in
            (line.split(maxsplit=1) for line in pathlib.Path(path).read_text().splitlines())}


def read_ratings(path, key):
    """Returns the letters by item. Throws SystemExit if an item has none, or two."""
    ratings = {}
    for line in pathlib.Path(path).read_text().splitlines():
        match = re.match(r"\s*(\d+)[.:]?\s+([ABC])\b", line)
        if not match:
            continue
        number = int(match[1])
        if number not in key or number in ratings:
            raise SystemExit(f"blind_test.py: {path} rates item {number} twice, or the key lacks the item")
        ratings[number] = match[2]
    missing = sorted(key.keys() - ratings.keys())
    if missing:
        raise SystemExit(f"blind_test.py: {path} lacks ratings of {len(missing)} items, for instance {missing[0]}")
    return ratings


def rate(key_path, paths):
    key = read_key(key_path)
    counts = collections.defaultdict(collections.Counter)
    for path in paths:
        for number, letter in read_ratings(path, key).items():
            counts[key[number]][letter] += 1
    print(f"{'':24} {'items':>6} {'first':>7} {'second':>7} {'unclear':>7}")
    for source in sorted(counts):
        count = counts[source]
        total = count.total()
        shares = " ".join(f"{100 * count[letter] / total:6.1f}%" for letter in RATINGS)
        print(f"{source:24} {total // len(paths):6} {shares}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="write a sheet and its key")
    drawing.add_argument("sheet")
    drawing.add_argument("key")
    drawing.add_argument("folder", nargs="+")
    drawing.add_argument("--seed", metavar="HEX", help="in place of the seed that HEAD gives")
    rating = commands.add_parser("rate", help="print the rates by project")
    rating.add_argument("key")
    rating.add_argument("ratings", nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "draw":
        draw(arguments.sheet, arguments.key, arguments.folder, arguments.seed or seed_of_head())
    else:
        rate(arguments.key, arguments.ratings)


if __name__ == "__main__":
    sys.exit(main())
