#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the files that took longest to build, and the tests that took longest to run.

Run as: slowest.py <junit file of ctest> <build folder of ninja>... A file's time is the time
of its last compilation, which a compiler cache may have shortened. Missing files and logs are left out.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

SHOWN = 20


def steps_of(log):
    """Returns the seconds of each build step by its output, from a .ninja_log of version 5 or later."""
    steps = {}
    for line in log.splitlines():
        fields = line.split("\t")
        if line.startswith("#") or len(fields) != 5:
            continue
        start, end, _, output, command = fields
        # Later lines belong to later builds. A step with several outputs has a line for each output.
        steps[output] = (int(end) - int(start)) / 1000, (start, end, command)
    seen = set()
    result = {}
    for output, (seconds, step) in steps.items():
        if step not in seen:
            seen.add(step)
            result[output] = seconds
    return result


def readable(output):
    """Turns tests/CMakeFiles/unit_tests.dir/__/base/clock_test.cpp.o into tests/unit_tests: base/clock_test.cpp."""
    match = re.fullmatch(r"(.*/)?CMakeFiles/([^/]+)\.dir/(.+?)(\.o)?", output)
    if match is None:
        return output
    folder, target, file, _ = match.groups()
    return f"{folder or ''}{target}: {file.replace('__/', '')}"


def built(folder):
    """Returns (seconds, name) of outputs that still exist. Outputs of CMake's commands have absolute paths."""
    log = folder / ".ninja_log"
    if not log.exists():
        return []
    steps = steps_of(log.read_text(encoding="utf-8", errors="replace"))
    here = f"{folder.resolve()}/"
    return [(seconds, f"{folder.name}  {readable(output.removeprefix(here))}")
            for output, seconds in steps.items() if (folder / output).exists()]


def ran(results):
    """Returns (seconds, name) of each test."""
    if isinstance(results, pathlib.Path) and not results.exists():
        return []
    cases = xml.etree.ElementTree.parse(results).getroot().iter("testcase")
    return [(float(case.get("time") or 0), case.get("name")) for case in cases]


def table(title, rows):
    if not rows:
        return []
    total = sum(seconds for seconds, _ in rows)
    lines = [f"slowest {title}, of {len(rows)} that took {total:.0f} s one after another:"]
    for seconds, name in sorted(rows, key=lambda row: (-row[0], row[1]))[:SHOWN]:
        lines.append(f"{seconds:8.1f} s  {name}")
    return lines


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    results, *folders = map(pathlib.Path, sys.argv[1:])
    files = [row for folder in folders for row in built(folder)]
    print("\n".join(table("files", files) + table("tests", ran(results))))


if __name__ == "__main__":
    main()
