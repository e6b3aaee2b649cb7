# SPDX-License-Identifier: Apache-2.0
"""Rates of the language check by folder, and the file that holds them at a commit: the baseline."""

import collections
import dataclasses

from language_rules import count_words, judge, normalised
from passages import passages

FILE = "tests/docs/language_baseline"
TOTAL = "total"
HEADER = """\
# Passages that the language check flags, by folder, and retired words there, at the commit below.
# Written by tests/docs/check_language.py --update; the figures may only go down.
# folder | flagged of all passages | retired words
"""


@dataclasses.dataclass
class Rate:
    flagged: int = 0
    passages: int = 0
    words: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, other):
        self.flagged += other.flagged
        self.passages += other.passages
        self.words.update(other.words)

    @property
    def percent(self):
        return 100 * self.flagged / max(1, self.passages)

    def is_above(self, other):
        return self.flagged * max(1, other.passages) > other.flagged * max(1, self.passages)

    def __str__(self):
        return f"{self.flagged} of {self.passages} ({self.percent:.1f} %)"


class Survey:
    """The passages, findings and retired words of files, given as texts by path."""

    def __init__(self, texts, retired):
        self.texts = texts
        self.passages = {path: passages(path, text) for path, text in texts.items()}
        self.findings = {path: [(p, found) for p in of_file if (found := judge(p))]
                         for path, of_file in self.passages.items()}
        self.words = {path: count_words(path, text, retired) for path, text in texts.items()}

    def known(self, paths):
        return {normalised(p) for path in paths for p in self.passages.get(path, ())}

    def rates(self):
        """Returns a Rate for each folder, and one for "total"."""
        rates = {TOTAL: Rate()}
        for path, of_file in self.passages.items():
            rate = Rate(len(self.findings[path]), len(of_file), self.words[path])
            rates.setdefault(folder_of(path), Rate()).add(rate)
            rates[TOTAL].add(rate)
        return rates


def folder_of(path):
    """Returns the row of a file: the first two parts of its folder, with " tests" for a test beside sources."""
    *folders, name = path.split("/")
    row = "/".join(folders[:2]) or "."
    return f"{row} tests" if "_test." in name and folders[:1] != ["tests"] else row


@dataclasses.dataclass
class Baseline:
    commit: str
    rates: dict

    @property
    def total(self):
        return self.rates[TOTAL]


def parsed(text):
    """Reads a baseline. Throws ValueError with the line that is malformed."""
    commit, rates = None, {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("commit "):
            commit = line.split()[1]
            continue
        try:
            folder, rate, words = (c.strip() for c in line.split("|"))
            flagged, count = map(int, rate.split(" of "))
            pairs = (w.rsplit(" ", 1) for w in words.split(", ") if w)
            counts = collections.Counter({word: int(number) for word, number in pairs})
        except ValueError:
            raise ValueError(f"{FILE}: the line {line!r} has not the form 'folder | 1 of 10 | word 2'") from None
        rates[folder] = Rate(flagged, count, counts)
    if commit is None or TOTAL not in rates:
        raise ValueError(f"{FILE}: the commit or the row {TOTAL!r} is missing")
    return Baseline(commit, rates)


def formatted(commit, rates, retired):
    """Returns the text of a baseline. The row of the total names each retired word, even if its count is 0."""
    rows = [HEADER, f"commit {commit}\n"]
    for folder in sorted(rates, key=lambda f: (f != TOTAL, f)):
        rate = rates[folder]
        words = [f"{w.word} {rate.words[w.word]}" for w in sorted(retired, key=lambda w: w.word)
                 if rate.words[w.word] or folder == TOTAL]
        rows.append(f"{folder} | {rate.flagged} of {rate.passages} | {', '.join(words)}".rstrip() + "\n")
    return "".join(rows)
