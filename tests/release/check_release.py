#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each file that names farcall's version names the same one, and the number of the binary interface.

Files with the date of a release have the date in CHANGELOG.md, or none while its first section is "Unreleased (0.1.0)".

Run as: check_release.py [root]. Prints each fault, and exits with status 1 if there is one.
"""

import email.utils
import pathlib
import re
import sys

# Files with the version, and the pattern that finds it. Patterns find the numbers as text, or as one hexadecimal number.
PLACES = {
    "CHANGELOG.md": r"^## (?:Unreleased \()?(\d\S*?)\)?(?: \(\S+\))?$",
    "CMakeLists.txt": r"^  VERSION (\S+)$",
    "CITATION.cff": r"^version: (\S+)$",
    "farcall/base/version.hpp": r"this_release = 0x(\w{6});",
    "farcall/farcall.h": r"FC_VERSION_MAJOR (\d+) .*\n#define FC_VERSION_MINOR (\d+) .*\n#define FC_VERSION_PATCH (\d+) ",
    "packaging/conan/conanfile.py": r'^    version = "(\S+)"$',
    "packaging/conda/meta.yaml": r'set version = "(\S+)"',
    "packaging/debian/changelog": r"^farcall \((\S+)\)",
    "packaging/spack/package.py": r'^    version\("(\S+?)"',
    "packaging/vcpkg/vcpkg.json": r'"version": "(\S+)"',
}
# Files with the number of the binary interface.
INTERFACES = {
    "CMakeLists.txt": r"^set\(FARCALL_ABI (\d+)\)$",
    "packaging/debian/control": r"^Package: libfarcall(\d+)$",
    "packaging/debian/rules": r"=libfarcall(\d+) ",
}
# Files with the minor version in the name of a folder.
FOLDERS = {
    "packaging/conan/conanfile.py": r"cmake/farcall-(\d+\.\d+)",
    "packaging/debian/rules": r"lib/farcall-(\d+\.\d+)/",
    "packaging/vcpkg/portfile.cmake": r"cmake/farcall-(\d+\.\d+)",
    "docs/guide/17-clusters.md": r"lib/farcall-(\d+\.\d+)/",
}
# Files with the date of the release. The pattern of CHANGELOG.md finds the first section, with or without a date.
DATES = {
    "CHANGELOG.md": r"^## (?:Unreleased \(\S+\)|\S+ \((\d{4}-\d\d-\d\d)\))$",
    "CITATION.cff": r"^date-released: (\S+)$",
}
DEBIAN_CHANGELOG = "packaging/debian/changelog"
# Debian's changelog needs a date in each entry. The distribution says whether the entry is released.
UNRELEASED = "UNRELEASED"
DEBIAN_ENTRY = r"^farcall \(\S+\) (\S+);[\s\S]*?^ -- .*>  (.+)$"


def found_in(root, places):
    """Yields each file with the text that its pattern finds, or None."""
    for name, pattern in places.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.M)
        yield name, ".".join(match.groups()) if match else None


def as_numbers(text):
    """Returns a version as three numbers, or the text itself if it is none."""
    if text and re.fullmatch(r"[0-9a-fA-F]{6}", text):
        return ".".join(str(int(text[at:at + 2], 16)) for at in (0, 2, 4))
    return text


def debian_date(root):
    """Returns the date of the first entry of Debian's changelog, or None if the entry is not released."""
    match = re.search(DEBIAN_ENTRY, (root / DEBIAN_CHANGELOG).read_text(encoding="utf-8"), re.M)
    if not match:
        return "in no known form"
    if match[1] == UNRELEASED:
        return None
    return email.utils.parsedate_to_datetime(match[2]).date().isoformat()


def faults_of_dates(root):
    """Yields files whose date of the release differs from that of CHANGELOG.md."""
    section = re.search(DATES["CHANGELOG.md"], (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    if not section:
        yield "CHANGELOG.md has no section with a release, nor an unreleased one"
        return
    citation = re.search(DATES["CITATION.cff"], (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    for name, date in (("CITATION.cff", citation and citation[1]), (DEBIAN_CHANGELOG, debian_date(root))):
        if date != section[1]:
            yield f"{name} is {as_state(date)}, CHANGELOG.md {as_state(section[1])}"


def as_state(date):
    return f"released ({date})" if date else "not released"


def faults_of(root):
    """Yields the faults."""
    yield from faults_of_dates(root)
    first = dict(found_in(root, PLACES))["CMakeLists.txt"]
    for name, text in found_in(root, PLACES):
        if as_numbers(text) != first:
            yield f"{name} names the version {as_numbers(text)}, CMakeLists.txt {first}"
    minor = first.rpartition(".")[0]
    for name, text in found_in(root, FOLDERS):
        if text != minor:
            yield f"{name} names a folder of the version {text}, CMakeLists.txt the version {first}"
    interface = dict(found_in(root, INTERFACES))["CMakeLists.txt"]
    for name, text in found_in(root, INTERFACES):
        if text != interface:
            yield f"{name} names the interface {text}, CMakeLists.txt {interface}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    faults = list(faults_of(root))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
