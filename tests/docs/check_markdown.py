#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the Markdown pages: check_markdown.py [project root] [-- compiler and its options].

* A link leads to a file or folder that exists, and to a heading that exists if it names one.
* The C++ blocks of the README compile, and so do the C++ blocks of each page of the guide, joined in
  order. A page's C blocks compile as C11. Blocks that begin with the name of a file are left out:
  run_pages.py runs them.
* From the first page of the guide, the links "Next: [title](page)" at the ends of pages lead through
  all pages of the guide.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

CODE_FOLDERS_WITHOUT_PAGES = {"build", ".git"}
COMPILED = ("README.md", "docs/guide/*.md")
GUIDE = "docs/guide"
NEXT = re.compile(r"^Next: \[(.+)\]\(([\w.-]+)\)\n?\Z", re.M)
TITLE = re.compile(r"^# +(.+)$", re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
NAMED_FILE = re.compile(r"// [\w.-]+\.[ch]pp\n")
NO_SUCH_HEADER = re.compile(r"fatal error: .*(?:No such file|file not found)")
# Headers that may be missing. Blocks that include a missing one are left out.
OPTIONAL_HEADERS = ("cuda_runtime_api.h", "mpi.h")


def pages(root):
    return sorted(p for p in root.rglob("*.md")
                  if not CODE_FOLDERS_WITHOUT_PAGES & set(p.relative_to(root).parts))


def without_code(text):
    """Replaces fenced blocks and inline code by blanks, and keeps line numbers."""
    text = BLOCK.sub(lambda m: "\n" * m.group().count("\n"), text)
    return re.sub(r"`[^`\n]*`", lambda m: " " * len(m.group()), text)


def anchors(text):
    """Yields the anchors that GitHub gives to headings."""
    for heading in re.findall(r"^#+ +(.+)$", BLOCK.sub("", text), re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower().replace("`", ""))
        yield plain.replace(" ", "-")


def check_links(root):
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root).as_posix()
        for number, line in enumerate(without_code(text).splitlines(), 1):
            for link in LINK.findall(line):
                if "://" in link or link.startswith("mailto:"):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path) if path else page
                if not target.exists():
                    yield f"{name}:{number}: the link leads to {link}, which does not exist"
                elif anchor and target.suffix == ".md" and anchor not in set(
                        anchors(target.read_text(encoding="utf-8"))):
                    yield f"{name}:{number}: {path or name} has no heading for #{anchor}"


def check_order(root):
    """Yields pages of the guide that readers do not reach by the links to the next page."""
    guide = {p.name: p.read_text(encoding="utf-8") for p in sorted((root / GUIDE).glob("*.md"))}
    left = dict(guide)
    name = next(iter(guide), None)
    while name is not None:
        text = left.pop(name)
        match = NEXT.search(text)
        if match is None:
            break
        title, following = match.groups()
        if following not in left:
            yield f"{GUIDE}/{name}: the next page, {following}, does not exist, or comes earlier"
            return
        actual = TITLE.search(guide[following])
        if actual is None or actual[1] != title:
            yield f"{GUIDE}/{name}: the title of {following} is not {title!r}"
        name = following
    for other in left:
        yield f"{GUIDE}/{other}: no page before it ends with 'Next: [title]({other})'"


def program_of(page, left_out=(), wanted="cpp"):
    """Returns a page's blocks of one language as one file that keeps the page's line numbers."""
    text = page.read_text(encoding="utf-8")
    parts = []
    for match in BLOCK.finditer(text):
        language, block = match.groups()
        if language == wanted and not NAMED_FILE.match(block) and not any(h in block for h in left_out):
            line = text.count("\n", 0, match.start()) + 2
            parts.append(f'#line {line} "{page.as_posix()}"\n{block}')
    return "".join(parts)


def compile_page(page, compiler):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "page.cpp"
        for left_out in ((), OPTIONAL_HEADERS):
            program = program_of(page, left_out)
            if not program:
                return None
            file.write_text(program, encoding="utf-8")
            done = subprocess.run([*compiler, "-fsyntax-only", str(file)],
                                  text=True, capture_output=True)
            if done.returncode == 0:
                return None
            if not (NO_SUCH_HEADER.search(done.stderr)
                    and any(h in done.stderr for h in OPTIONAL_HEADERS)):
                break
    errors = [l for l in done.stderr.splitlines() if "error" in l] or done.stderr.splitlines()
    return "\n  ".join(errors[:5])


def compile_c_page(page, compiler):
    program = program_of(page, wanted="c")
    if not program:
        return None
    # The driver of a C++ compiler can compile C.
    options = [o for o in compiler[1:] if not o.startswith("-std=")]
    command = [compiler[0], *options, "-x", "c", "-std=c11", "-fsyntax-only", "-"]
    done = subprocess.run(command, input=program, text=True, capture_output=True)
    if done.returncode == 0:
        return None
    errors = [l for l in done.stderr.splitlines() if "error" in l] or done.stderr.splitlines()
    return "\n  ".join(errors[:5])


def check_programs(root, compiler):
    chosen = [p for pattern in COMPILED for p in sorted(root.glob(pattern))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for compile_one in (compile_page, compile_c_page):
            for page, wrong in zip(chosen, pool.map(lambda p: compile_one(p, compiler), chosen)):
                if wrong:
                    yield f"{page.relative_to(root).as_posix()} does not compile:\n  {wrong}"


def main():
    arguments = sys.argv[1:]
    compiler = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, compiler = arguments[:at], arguments[at + 1:]
    root = pathlib.Path(arguments[0] if arguments else ".").resolve()
    problems = [*check_links(root), *check_order(root)]
    if compiler:
        problems += check_programs(root, compiler)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s) in the Markdown pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
