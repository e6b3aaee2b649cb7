#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference and the guide into one site: build.py <output folder>, from the project root.

Doxygen reads the headers that docs/reference/interface.txt names and copies of the Markdown pages in
which links lead to pages of the site. A public name without a comment is an error, as is every other
warning of Doxygen, and a link that leads nowhere. A page about the Python package comes from its docstrings
(python_page.py), and the index of the search from the finished pages (site_search.py). Needs no network.
"""

import html
import pathlib
import re
import shutil
import subprocess
import sys
from xml.sax.saxutils import quoteattr

import python_page
import site_search

HERE = pathlib.Path("docs/reference")
# Sections of the tree on the left: title, and pages in their order.
SECTIONS = (
    ("Guide", ["docs/guide/*.md", "docs/why.md", "docs/gotchas.md", "docs/settings.md", "docs/glossary.md"]),
    ("Inside", ["docs/architecture.md", "docs/wire.md", "docs/copies.md", "docs/staged-lane.md",
                "docs/performance.md", "docs/scale.md", "docs/benchmarks.md", "docs/suites.md",
                "CONTRIBUTING.md", "CHANGELOG.md"]),
    ("Decisions", ["docs/decisions/*.md"]),
)
MAIN_PAGE = "README.md"

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()[^)\s]*/([^)/\s]+\))")
NEXT = re.compile(r"^Next: \[(.+)\]\(([\w.-]+)\)$", re.M)
# Doxygen ends code at an apostrophe, except behind two backticks.
QUOTING_CODE = re.compile(r"(?<!`)`([^`\n]*'[^`\n]*)`(?!`)")
REMARK = re.compile(r"^<!--.*-->\n", re.M)
HEADING = re.compile(r"^(##+) +(.+)$", re.M)
FENCE = re.compile(r"^```", re.M)
# Members that need no comment: copies, moves, default comparisons, and constructors that are inherited
# from the base class.
OBVIOUS = re.compile(r"Member (?:operator==|operator=)\(|Member (\w+)\(\1 ?(?:const )?&&? ?\w*\)|"
                     r"Member (\w+)\(const \2 &\w*\)|Member error\(const std::string &what")
# Doxygen 1.9.4 does not connect a specialisation of a variable with its template elsewhere.
UNTRUE = re.compile(r"documented symbol '.*(?:is_bound_to_node|refers_to).*' was not declared")


def interface():
    lines = (HERE / "interface.txt").read_text(encoding="utf-8").splitlines()
    return [l for l in lines if l and not l.startswith("#")]


def in_order(paths):
    """Returns pages in the order of their links to the next page, and by name without such links."""
    left = {path.name: path for path in sorted(paths)}
    ordered = []
    while left:
        name = next(iter(left))
        while name in left:
            ordered.append(left.pop(name))
            following = NEXT.search(ordered[-1].read_text(encoding="utf-8"))
            name = following[2] if following else None
    return ordered


def pages():
    """Yields (section, path) of every page, in order."""
    for section, patterns in SECTIONS:
        for pattern in patterns:
            for path in in_order(pathlib.Path().glob(pattern)):
                yield section, path


def page_id(path):
    return "page_" + re.sub(r"\W", "_", path.with_suffix("").as_posix())


def title_of(text):
    match = re.search(r"^# +(.+)$", text, re.M)
    return match.group(1) if match else "farcall"


def outside_code(text, change):
    """Applies `change` to all text outside fenced blocks."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(p if p.startswith("```") else change(p) for p in parts)


def anchor_of(title):
    """Returns the anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def for_doxygen(path, known):
    """Returns the page with links to other pages of the site, and with an identifier of its own."""
    text = path.read_text(encoding="utf-8")

    def target(match):
        label, link = match.group(1), match.group(2)
        if "://" in link:
            return match.group(0)
        if link.startswith("#"):
            return f"[{label.replace('`', '')}](#{page_id(path)}_{link[1:]})"
        file = (path.parent / link.split("#")[0]).resolve().relative_to(pathlib.Path().resolve())
        if file == pathlib.Path(MAIN_PAGE):
            return f"[{label}](index.html)"
        if file in known:
            return f"[{label}]({page_id(file)}.html)"
        return label if "`" in label else f"{label} (`{file.as_posix()}`)"

    def heading(match):
        marks, title = match.groups()
        anchor = anchor_of(title)
        if f"](#{anchor})" not in text:
            return match.group(0)
        # Doxygen shows the backticks in a heading that has a name.
        return f"{marks} {title.replace('`', '')} {{#{page_id(path)}_{anchor}}}"

    def following(match):
        title, link = match.groups()
        page = f"{page_id(path.parent / link)}.html"
        return f'<div class="next"><a href="{page}">Next: {html.escape(title.replace("`", ""))}</a></div>'

    def change(part):
        part = NEXT.sub(following, QUOTING_CODE.sub(r"``\1``", REMARK.sub("", part)))
        # Pictures are in the same folder as all pages of the site.
        return HEADING.sub(heading, LINK.sub(target, PICTURE.sub(r"\1\2", part)))

    text = outside_code(text, change)
    if path == pathlib.Path(MAIN_PAGE):
        return re.sub(r"^# +.+$", "# farcall {#mainpage}", text, count=1, flags=re.M)
    return re.sub(r"^# +(.+)$", rf"# \1 {{#{page_id(path)}}}", text, count=1, flags=re.M)


def header(path):
    """Returns the header, in which the comment before its namespace documents the file; a header for C
    has this comment at the beginning."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h":
        return text.replace("\n\n///", "\n\n/// @file\n///", 1)
    return re.sub(r"^\n((?:///.*\n)+namespace )", r"/// @file\n\1", text, flags=re.M)


def layout(folder):
    """Writes Doxygen's layout, with the pages of the site in place of its lists of pages and files."""
    subprocess.run(["doxygen", "-l", folder / "layout.xml"], check=True, stdout=subprocess.DEVNULL)
    text = (folder / "layout.xml").read_text(encoding="utf-8")
    tabs = ['    <tab type="mainpage" visible="yes" title="farcall"/>']
    for section, _ in SECTIONS[:1]:
        tabs += section_tabs(section)
    tabs.append('    <tab type="usergroup" url="@ref farcall" visible="yes" title="Reference">\n'
                '      <tab type="user" url="@ref farcall" visible="yes" title="Functions"/>\n'
                '      <tab type="classlist" visible="yes" title="Classes"/>\n'
                '      <tab type="user" url="@ref farcall::device" visible="yes" title="For devices"/>\n'
                '      <tab type="filelist" visible="yes" title="Headers"/>\n'
                f'      <tab type="user" url="@ref {python_page.PAGE_ID}" visible="yes" title="Python"/>\n'
                '    </tab>')
    for section, _ in SECTIONS[1:]:
        tabs += section_tabs(section)
    text = re.sub(r"<navindex>.*</navindex>",
                  lambda _: "<navindex>\n" + "\n".join(tabs) + "\n  </navindex>", text, flags=re.S)
    # The description of a class or namespace comes before the list of its members.
    whole = '<detaileddescription visible="yes" title=""/>'
    for kind in ("class", "namespace"):
        part = re.search(rf"<{kind}>.*?</{kind}>", text, re.S).group()
        moved = re.sub(r"\n *<detaileddescription [^>]*/>", "", part)
        moved = re.sub(r"<briefdescription [^>]*/>", whole, moved)
        text = text.replace(part, moved)
    (folder / "layout.xml").write_text(text, encoding="utf-8")


def section_tabs(section):
    own = [path for name, path in pages() if name == section]
    yield f'    <tab type="usergroup" visible="yes" title={quoteattr(section)} url="@ref {page_id(own[0])}">'
    for path in own:
        title = title_of(path.read_text(encoding="utf-8"))
        yield (f'      <tab type="user" visible="yes" url="@ref {page_id(path)}" '
               f"title={quoteattr(title)}/>")
    yield "    </tab>"


def run(output):
    work = output / "work"
    shutil.rmtree(output, ignore_errors=True)
    work.mkdir(parents=True)
    known = {path for _, path in pages()}
    texts = {p: for_doxygen(p, known) for p in (pathlib.Path(MAIN_PAGE), *(p for _, p in pages()))}
    texts |= {pathlib.Path(p): header(pathlib.Path(p)) for p in interface()}
    texts[HERE / "python.md"], complaints = python_page.page()
    for path, text in texts.items():
        copy = work / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    layout(work)
    inputs = [HERE / "namespaces.dox", *(work / path for path in texts)]
    config = (HERE / "Doxyfile").read_text(encoding="utf-8") + (
        f"\nOUTPUT_DIRECTORY = {output}\nLAYOUT_FILE = {work / 'layout.xml'}\n"
        f"STRIP_FROM_PATH = {work.resolve()}\nSTRIP_FROM_INC_PATH = {work.resolve()}\n"
        f"USE_MDFILE_AS_MAINPAGE = {work / MAIN_PAGE}\n"
        f"INPUT = {' '.join(map(str, inputs))}\n")
    done = subprocess.run(["doxygen", "-"], input=config, text=True, capture_output=True)
    shutil.rmtree(work)
    site_search.add_to(output)
    lines = done.stderr.replace(f"{work.resolve()}/", "").splitlines()
    real = complaints + [l for l in lines if l.strip() and not OBVIOUS.search(l) and not UNTRUE.search(l)]
    if done.returncode != 0 and not real:
        real = [f"doxygen ended with {done.returncode}"]
    # Doxygen's own pages have links to members that it shows elsewhere.
    return real + [l for l in site_search.broken_links(output) if l.startswith(("index.html", "page_"))]


def main():
    if shutil.which("doxygen") is None:
        raise SystemExit("build.py: doxygen is missing; on Debian: apt-get install doxygen")
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")
    wrong = run(output)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        raise SystemExit(f"build.py: {len(wrong)} complaints; public names need a /// comment, and links a target")
    print(f"{output}/index.html")


if __name__ == "__main__":
    main()
