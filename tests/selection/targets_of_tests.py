#!/usr/bin/env python3
"""Prints the build targets that `./run test -R x` needs.

Run as: targets_of_tests.py <build folder> <ctest argument>... Prints one target a line. Prints `all`
if the arguments have no -R, if a test needs the whole build, or if the pattern matches no known name:
a complete build is the safe choice. Prints `cross`, too, if a test starts programs that are
built for other machines.

A GoogleTest program can list its tests only after it is built, so the names are read from its sources;
CMake lists these in test_programs/<program>.txt (cmake/farcall_programs.cmake). Any other test needs the
files of the build folder that its command line names.
"""

import json
import pathlib
import re
import subprocess
import sys

TEST = re.compile(r"^\s*(?:TYPED_)?TEST(_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)
INSTANCE = re.compile(r"^\s*INSTANTIATE_TEST_SUITE_P\(\s*(\w*)\s*,\s*(\w+)", re.M)
OTHER_MACHINES = re.compile(r"aarch64|riscv64|other_machine|other_library")
# Test programs that start programs for other machines.
STARTS_OTHER_MACHINES = ("farcall_different_tests", "farcall_launcher_tests")


def pattern_of(arguments):
    """Returns the regular expression behind ctest's -R, or None."""
    for argument, following in zip(arguments, arguments[1:] + [None]):
        if argument in ("-R", "--tests-regex"):
            return following
        if argument.startswith("-R"):
            return argument[2:]
    return None


def names_in(texts, prefix=""):
    """Yields the names that GoogleTest gives to the tests in these sources of one program."""
    text = "\n".join(texts)
    instances = {}
    for instance, suite in INSTANCE.findall(text):
        instances.setdefault(suite, []).append(f"{instance}/" if instance else "")
    for kind, suite, name in TEST.findall(text):
        for instance in instances.get(suite, [""]) if kind == "_P" else [""]:
            yield f"{prefix}{instance}{suite}.{name}" + ("/" if kind == "_P" else "")


def read_programs(folder):
    """Returns the names of tests of each GoogleTest program, by the program's target."""
    programs = {}
    for listing in sorted((folder / "test_programs").glob("*.txt")):
        prefix, source_folder, *sources = listing.read_text(encoding="utf-8").splitlines()
        paths = [pathlib.Path(source_folder) / source for source in sources]
        texts = [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
        programs[listing.stem] = list(names_in(texts, prefix))
    return programs


def with_fixtures(chosen, tests):
    """Returns the chosen tests, and the tests that set up their fixtures."""
    def fixtures(test, kind):
        return {value for p in test.get("properties", []) if p["name"] == kind for value in p["value"]}

    required = set().union(*(fixtures(test, "FIXTURES_REQUIRED") for test in chosen), set())
    return chosen + [t for t in tests if fixtures(t, "FIXTURES_SETUP") & required and t not in chosen]


def select(pattern, programs, tests, outputs, folder):
    """Returns the targets that the tests need whose names match the pattern.

    `programs` comes from read_programs(), `tests` from `ctest --show-only=json-v1`, and `outputs` has
    the files that the build can make, relative to `folder`.
    """
    matches = re.compile(pattern).search
    targets = {program for program, names in programs.items() if any(map(matches, names))}
    own_programs = {f"bin/{program}" for program in programs}
    chosen = [test for test in tests if matches(test["name"]) and "command" in test]
    needs_all = not targets and not chosen
    # A test whose argument is the build folder itself installs all of it, and so needs the whole build.
    paths = re.compile(re.escape(str(folder)) + r"(?:/([^\s\"';:,]+))?")
    for test in with_fixtures(chosen, tests):
        for path in paths.findall(json.dumps(test)):
            if not path and str(folder) in test.get("command", []):
                needs_all = True
            elif path in outputs and path not in own_programs:
                targets.add(path)
    if any(OTHER_MACHINES.search(test["name"]) for test in chosen) or \
            targets & set(STARTS_OTHER_MACHINES):
        targets.add("cross")
    return {"all", "cross"} if needs_all else targets


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    pattern = pattern_of(sys.argv[2:])
    if pattern is None:
        print("all\ncross")
        return 0
    listed = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"],
                            capture_output=True, text=True, check=True).stdout
    built = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], capture_output=True,
                           text=True, check=True).stdout
    outputs = {line.partition(": ")[0].removeprefix(f"{folder}/") for line in built.splitlines()}
    tests = json.loads(listed[listed.index("{"):])["tests"]
    for target in sorted(select(pattern, read_programs(folder), tests, outputs, folder)):
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
