#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the build targets that `./run test -R x` needs.

Run as: targets_of_tests.py <build folder> <ctest argument>... Prints one target a line. Prints `all`
if the arguments have no -R, if a test needs the whole build or a folder of it, if ctest cannot list the
tests, or if the pattern matches no known name: a complete build is the safe choice. Prints `cross` beside
the targets if a test starts programs of other machines, and no line if tests need no target.

GoogleTest programs list their tests only after they are built, so names of tests are read from the
sources, which CMake writes to test_programs/<program>.txt (cmake/farcall_programs.cmake), and from the
headers that these include. Each literal there may be the name of a parameter. Targets of all other tests
are the files of the build folder that the tests' commands name. Programs of an earlier build list their
tests, too, and are built again.
"""

import json
import pathlib
import re
import subprocess
import sys

TEST = re.compile(r"^\s*(TYPED_TEST|TEST|TEST_F|TEST_P)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)
INSTANCE = re.compile(r"^\s*INSTANTIATE_TEST_SUITE_P\(\s*(\w*)\s*,\s*(\w+)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
ROOT = pathlib.Path(__file__).resolve().parents[2]
LITERAL = re.compile(r'"(\w+)"')
# Parts of a regular expression of ctest: a set, an escaped character, or one character.
PART = re.compile(r"(\[\^?\]?[^\]]*\])|\\(.)|(.)", re.S)
OTHER_MACHINES = re.compile(r"aarch64|riscv64|other_machine|other_library")
# Programs whose tests start programs that ./run cross has built.
STARTS_OTHER_MACHINES = ("farcall_different_tests", "farcall_launcher_tests")


def pattern_of(arguments):
    """Returns the regular expression behind ctest's last -R, or None. ctest ignores `-Rx` and `-R=x`."""
    pattern = None
    for argument, following in zip(arguments, arguments[1:]):
        if argument in ("-R", "--tests-regex"):
            pattern = following
    return pattern


def compiled(pattern):
    """Compiles a regular expression of ctest, in which `\\w` is a `w` and braces are characters."""
    if "(?" in pattern:
        raise re.error("a '?' follows nothing")

    def in_python(part):
        characters, escaped, other = part.groups()
        if characters:
            return characters.replace("\\", r"\\")
        return re.escape(escaped) if escaped else other if other not in "{}" else "\\" + other

    return re.compile(PART.sub(in_python, pattern))


def names_in(texts, prefix=""):
    """Yields the names that GoogleTest gives to the tests in these sources of one program."""
    text = "\n".join(texts)
    instances = {}
    for instance, suite in INSTANCE.findall(text):
        instances.setdefault(suite, []).append(f"{instance}/" if instance else "")
    parameters = ["", *sorted(set(LITERAL.findall(text)))]
    for kind, suite, name in TEST.findall(text):
        if kind == "TYPED_TEST":
            yield f"{prefix}{suite}/.{name}"
        elif kind != "TEST_P":
            yield f"{prefix}{suite}.{name}"
        else:
            for instance in instances.get(suite, [""]):
                yield from (f"{prefix}{instance}{suite}.{name}/{parameter}" for parameter in parameters)


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def headers_of(path, text, root):
    """Yields the headers of the tree with tests or their instances that a source includes."""
    for name in INCLUDE.findall(text):
        for header in (path.parent / name, root / name):
            if header.is_file() and "TEST" in read(header):
                yield header


def read_programs(folder, root=ROOT):
    """Returns the names of tests of each GoogleTest program, by the program's target."""
    programs = {}
    for listing in sorted((folder / "test_programs").glob("*.txt")):
        prefix, source_folder, *sources = listing.read_text(encoding="utf-8").splitlines()
        paths = [pathlib.Path(source_folder) / source for source in sources]
        texts = {path: read(path) for path in paths if path.is_file()}
        headers = {header for path, text in texts.items() for header in headers_of(path, text, root)}
        programs[listing.stem] = list(names_in([*texts.values(), *map(read, headers)], prefix))
    return programs


def with_fixtures(chosen, tests):
    """Returns the chosen tests, and the tests that set up their fixtures."""
    def fixtures(test, kind):
        return {value for p in test.get("properties", []) if p["name"] == kind for value in p["value"]}

    required = set().union(*(fixtures(test, "FIXTURES_REQUIRED") for test in chosen), set())
    return chosen + [t for t in tests if fixtures(t, "FIXTURES_SETUP") & required and t not in chosen]


def uses_of(test):
    """Returns the command and the properties of a test, without the folder in which it begins."""
    return [test.get("command", []), *(p for p in test.get("properties", []) if p["name"] != "WORKING_DIRECTORY")]


def select(pattern, programs, tests, outputs, folder):
    """Returns the targets that are needed by the tests whose names match the pattern.

    `programs` comes from read_programs(), `tests` from `ctest --show-only=json-v1`, and `outputs` has
    the files that the build can make, relative to `folder`.
    """
    matches = compiled(pattern).search
    targets = {program for program, names in programs.items() if any(map(matches, names))}
    own_programs = {f"bin/{program}": program for program in programs}
    folders = {str(parent) for output in outputs for parent in pathlib.PurePath(output).parents}
    chosen = [test for test in tests if matches(test["name"]) and "command" in test]
    needs_all = not targets and not chosen
    # The name of the build folder itself is the argument of tests that install all of it.
    paths = re.compile(re.escape(str(folder)) + r"(?:/([^\s\"';:,]+))?")
    for test in with_fixtures(chosen, tests):
        for path in paths.findall(json.dumps(uses_of(test), ensure_ascii=False)):
            if path.rstrip("/") in folders or not path and str(folder) in test.get("command", []):
                needs_all = True
            elif path in outputs:
                targets.add(own_programs.get(path, path))
    if any(OTHER_MACHINES.search(test["name"]) for test in chosen) or \
            targets & set(STARTS_OTHER_MACHINES):
        targets.add("cross")
    return {"all", "cross"} if needs_all else targets


def tests_of(folder):
    """Returns the tests that ctest lists, or None if ctest fails."""
    listed = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"],
                            stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode != 0:
        return None
    return json.loads(listed.stdout[listed.stdout.index("{"):])["tests"]


def outputs_of(folder):
    """Returns the files that the build can make, relative to the folder."""
    built = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], stdout=subprocess.PIPE,
                           text=True, check=True).stdout
    return {line.partition(": ")[0].removeprefix(f"{folder}/") for line in built.splitlines()}


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    pattern = pattern_of(sys.argv[2:])
    tests = None if pattern is None else tests_of(folder)
    if tests is None:
        if pattern is not None:
            # For instance, a program of an earlier build cannot list its tests.
            print("ctest cannot list the tests, so all programs are built", file=sys.stderr)
        print("all\ncross")
        return 0
    outputs = outputs_of(folder)
    try:
        targets = select(pattern, read_programs(folder), tests, outputs, folder)
    except re.error as error:
        raise SystemExit(f"-R {pattern!r}: this is no regular expression of ctest: {error}") from None
    if "all" in targets:
        print(f"-R {pattern!r} matches no known test, or a test that needs all programs: all are built",
              file=sys.stderr)
    for target in sorted(targets):
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
