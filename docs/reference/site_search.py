# SPDX-License-Identifier: Apache-2.0
"""Adds the search to the finished pages of the site, and finds links between pages that lead nowhere.

The index has an entry for each section of a page: the page, the anchor, the heading, the text, and the page's title.
search.js reads it as a script, so that it also works for files.
"""

import html.parser
import json
import pathlib
import shutil
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
# Lists of names that the pages themselves have, and the sources of headers.
NOT_INDEXED = ("annotated", "classes", "files", "functions", "globals", "hierarchy", "namespacemembers", "namespaces",
               "pages", "dir_", "navtree")
HEADINGS = ("h1", "h2", "h3", "h4")
# Words on both sides of their ends are apart.
BLOCKS = ("p", "li", "td", "th", "div", "pre", "dt", "dd", "tr")
SKIPPED = ("script", "style", "nav", "object")
LONGEST_TEXT = 6000


class Page(html.parser.HTMLParser):
    """Reads the sections, anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.title, self.sections, self.anchors, self.links = "", [], set(), set()
        self._anchor, self._heading, self._skipped, self._in_contents = "", None, None, False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        for name in ("href", "src", "data"):
            if values.get(name):
                self.links.add(values[name])
        if tag == "a" and values.get("id"):
            self._anchor = values["id"]
        if self._skipped is None and tag in SKIPPED:
            self._skipped = tag
        if tag == "div" and values.get("class") == "title":
            self._heading = ["title", ""]
        elif tag == "div" and "contents" in values.get("class", "").split():
            self._in_contents = True
        elif tag in HEADINGS and self._in_contents:
            self._heading = [tag, ""]

    def handle_endtag(self, tag):
        if tag == self._skipped:
            self._skipped = None
        elif tag in BLOCKS:
            self.handle_data(" ")
        if self._heading and tag in (self._heading[0], "div"):
            text = " ".join(self._heading[1].replace("\u25c6", "").split())
            if self._heading[0] == "title":
                self.title = text
                self.sections.append(["", text, ""])
            elif self._in_contents:
                self.sections.append([self._anchor, text, ""])
            self._heading = None

    def handle_data(self, data):
        if self._skipped:
            return
        if self._heading:
            self._heading[1] += data
        elif self._in_contents and self.sections:
            self.sections[-1][2] += data


def read(site):
    return {file.name: Page(file.read_text(encoding="utf-8")) for file in sorted(site.glob("*.html"))}


def entries(pages):
    """Yields the entries of the index."""
    for name, page in pages.items():
        if name.startswith(NOT_INDEXED) or name.endswith("_source.html") or name.endswith("-members.html"):
            continue
        for anchor, heading, text in page.sections:
            text = " ".join(text.split())[:LONGEST_TEXT]
            if heading and (text or not anchor):
                yield [name, anchor, heading, text, page.title]


def add_to(site):
    """Writes the index, and makes each page load the search."""
    index = json.dumps(list(entries(read(site))), ensure_ascii=False, separators=(",", ":"))
    (site / "search_index.js").write_text(f"siteIndex({index});\n", encoding="utf-8")
    shutil.copy(HERE / "search.js", site / "site_search.js")
    for file in site.glob("*.html"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("</head>", '<script src="site_search.js" defer></script>\n</head>', 1),
                        encoding="utf-8")


def broken_links(site):
    """Returns a line for each link to a page, picture or anchor of the site that does not exist."""
    pages = read(site)
    wrong = []
    for name, page in pages.items():
        for link in sorted(page.links):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("$"):
                continue
            target = urllib.parse.unquote(parts.path) or name
            if not (site / target).exists():
                wrong.append(f"{name}: links to {link}, which does not exist")
            elif parts.fragment and target in pages and parts.fragment not in pages[target].anchors:
                wrong.append(f"{name}: {target} has no anchor {parts.fragment}")
    return wrong
