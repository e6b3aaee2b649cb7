#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the language of comments, Markdown pages, messages, test names and commits.

  check_language.py                 fails if a folder has become worse than its row of the baseline,
                                    or if a passage or commit after the baseline's commit breaks a rule
  check_language.py PATH…           lists each finding in these files and folders
  check_language.py --since COMMIT  lists findings in passages and commits that are new since COMMIT
  check_language.py --rates         prints the rates of all folders, the worst first
  check_language.py --update [COMMIT]
                                    writes the rates at COMMIT, or HEAD, as the new baseline; at the
                                    baseline's own commit it takes in changes of rules and words

Rules are in language_rules.py, retired words in docs/decisions/retired-words.txt, rates that must not
rise in tests/docs/language_baseline. A passage is new if its words are in no file of the older commit, so
moved files and changed line breaks are old.
"""

import argparse
import pathlib
import re
import sys

import language_baseline
import source_tree
from language_baseline import TOTAL, Survey, folder_of
from language_rules import lines_with, normalised, retired_words

RETIRED_WORDS = "docs/decisions/retired-words.txt"
MOST_LINES_OF_WORD = 8
LONGEST_SUBJECT = 72
SUBJECT = re.compile(r"[\w./+-]+(?:, [\w./+-]+)*: [^A-Z\s]\S* \S")
HEADLESS = re.compile(r"\b(?:who|what|whoever|whatever)\b", re.I)


def shown(path, passage, found):
    text = " ".join(passage.text.split())
    for rule, sentence in found:
        at = f"{path}:{passage.line}: {rule.name}"
        excerpt = sentence if len(sentence) <= 140 else sentence[:137] + "…"
        yield f"{at}: {excerpt if rule.name != 'L12' else text}: {rule.advice}"


def all_findings(survey, paths=None):
    for path in sorted(survey.findings if paths is None else paths):
        for passage, found in survey.findings[path]:
            yield from shown(path, passage, found)


class Tree:
    """The files of a root folder, and what is known of their history."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.retired = retired_words(self._read(RETIRED_WORDS, "the list of retired words"))
        self._survey = None

    def _read(self, name, purpose):
        path = self.root / name
        if not path.is_file():
            raise ValueError(f"{name}: {purpose} is missing")
        return path.read_text(encoding="utf-8")

    @property
    def survey(self):
        if self._survey is None:
            self._survey = Survey(source_tree.current_texts(self.root), self.retired)
        return self._survey

    def baseline(self):
        return language_baseline.parsed(self._read(language_baseline.FILE, "the baseline"))

    def has(self, commit):
        return source_tree.is_checkout(self.root) and source_tree.has_commit(self.root, commit)

    def known_at(self, commit, survey, changed):
        """Returns the texts of a commit's passages. Files that have not changed are in `survey` already."""
        older = Survey(source_tree.committed_texts(self.root, commit, changed), ())
        unchanged = survey.passages.keys() - changed
        return older.known(older.passages) | survey.known(unchanged)

    def new_findings(self, commit, survey=None):
        """Yields findings in passages that no file of the commit has."""
        survey = survey or self.survey
        changed = source_tree.changed_paths(self.root, commit)
        tracked = set(source_tree.git_text(self.root, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
                      .split("\0"))
        changed |= survey.passages.keys() - tracked
        if not any(survey.findings.get(path) for path in changed):
            return
        known = self.known_at(commit, survey, changed)
        for path in sorted(changed & survey.findings.keys()):
            for passage, found in survey.findings[path]:
                if normalised(passage) not in known:
                    yield from shown(path, passage, found)

    def check_commits(self, commit):
        for number, subject, body in source_tree.commits_since(self.root, commit):
            yield from check_commit(number, subject, body)


def check_commit(number, subject, body):
    at = f"commit {number}: {subject}"
    if not SUBJECT.match(subject):
        yield f"{at}: a subject has the form 'area: verb object', with a small letter after the colon"
    if len(subject) > LONGEST_SUBJECT:
        yield f"{at}: a subject has at most {LONGEST_SUBJECT} characters, rather than {len(subject)}"
    if subject.endswith("."):
        yield f"{at}: a subject ends without a full stop"
    if HEADLESS.search(subject):
        yield f"{at}: a subject names the thing or the role in place of what or who"
    if not body:
        yield f"{at}: a commit has a body, which says why"


def check_rates(survey, baseline, retired):
    """Yields the folders that are worse than their rows of the baseline."""
    known_words = [w for w in retired if w.word in baseline.total.words]
    for folder, rate in sorted(survey.rates().items()):
        row = baseline.rates.get(folder)
        if row is None:
            continue
        if rate.is_above(row):
            yield (f"{folder}: {rate} passages are flagged, and the baseline has {row}: rewrite some; "
                   "`check_language.py PATH` lists them")
        for word in known_words:
            if rate.words[word.word] > row.words[word.word]:
                yield "\n  ".join([
                    f"{folder}: the retired word {word.word!r} occurs {rate.words[word.word]} times, and in the "
                    f"baseline {row.words[word.word]} times: write {word.replacement!r}",
                    *places_of(survey, folder, word)])


def places_of(survey, folder, word):
    if folder == TOTAL:
        return []
    places = [f"{path}:{number}" for path, text in sorted(survey.texts.items())
              if folder_of(path) == folder and survey.words[path][word.word]
              for number in lines_with(text, word)]
    return places[:MOST_LINES_OF_WORD] + (["…"] if len(places) > MOST_LINES_OF_WORD else [])


def check(tree):
    """Returns the problems, and a remark if a part of the check was impossible."""
    baseline = tree.baseline()
    problems = list(check_rates(tree.survey, baseline, tree.retired))
    if not source_tree.is_checkout(tree.root):
        reason = source_tree.complaint(tree.root) or "the tree is a folder of another checkout"
        return problems, f"new passages and commits were not checked: there is no git checkout ({reason})"
    if not tree.has(baseline.commit):
        return problems, (f"new passages and commits were not checked: the baseline's commit {baseline.commit[:12]} is "
                          "not in this tree's history (git fetch --unshallow gets it)")
    problems += tree.new_findings(baseline.commit)
    problems += tree.check_commits(baseline.commit)
    return problems, None


def update(tree, commit):
    """Writes a new baseline. Returns the reasons if it may not be written."""
    if not source_tree.is_checkout(tree.root):
        return ["a new baseline needs a git checkout"]
    if source_tree.git_text(tree.root, "status", "--porcelain").strip():
        return ["a new baseline is taken at a commit: commit or stash the changes of the working tree first"]
    commit = source_tree.git_text(tree.root, "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    survey = Survey(source_tree.committed_texts(tree.root, commit), tree.retired)
    file = tree.root / language_baseline.FILE
    if file.is_file():
        problems = list(refusals(tree, survey, commit, tree.baseline()))
        if problems:
            return problems
    rates = survey.rates()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(language_baseline.formatted(commit, rates, tree.retired), encoding="utf-8")
    print(f"{language_baseline.FILE}: {rates[TOTAL]} passages are flagged at {commit[:12]}")
    return []


def refusals(tree, survey, commit, old):
    if commit == old.commit:
        return
    if not tree.has(old.commit):
        yield f"the baseline's commit {old.commit[:12]} is not in this tree's history: run git fetch --unshallow"
        return
    head = source_tree.git_text(tree.root, "rev-parse", "HEAD").strip()
    if commit != head:
        yield f"a new baseline is taken at HEAD ({head[:12]}), or again at its own commit ({old.commit[:12]})"
        return
    yield from tree.new_findings(old.commit, survey)
    yield from tree.check_commits(old.commit)
    total = survey.rates()[TOTAL]
    if total.is_above(old.total):
        yield f"the total rate would rise from {old.total} to {total}"
    for word, before in old.total.words.items():
        if total.words[word] > before:
            yield f"the count of the retired word {word!r} would rise from {before} to {total.words[word]}"


def print_rates(tree):
    rows = tree.baseline().rates if (tree.root / language_baseline.FILE).is_file() else {}
    rates = tree.survey.rates()
    for folder, rate in sorted(rates.items(), key=lambda r: (r[0] == TOTAL, -r[1].percent)):
        row = f"{rows[folder].percent:5.1f} %" if folder in rows else "      -"
        words = sum(rate.words.values())
        print(f"{rate.percent:5.1f} %  baseline {row}  {rate.flagged:5d} of {rate.passages:5d}  "
              f"{words:5d} retired words  {folder}")


def named_paths(tree, arguments):
    """Returns the paths of the files that the arguments name. Throws ValueError if one names none."""
    chosen = set()
    for argument in arguments:
        path = pathlib.Path(argument).resolve()
        if not path.is_relative_to(tree.root):
            raise ValueError(f"{argument}: this path is outside {tree.root}")
        name = path.relative_to(tree.root).as_posix()
        found = {p for p in tree.survey.findings if name == "." or p == name or p.startswith(name + "/")}
        if not found:
            raise ValueError(f"{argument}: the check reads no file of this name")
        chosen |= found
    return chosen


def arguments_of(command_line):
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder of the tree")
    parser.add_argument("--since", metavar="COMMIT", help=argparse.SUPPRESS)
    parser.add_argument("--rates", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--update", nargs="?", const="HEAD", metavar="COMMIT", help=argparse.SUPPRESS)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], metavar="FOLDER",
                        help="the tree to check, if it is another one than the program's")
    options = parser.parse_args(command_line)
    ways = [options.paths, options.rates, options.since is not None, options.update is not None]
    if sum(map(bool, ways)) > 1:
        parser.error("give paths, --since, --rates or --update, each without the others")
    return options


def problems_of(tree, options):
    if options.update is not None:
        return update(tree, options.update)
    if options.since is not None:
        return [*tree.new_findings(options.since), *tree.check_commits(options.since)]
    if options.paths:
        return list(all_findings(tree.survey, named_paths(tree, options.paths)))
    problems, remark = check(tree)
    if remark:
        print(remark)
    return problems


def main(command_line=None):
    options = arguments_of(command_line)
    try:
        tree = Tree(options.root)
        if options.rates:
            print_rates(tree)
            return 0
        problems = problems_of(tree, options)
    except (FileNotFoundError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) of language")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, for instance head, has read enough
        sys.stdout = None
        sys.exit(1)
