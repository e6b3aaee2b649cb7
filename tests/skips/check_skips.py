#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tests that ctest skipped with the expected skips.

Run as: check_skips.py <junit file of ctest> <expected_skips.txt> [thing=reason…]. Each `thing` is lacking
on this machine, for that reason. A line `name without thing` allows a skip only if the thing is lacking.
Fails if a test skipped that may not skip, or if no test ran at all.
"""

import fnmatch
import pathlib
import re
import sys
import typing
import xml.etree.ElementTree

ENTRY = re.compile(r"(?P<pattern>\S+)(?:\s+without (?P<thing>\S+))?")


class Skip(typing.NamedTuple):
    pattern: str
    reason: str
    thing: str | None = None  # the skip is expected only if the machine lacks this thing


def read_expected(path):
    expected = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        entry, _, reason = (part.strip() for part in line.partition("#"))
        if not entry:
            continue
        match = ENTRY.fullmatch(entry)
        if match is None:
            raise SystemExit(f"{path}:{number}: '{entry}' is neither 'name' nor 'name without thing'")
        if not reason:
            raise SystemExit(f"{path}:{number}: '{entry}' has no reason; write '{entry}  # why'")
        expected.append(Skip(match["pattern"], reason, match["thing"]))
    return expected


def check(results, expected, lacking):
    """Returns the exit status and the lines to print."""
    cases = list(xml.etree.ElementTree.parse(results).getroot().iter("testcase"))
    not_run = sorted(case.get("name") for case in cases
                     if case.get("status") in ("notrun", "disabled"))
    if len(not_run) == len(cases):
        return 1, [f"skips: not one of {len(cases)} tests ran"]

    surprising = []
    lines = []
    for name in not_run:
        matching = [skip for skip in expected if fnmatch.fnmatchcase(name, skip.pattern)]
        skip = next((s for s in matching if s.thing is None or s.thing in lacking), None)
        if skip is not None:
            why = f" ({lacking[skip.thing]})" if skip.thing else ""
            lines.append(f"skips: {name}: {skip.reason}{why}")
            continue
        surprising.append(name)
        there = " or ".join(s.thing for s in matching)
        lines.append(f"skips: {name}: did not run, "
                     + (f"although this machine does not lack {there}" if there
                        else "and is not listed as an expected skip"))
    lines.append(f"skips: {len(not_run)} of {len(cases)} tests skipped, "
                 f"{len(not_run) - len(surprising)} of them expected")
    return (1 if surprising else 0), lines


def main():
    if len(sys.argv) < 3 or not all("=" in word for word in sys.argv[3:]):
        raise SystemExit(__doc__)
    results, expected = map(pathlib.Path, sys.argv[1:3])
    lacking = dict(word.split("=", 1) for word in sys.argv[3:])
    status, lines = check(results, read_expected(expected), lacking)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
