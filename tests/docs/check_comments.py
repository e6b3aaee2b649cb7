#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the comments of public headers: check_comments.py [project root].

* In each header that farcall.hpp includes, directly or not, each class, enum, concept and free function
  has a `///` comment.
* In the headers of docs/reference/interface.txt, which programs include, each public member function has
  one, too. An operation that can fail says what it throws, and a class says which threads may use it.
  C functions throw nothing: the beginning of a C header states errors and threads for all of them.
"""

import pathlib
import re
import sys

from header_reader import declarations

ROOT_HEADER = "farcall/farcall.hpp"
INTERFACE = "docs/reference/interface.txt"
# Headers of compatibility layers that are farcall's own, rather than copies of an older library's.
OWN_COMPAT_HEADERS = ("compat/veo/include/host/farcall_veo.h",)
INCLUDE = re.compile(r"^\s*#\s*include\s*<(farcall/[^>]+)>", re.M)

THREADS = re.compile(r"\bthreads?\b", re.I)
ERRORS = re.compile(r"\bthrows?\b|\bthrown\b|\bnever fails\b|\bcannot fail\b", re.I)


def reachable(root, name=ROOT_HEADER, seen=None):
    seen = {} if seen is None else seen
    path = root / name
    if name in seen or not path.is_file():
        return seen
    seen[name] = path.read_text(encoding="utf-8")
    for included in INCLUDE.findall(seen[name]):
        reachable(root, included, seen)
    return seen


def interface(root):
    lines = (root / INTERFACE).read_text(encoding="utf-8").splitlines()
    return [l for l in lines if l and not l.startswith("#")]


def as_doc_comments(text):
    """Turns C comments into `///` comments. C89, which C headers must also serve, has no `//`."""
    return re.sub(r"/\*(.*?)\*/", lambda m: "\n".join(
        "///" + line.lstrip(" *") for line in m.group(1).splitlines()), text, flags=re.S)


def is_internal(declaration):
    """True for layers before `async`, which public headers use and programs do not."""
    return re.match(r"farcall::(am|cuda|shm|tcp|ring_detail)\b", declaration.name) is not None


def check_comments(name, found, is_interface):
    commented = set()
    for d in found:
        if d.comment.strip():
            commented.add((d.kind, d.name))
            continue
        if d.kind == "variable" or d.is_special and d.in_class:
            continue
        if d.in_class and d.kind == "function" and not is_interface:
            continue
        if (d.kind, d.name) in commented:
            continue  # an overload has a comment
        yield f"{name}:{d.line}: {d.kind} {d.name} has no /// comment"


def check_errors(name, found):
    speaking = {d.name for d in found if d.kind == "function" and ERRORS.search(d.comment)}
    for d in found:
        if d.kind != "function" or d.is_noexcept or d.is_special or not d.comment.strip():
            continue
        if d.name in speaking:
            continue
        yield (f"{name}:{d.line}: {d.name} can throw, and its comment does not say what: 'Throws …', "
               "or make it noexcept, or say that it 'never fails'")


def check_threads(name, found):
    for d in found:
        if d.kind != "class" or re.search(r"\berror\b", d.bases):
            continue
        members = [m for m in found if m.name.startswith(d.name + "::") and m.kind == "function"
                   and not m.is_special]
        if members and d.comment.strip() and not THREADS.search(d.comment):
            yield f"{name}:{d.line}: the comment of {d.name} does not say which threads may use it"


def check(root):
    headers = reachable(root)
    public = interface(root)
    for name in public:
        if name not in headers:
            path = root / name
            if not path.is_file():
                yield f"{INTERFACE}: there is no {name}"
                continue
            headers[name] = path.read_text(encoding="utf-8")
    for name in INCLUDE.findall(headers.get(ROOT_HEADER, "")):
        if name not in public:
            yield f"{INTERFACE}: {name} is missing; {ROOT_HEADER} includes it"
    for name in OWN_COMPAT_HEADERS:
        if (root / name).is_file():
            headers[name] = as_doc_comments((root / name).read_text(encoding="utf-8"))
    for name, text in headers.items():
        found = [d for d in declarations(text) if not is_internal(d) or name in public]
        yield from check_comments(name, found, name in public)
        if name in public and not name.endswith(".h"):
            yield from check_errors(name, found)
            yield from check_threads(name, found)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = list(check(root))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) in the comments of {len(reachable(root))} public headers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
