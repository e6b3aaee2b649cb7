#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each C++ file includes the standard headers whose names it uses, itself or by other files of this project.

`./run headers` compiles each file alone, but with all standard headers precompiled, which saves half of
the time. This check finds the standard headers that are missing. std_names.txt lists the names.
Run as: check_std_includes.py [project root].
"""

import pathlib
import re
import sys

NAMES = pathlib.Path(__file__).with_name("std_names.txt")
FOLDERS = ("farcall", "compat", "tools", "python", "examples", "tests", "bench", "fuzz")
CODE = {".hpp", ".cpp", ".cu", ".cuh"}
INCLUDED = CODE | {".h", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
STD_NAME = re.compile(r"(?<![\w:])std::(\w+)")
RAW_STRING = re.compile(r'R"([^\s()\\]*)\(.*?\)\1"', re.DOTALL)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# Headers of libraries, with standard headers on whose names their interfaces depend.
LIBRARIES = {
    "gtest/gtest.h": "cstddef cstdint functional memory ostream set string tuple utility vector",
    "fmt/format.h": "cstddef cstdint string string_view",
}


def read_names(text):
    """Returns a dictionary from each name to the headers that provide it."""
    names = {}
    headers = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            headers, line = line.split(":", 1)
        for name in line.split():
            names.setdefault(name, []).extend(headers.split())
    return names


def code_of(text):
    """Returns the text without comments and strings."""
    return COMMENT_OR_STRING.sub(lambda m: '""' if m.group()[0] == '"' else " ", RAW_STRING.sub('""', text))


class Tree:
    def __init__(self, root):
        self.texts = {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8", errors="replace")
                      for folder in FOLDERS for p in sorted((root / folder).rglob("*"))
                      if p.suffix in INCLUDED and p.is_file()}
        self.includes = {p: set(INCLUDE.findall(t)) for p, t in self.texts.items()}
        self.by_ending = {}
        for path in self.texts:
            parts = path.split("/")
            for i in range(len(parts)):
                self.by_ending.setdefault("/".join(parts[i:]), []).append(path)

    def files(self):
        return (p for p in self.texts if pathlib.PurePosixPath(p).suffix in CODE)

    def named(self, path, include):
        """Returns the files of this project that `include` in the file `path` may mean."""
        if include in self.texts:
            return [include]
        beside = str(pathlib.PurePosixPath(path).parent / include)
        return [beside] if beside in self.texts else self.by_ending.get(include, [])

    def headers_of(self, path):
        """Returns the foreign headers that the file includes, itself or by files of this project."""
        seen, unread, headers = {path}, [path], set()
        while unread:
            file = unread.pop()
            for include in self.includes[file]:
                files = self.named(file, include)
                if not files:
                    headers.update((include, *LIBRARIES.get(include, "").split()))
                unread += [f for f in files if f not in seen]
                seen.update(files)
        return headers


def provides(header, headers):
    """True if the headers include this one, or its twin of C, such as stdint.h for cstdint."""
    return header in headers or (header.startswith("c") and header[1:] + ".h" in headers)


def check(root):
    names = read_names(NAMES.read_text(encoding="utf-8"))
    tree = Tree(root)
    for path in tree.files():
        headers = tree.headers_of(path)
        code = code_of(tree.texts[path])
        if "fmt::" in code and not any(h.startswith("fmt/") for h in headers):
            yield f"{path}: fmt:: needs #include <fmt/format.h>"
        for name in sorted(set(STD_NAME.findall(code))):
            if name not in names:
                yield f"{path}: std::{name} is not in tests/header/std_names.txt: add it there, with its header"
            elif not any(provides(h, headers) for h in names[name]):
                yield f"{path}: std::{name} needs #include <{names[name][0]}>"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    problems = list(check(root))
    print("\n".join([*problems, f"{len(problems)} missing includes of standard headers"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
