#!/usr/bin/env python3
"""Compares what ctest skipped with the skips that are expected.

Run as: check_skips.py <junit file of ctest> <expected_skips.txt>. Fails when a test did not run
that is not listed, or when nothing ran at all.
"""

import fnmatch
import pathlib
import sys
import xml.etree.ElementTree


def read_expected(path):
    """Pattern → reason."""
    expected = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        pattern, _, reason = (part.strip() for part in line.partition("#"))
        if not pattern:
            continue
        if not reason:
            raise SystemExit(f"{path}:{number}: '{pattern}' has no reason; "
                             f"write '{pattern}  # why'")
        expected[pattern] = reason
    return expected


def check(results, expected):
    """(exit status, lines to print)."""
    cases = list(xml.etree.ElementTree.parse(results).getroot().iter("testcase"))
    not_run = sorted(case.get("name") for case in cases
                     if case.get("status") in ("notrun", "disabled"))
    if len(not_run) == len(cases):
        return 1, [f"skips: not one of {len(cases)} tests ran"]

    surprising = []
    lines = []
    for name in not_run:
        reasons = [why for pattern, why in expected.items() if fnmatch.fnmatchcase(name, pattern)]
        if reasons:
            lines.append(f"skips: {name}: {reasons[0]}")
        else:
            surprising.append(name)
            lines.append(f"skips: {name}: did not run, and is not listed as an expected skip")
    lines.append(f"skips: {len(not_run)} of {len(cases)} tests skipped, "
                 f"{len(not_run) - len(surprising)} of them expected")
    return (1 if surprising else 0), lines


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    results, expected = map(pathlib.Path, sys.argv[1:])
    status, lines = check(results, read_expected(expected))
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
