#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the cost of including <farcall/farcall.hpp>: the number of preprocessed lines has a limit, and
some headers must not be included.

Run as: check_header.py <project root> <compiler> [option…]. Always prints the heaviest headers.
"""

import collections
import re
import subprocess
import sys

MOST_LINES = 75_000
HEAVIEST_SHOWN = 15

# Standard headers whose cost to every program exceeds their use here. <sstream> brings <iostream> and
# the like; immintrin.h brings the compiler's intrinsics.
REFUSED_STANDARD = ("ranges", "filesystem", "sstream", "thread", "shared_mutex", "iostream", "ostream",
                    "locale", "memory", "functional", "immintrin.h", "x86intrin.h")
# Headers of farcall that calls do not need. Calls need one header of transports: endpoint.hpp, with a
# lane's two rings.
REFUSED_OWN = re.compile(r"/farcall/(job|gpu|server)/|/farcall/transport/(?!endpoint\.hpp)|/farcall/am/engine\.hpp")

LINE_MARK = re.compile(r'^# \d+ "([^"]*)"')


def preprocess(compiler, options, source):
    run = subprocess.run([compiler, *options, "-E", "-x", "c++", "-"], input=source, text=True,
                         capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"the compiler cannot read the header:\n{run.stderr}")
    return run.stdout.splitlines()


def lines_by_header(lines):
    count = collections.Counter()
    current = ""
    for line in lines:
        mark = LINE_MARK.match(line)
        if mark:
            current = mark.group(1)
        else:
            count[current] += 1
    return count


def problems_of(lines, limit=MOST_LINES):
    found = []
    if len(lines) > limit:
        found.append(f"{len(lines)} preprocessed lines; at most {limit} are allowed")
    for path in sorted(lines_by_header(lines)):
        if REFUSED_OWN.search(path):
            found.append(f"{path} is the library's own affair; programs shall not compile it")
        elif "/farcall/" not in path and path.rsplit("/", 1)[-1] in REFUSED_STANDARD:
            found.append(f"{path} is too much for every program; include it where it is needed")
    return found


def self_check():
    """Asserts that the check can fail: lines that break a rule are found, for each rule."""
    assert problems_of(["int x;"] * 3, limit=2), "too many lines"
    assert problems_of(['# 1 "/usr/include/c++/12/sstream" 1', "x"]), "a refused standard header"
    assert problems_of(['# 1 "/p/farcall/transport/tcp/tcp.hpp" 1', "x"]), "a transport"
    assert problems_of(['# 1 "/p/farcall/gpu/gpu.hpp" 1', "x"]), "the module for GPUs"
    assert not problems_of(['# 1 "/p/farcall/transport/endpoint.hpp" 1', "x"]), "a lane's rings"


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    root, compiler, *options = sys.argv[1:]
    self_check()
    lines = preprocess(compiler, ["-std=c++20", f"-I{root}", *options],
                       "#include <farcall/farcall.hpp>\n")
    print(f"{len(lines)} preprocessed lines, of which")
    for path, count in lines_by_header(lines).most_common(HEAVIEST_SHOWN):
        print(f"{count:7} {path}")
    found = problems_of(lines)
    for problem in found:
        print(f"farcall.hpp: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
