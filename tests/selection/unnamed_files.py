#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists files of the build that tests use, but that `./run test -R` does not build for these tests.

Run as: unnamed_files.py <complete build folder> [regular expression of ctest]. Needs strace. Runs each test whose name
matches, and each GoogleTest program with such a test, and notes which files of the build it executes or opens. Prints a
line for each file that the targets of the test (targets_of_tests.py) do not include. Ends with 1 if there is one.

To mend such a test, name the file in its command ($<TARGET_FILE:...>), or call farcall_test_needs(). A GoogleTest
program needs add_dependencies().
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import targets_of_tests

# Ends a test that hangs. strace makes tests slower.
SECONDS = 600
# A line of strace with -y: the path of a program that was executed, or the path behind the descriptor that was opened.
EXECUTED = re.compile(r'^(?:\d+ +)?execve\("([^"]+)"')
OPENED = re.compile(r"^(?:\d+ +)?(?:<\.\.\. )?open(?:at|at2)?\b.*\) += \d+<([^>]+)>$")


def paths_in(trace):
    """Returns the paths of files that the traced processes have executed or opened."""
    found = (EXECUTED.match(line) or OPENED.match(line) for line in trace)
    return {match.group(1) for match in found if match}


def unnamed(used, needed, outputs, folder):
    """Returns the files of the build that were used and are not needed, relative to the folder. Links are followed."""
    def real(names):
        return {os.path.realpath(folder / name) for name in names}

    # ninja lists headers of the sources, too, whose names are absolute.
    made = {os.path.realpath(folder / name): name for name in sorted(outputs)
            if not name.startswith("/") and (folder / name).is_file()}
    return sorted(made[path] for path in real(used) & made.keys() - real(needed))


def environment_of(test, variables):
    """Returns the environment in which ctest runs a test."""
    environment = dict(variables)
    for p in test.get("properties", []):
        if p["name"] == "ENVIRONMENT":
            environment.update(value.split("=", 1) for value in p["value"])
        if p["name"] == "ENVIRONMENT_MODIFICATION":
            for value in p["value"]:
                name, how, text = re.fullmatch(r"([^=]+)=(\w+):(.*)", value, re.S).groups()
                if how != "path_list_prepend":
                    raise SystemExit(f"{test['name']}: the operation {how} is not known here")
                environment[name] = f"{text}:{environment.get(name, '')}"
    return environment


def paths_of(test):
    """Runs a test, and returns the paths of files that it has executed or opened."""
    where = next((p["value"] for p in test["properties"] if p["name"] == "WORKING_DIRECTORY"), None)
    with tempfile.NamedTemporaryFile(mode="r", errors="replace") as trace:
        subprocess.run(["timeout", "-k", "5", str(SECONDS), "strace", "-f", "-y", "-qq", "-z", "--seccomp-bpf",
                        "-s", "4096", "-e", "trace=execve,open,openat,openat2", "-e", "signal=none", "-o", trace.name,
                        *test["command"]], cwd=where, env=environment_of(test, os.environ), check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return paths_in(trace)


def main():
    if not 2 <= len(sys.argv) <= 3:
        raise SystemExit(__doc__)
    if shutil.which("strace") is None:
        raise SystemExit("unnamed_files.py: strace is not installed")
    folder = pathlib.Path(sys.argv[1]).resolve()
    matches = targets_of_tests.compiled(sys.argv[2] if len(sys.argv) == 3 else "").search
    tests, outputs = targets_of_tests.tests_of(folder), targets_of_tests.outputs_of(folder)
    programs = targets_of_tests.read_programs(folder)
    # Tests of a GoogleTest program share its targets, so that the program runs once.
    own = {str(folder / "bin" / program) for program in programs}
    chosen = [(test, targets_of_tests.select(f"^{re.escape(test['name'])}$", {}, tests, outputs, folder))
              for test in tests if matches(test["name"]) and test.get("command", ["/"])[0] not in own | {"/"}]
    chosen += [({"name": program, "command": [str(folder / "bin" / program)], "properties": []}, {program})
               for program, names in programs.items() if any(map(matches, names))]
    found = 0
    for test, targets in chosen:
        if "all" in targets:
            continue
        # ninja lists no file that is an input of a name only, such as of a target's name.
        names = sorted(f"bin/{name}" if f"bin/{name}" in outputs else name for name in targets - {"cross"})
        needed = subprocess.run(["ninja", "-C", folder, "-t", "inputs", *names], stdout=subprocess.PIPE, text=True,
                                check=True).stdout.splitlines() if names else []
        for file in unnamed(paths_of(test), {*needed, *names}, outputs, folder):
            found += 1
            print(f"{test['name']}: {file}", flush=True)
    print(f"{len(chosen)} tests, {found} unnamed file(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
