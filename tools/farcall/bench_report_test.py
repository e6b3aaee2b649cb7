#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the files of `farcall bench … --html FILE --svg FILE` with third-party parsers and a browser.

Run as: bench_report_test.py <farcall> <part>, where <part> is one of PARTS. Exit status 77: there is no
browser.
"""

import functools
import html.parser
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import xml.parsers.expat
import zlib

SKIPPED = 77
RATIO = re.compile(r"^\d+(\.\d+)? x$")

# A quick run of each benchmark; then the numbers of charts, and of marks for figures.
RUNS = {"floor": (("floor", "--quick", "--batches", "20"), 1, 2),
        "patterns": (("patterns", "--max-calls", "10", "--batches", "20"), 1, 4 * 3)}


def run(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=100, **how)


def fail(*what):
    raise SystemExit(" ".join(str(w) for w in what))


def draw(farcall, folder, name):
    """Returns the page and the picture of a quick run."""
    paths = [os.path.join(folder, f"{name}.{ending}") for ending in ("html", "svg")]
    done = run(farcall, "bench", *RUNS[name][0], "--html", paths[0], "--svg", paths[1])
    if done.returncode != 0 or "floor" not in done.stdout:
        fail(done)
    return paths


def elements(path):
    """Returns (name, attributes) of each element in document order; expat fails if the document is not
    well-formed."""
    found = []
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: found.append((name, attributes))
    with open(path, "rb") as text:
        parser.ParseFile(text)
    return found


class Cells(html.parser.HTMLParser):
    """Collects the texts of the table's cells, and the URLs that a browser would load."""

    def __init__(self):
        super().__init__()
        self.cells, self.loaded, self.is_cell = [], [], False

    def handle_starttag(self, tag, attrs):
        self.is_cell = tag in ("td", "th")
        if self.is_cell:
            self.cells.append("")
        self.loaded += [v for k, v in attrs if k in ("src", "href", "xlink:href") and v != "data:,"]
        if tag in ("script", "iframe", "object", "embed"):
            self.loaded.append(tag)

    def handle_endtag(self, tag):
        self.is_cell = False

    def handle_data(self, data):
        if self.is_cell:
            self.cells[-1] += data


def check_picture(path, charts, marks):
    found = elements(path)
    if found[0][0] != "svg" or not {"title", "desc"} <= {name for name, _ in found}:
        fail(path, "has no title, or no description")
    if sum(name == "svg" for name, _ in found) != 1 + charts:
        fail(path, "has another number of charts")
    # Each figure is a group of elements.
    groups = sum(name == "g" for name, _ in found)
    if groups != marks:
        fail(path, "has", groups, "figures, not", marks)
    references = [v for _, attributes in found for k, v in attributes.items()
                  if k.endswith("href") or "url(" in v]
    if references:
        fail(path, "refers to", references)


def check_page(path, charts, has_floors):
    found = elements(path)
    images = [attributes for name, attributes in found if name == "svg"]
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    if len(images) != charts or len(set(ids)) != len(ids):
        fail(path, len(images), "charts, ids", ids)
    for image in images:
        if image.get("role") != "img" or not set(image["aria-labelledby"].split()) <= set(ids):
            fail(path, "has a chart without a description:", image)
    text = open(path, encoding="utf-8").read()
    parsed = Cells()
    parsed.feed(text)
    if parsed.loaded or "url(" in text or "@import" in text:
        fail(path, "loads", parsed.loaded)
    ratios = [cell for cell in parsed.cells if RATIO.match(cell)]
    if has_floors != bool(ratios):
        fail(path, "has these ratios to the floor:", ratios)
    for word in ("Linux", "built by", "host on processor", "floor"):
        if word not in text:
            fail(path, "does not tell", word)


def check_drawn(farcall):
    with tempfile.TemporaryDirectory() as folder:
        for name, (_, charts, marks) in RUNS.items():
            page, picture = draw(farcall, folder, name)
            check_page(page, charts, name != "floor")
            check_picture(picture, charts, marks)


def check_refused(farcall):
    def refused(text, *options, status=2, **how):
        done = run(farcall, "bench", "floor", "--quick", "--batches", "20", *options, **how)
        if done.returncode != status or text not in done.stderr:
            fail(done)
        return done

    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "page.html")
        # The file is refused before the measurement: no table is printed.
        for done in (refused("farcall bench floor: --html /none/page.html: it cannot be written: No such file",
                             "--html", "/none/page.html"),
                     refused("name the same file", "--html", page, "--svg", page),
                     refused("Is a directory", "--svg", folder),
                     refused("--html", "--html", page, "--html", page)):
            if done.stdout:
                fail(done)
        if os.path.exists(page):
            fail("a run that was refused has left", page)
        # The measurement is printed first; then the file has no space.
        if os.path.exists("/dev/full"):
            done = refused("farcall bench floor: cannot write /dev/full: No space", "--svg", "/dev/full", status=1)
            if "round trip" not in done.stdout:
                fail(done)
        with open(page, "w", encoding="utf-8") as out:
            done = subprocess.run([farcall, "bench", "floor", "--html", page], stdout=out,
                                  stderr=subprocess.PIPE, text=True, timeout=100)
        if done.returncode != 2 or "standard output goes to the same file" not in done.stderr:
            fail(done)


# A page that frames the report and records the sizes of its charts and overlapping texts.
AROUND = """<!DOCTYPE html><link rel="icon" href="data:,"><pre id="said"></pre>
<iframe id="page" src="page.html" width="1000" height="4000"></iframe>
<script>
page.onload = () => {
  const charts = [];
  for (const svg of page.contentDocument.querySelectorAll("svg")) {
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(
      (t) => [t.getBoundingClientRect(), t.textContent]);
    const clashes = [], outside = [];
    texts.forEach(([a, word], i) => {
      if (a.left < edge.left || a.right > edge.right || a.top < edge.top || a.bottom > edge.bottom)
        outside.push(word);
      for (const [b, other] of texts.slice(i + 1)) {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes of letters are higher than the letters.
        if (wide > 1 && high > 4) clashes.push(word + " | " + other);
      }
    });
    charts.push({width: edge.width, height: edge.height, clashes, outside});
  }
  said.textContent = JSON.stringify(charts);
};
</script>
"""


class Server:
    """Serves the folder on loopback, and records requests."""

    def __init__(self, folder):
        asked = self.asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_request(self, code="-", size="-"):
                asked.append((self.path, int(code)))

            def log_error(self, *what):
                pass

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.server.server_port}/{name}"


def browse(browser, folder, *words):
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    # Other hosts do not resolve, so that any other request fails.
    done = run(browser, "--headless", *sandbox, "--disable-gpu", "--disable-dev-shm-usage",
               "--no-first-run", "--disable-background-networking", "--disable-component-update",
               "--hide-scrollbars", "--enable-logging=stderr", "--v=0", "--window-size=1080,900",
               "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
               f"--user-data-dir={os.path.join(folder, 'profile')}", *words)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    if done.returncode != 0 or console:
        fail(done.returncode, *console, "" if console else done.stderr)
    return done.stdout


def rows_of_png(path):
    """Returns the number of different rows of pixels, as stored."""
    data = open(path, "rb").read()
    at, packed, height = 8, b"", 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            height, = struct.unpack(">I", data[at + 12:at + 16])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    pixels = zlib.decompress(packed)
    width = len(pixels) // height
    return len({pixels[row * width:(row + 1) * width] for row in range(height)})


def check_browser(farcall):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("there is no chromium to look at the pages with")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        page, picture = draw(farcall, folder, "patterns")
        os.rename(page, os.path.join(folder, "page.html"))
        os.rename(picture, os.path.join(folder, "picture.svg"))
        with open(os.path.join(folder, "around.html"), "w", encoding="utf-8") as out:
            out.write(AROUND)
        server = Server(folder)
        dom = browse(browser, folder, "--virtual-time-budget=10000", "--dump-dom",
                     server.url("around.html"))
        said = re.search(r'<pre id="said">(.*?)</pre>', dom, re.S)
        charts = json.loads(html.unescape(said.group(1)) or "null") if said else None
        if not charts or len(charts) != RUNS["patterns"][1]:
            fail("the browser shows other charts:", charts, dom[:500])
        for chart in charts:
            if chart["width"] < 600 or chart["height"] < 300 or chart["clashes"] or chart["outside"]:
                fail(chart)
        if sorted(server.asked) != [("/around.html", 200), ("/page.html", 200)]:
            fail("the page has loaded more than itself:", server.asked)
        for name in ("page.html", "picture.svg"):
            server.asked.clear()
            screenshot = os.path.join(folder, f"{name}.png")
            browse(browser, folder, f"--screenshot={screenshot}", server.url(name))
            # A blank picture has one or two different rows; letters, grid and curves make a
            # hundred.
            if rows_of_png(screenshot) < 100:
                fail(name, "is blank")
            # An SVG cannot name an icon, so browsers request the default one.
            icon = {"/favicon.ico"} if name == "picture.svg" else set()
            if {path for path, _ in server.asked} - icon != {f"/{name}"}:
                fail(name, "has loaded more than itself:", server.asked)


PARTS = {"drawn": check_drawn, "refused": check_refused, "browser": check_browser}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in PARTS:
        raise SystemExit(__doc__)
    PARTS[sys.argv[2]](sys.argv[1])


if __name__ == "__main__":
    main()
