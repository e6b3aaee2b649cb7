# SPDX-License-Identifier: Apache-2.0
"""Judges passages by the rules of language, and counts retired words.

The rules separate sentences that readers understand at once from sentences that they read twice. A
finding is a sentence to rewrite. Rules that begin a sentence match capitals only: fragments of messages
and list items may begin with any word.
"""

import collections
import fnmatch
import functools
import re
from typing import NamedTuple

from passages import COMMENT, NAME, TEXT

VERB = ("(?:is|are|was|were|be|has|have|had|do|does|did|can|cannot|could|may|might|must|shall|should|will|would|need|"
        "needs|take|takes|come|comes|go|goes|wait|waits|make|makes|get|gets|give|gives|end|ends|hold|holds|share|"
        "know|knows|see|sees|work|works|run|runs|fail|fails|use|uses|throw|throws|return|returns)")
# After one of these words, "who" has no noun before it that names the person.
HEADLESS = (r"(?:^|[:;] |\b(?:and|or|of|to|for|by|from|with|on|at|in|as|than|that|if|tells?|told|knows?|knew|says?|"
            r"said|sees?|asks?|asked|is|are|was|were|not|but|matter|lets?|wakes?|reach(?:es)?|finds?|found) )")


class Rule(NamedTuple):
    name: str
    advice: str
    pattern: re.Pattern
    unless: re.Pattern = None
    kinds: tuple = ()
    only_first: bool = False  # true if only the first sentence of a passage is judged


def rule(name, advice, pattern, unless=None, kinds=(), flags=0, only_first=False):
    unless = re.compile(unless, re.I) if unless else None
    return Rule(name, advice, re.compile(pattern, flags), unless, kinds, only_first)


RULES = (
    rule("L1", "begin with the noun, not with what, who or whoever",
         r"^(?:What|Who|Whoever|Whose|Whatever)\b", unless=r"\?\W*$"),
    rule("L2", "begin with the noun that the pronoun stands for",
         r"^(?:It|They|Its|Their|Theirs|The same|The latter|Others|Else)\b"
         rf"|^(?:One|Both|Those|These|Another|Either|Neither) (?:that\b|who\b|which\b|{VERB}\b)"
         r"|^(?:One|Both|Those|Another|Either|Neither) of (?:it|them|those|these|which|a|an)\b",
         only_first=True),
    rule("L3", "name the role, for instance the caller or the sender",
         rf"\b[Ww]hoever\b|{HEADLESS}who {VERB}\b",
         unless=r"\?\W*$"),
    rule("L4", "use \"if\" for a condition, and \"where\" for a place", r"^Where\b", unless=r"\?\W*$"),
    rule("L5", "say what is, rather than what is not",
         r"^(?:Nobody|Nothing|None|Nor|Not (?:by|for|in|of|so|that|those|to|what|where|who)"
         r"|No (?!longer\b|such\b|op\b)[a-z]+)\b"),
    rule("L6", "repeat the noun in place of \"that of\" or \"those that\"",
         r"(?<!\bthan )(?<!\bto )(?<!\bwith )(?<!\bfrom )\b(?:that of(?! course)|those of)\b"
         r"|\b(?:those that|those who|those which|the one that|the ones that)\b", flags=re.I),
    rule("L7", "give the sentence its subject",
         r"^(?:Of(?! course)|Elsewhere|Otherwise than)\b|^So (?:are|is|does|do(?! it| this| that)|has|have|can|must)\b"
         r"|^So on .{1,30}\.$"
         r"|^Behind (?:it|them|that|those|these)\b|^As (?:before|there|after|by)\b"),
    rule("L8", "write \"the user's threads\" in place of \"threads of the user's\"",
         r"\b(?:of|by) (?:the |a |an )?(?!one's)[a-z]+'s(?=$|[.,:;)]| "
         r"(?:and|or|is|are|has|have|to|that|which|with|in|on|if|from|at|by|as|may|must|can|will|was|were|do|does)\b)"),
    rule("L9", "use the field's verb: a field is at an offset, a function releases, calls or checks",
         r"\b(?:stands? in(?! for)|lies? in(?! \[|(?: \w+)* (?:interval|range|window)s?\b)|bears?|"
         r"lets? go|sees? to(?: it)?|is at an end)\b",
         flags=re.I),
    rule("L10", "write \"Returns -1 if\" or \"Null if\" in place of \"-1:\"",
         r"(?:^|[;.] )(?:[Nn]one|[Nn]ull|[Nn]othing|[Nn]obody|[Ee]mpty|[Ff]alse|[Tt]rue|-1|0): ",
         kinds=(COMMENT, TEXT)),
    rule("L11", "write \"except\" in place of \"but for\", and \"like X\" in place of \"as X has it\"",
         r"\bbut for\b|\b(?:nothing|none|nobody) but\b|\bas [A-Za-z]+(?: [A-Za-z]+)? (?:has|have|had) it\b",
         unless=r"\b(?:not|never|cannot|n't|no|same|similar|ditto|like|as|for)\b.*\bbut for\b"),
)
LONGEST_NAME = 9
TOO_LONG = rule("L12", f"shorten the test's name to {LONGEST_NAME} words", "")

INLINE_CODE = re.compile(r"`[^`]*`")
EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(?=\S)|(?<=\S)\*{1,2}(?![\w*])")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"')\]]*\s+(?=[(\"']?[A-Z])")
SUITE = re.compile(r" \[\w+\]$")
IDENTIFIER = re.compile(r"`[^`]*`|\b\w+(?:(?:::|\.|->|_)\w+)+(?:\(\))?")


def sentences(text):
    text = EMPHASIS.sub("", INLINE_CODE.sub("CODE", text))
    return [s.lstrip("(\"'“‘ ") for s in SENTENCE_END.split(text)]


def judge(passage):
    """Returns (rule, sentence) for each rule that a passage breaks."""
    text = SUITE.sub("", passage.text) if passage.kind == NAME else passage.text
    found = []
    parts = sentences(text)
    for r in RULES:
        if r.kinds and passage.kind not in r.kinds:
            continue
        for part in parts[:1] if r.only_first else parts:
            if r.pattern.search(part) and not (r.unless and r.unless.search(part)):
                found.append((r, part))
                break
    if passage.kind == NAME and len(text.split()) > LONGEST_NAME:
        found.append((TOO_LONG, text))
    return found


def normalised(passage):
    """Returns the words that identify a passage in another commit, without line breaks and identifiers."""
    return " ".join(IDENTIFIER.sub("", passage.text).lower().split())


# Retired words

class RetiredWord(NamedTuple):
    word: str
    replacement: str
    paths: tuple  # globs of the files in which it may be used
    phrases: tuple  # phrases in which it may be used
    first_words: frozenset  # forms of the first word, one of which is in each text with the retired word
    pattern: re.Pattern
    phrase_pattern: re.Pattern = None


# This page explains the words.
EXPLANATION = "docs/decisions/0011-words.md"
ENDINGS = ("", "s", "es", "d", "ed", "ing")


def words_pattern(phrase):
    """Matches a phrase in prose and in identifiers; `*` stands for an inflection."""
    words = (re.escape(w.removesuffix("*")) + ("(?:e?s|e?d|ing)?" if w.endswith("*") else "") for w in phrase.split())
    return r"(?<![a-z])" + r"[\s_-]+".join(words) + r"(?![a-z])"


def retired_word(line):
    columns = [c.strip() for c in line.split("|")]
    if len(columns) != 3 or not columns[0] or not columns[1]:
        raise ValueError(f"{line!r}: a line has the form 'word | replacement | places where it may stay'")
    places = [p.strip() for p in columns[2].split(",") if p.strip()]
    phrases = tuple(p.strip('"').lower() for p in places if p.startswith('"'))
    first = columns[0].lower().split()[0]
    stem = first.removesuffix("*")
    return RetiredWord(
        columns[0].lower(), columns[1], tuple(p for p in places if not p.startswith('"')), phrases,
        frozenset(stem + e for e in (ENDINGS if first.endswith("*") else ("",))),
        re.compile(words_pattern(columns[0].lower())),
        re.compile("|".join(map(words_pattern, phrases))) if phrases else None)


def retired_words(text):
    """Reads the list of retired words: one a line, comments begin with `#`."""
    return [retired_word(l) for l in text.splitlines() if l.strip() and not l.startswith("#")]


@functools.lru_cache(maxsize=None)
def parts_of(letters):
    """Returns the words of camelCase in lower case."""
    return tuple(w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", letters))


def without_phrases(text, retired):
    return retired.phrase_pattern.sub(" ", text) if retired.phrase_pattern else text


def may_stay(path, retired):
    return path == EXPLANATION or any(fnmatch.fnmatchcase(path, glob) for glob in retired.paths)


def count_words(path, text, retired):
    """Returns how often each retired word occurs in a file, in prose and in identifiers."""
    present = {part for letters in set(re.findall("[A-Za-z]+", text)) for part in parts_of(letters)}
    counts = collections.Counter()
    prepared = None
    for word in retired:
        if word.first_words.isdisjoint(present) or may_stay(path, word):
            continue
        prepared = prepared or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
        found = len(word.pattern.findall(without_phrases(prepared, word)))
        if found:
            counts[word.word] = found
    return counts


def lines_with(text, retired):
    """Yields the numbers of the lines that have a retired word."""
    for number, line in enumerate(text.splitlines(), 1):
        prepared = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", line).lower()
        if retired.pattern.search(without_phrases(prepared, retired)):
            yield number
