#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the index of the site's search, and the check of its links."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/reference"))
import site_search

PAGE = """<html><head><title>farcall: Lanes</title></head><body>
<div class="headertitle"><div class="title">Lanes</div></div>
<div class="contents"><p>A pair of rings.</p>
<h2><a class="anchor" id="order"></a>Order of <code>calls</code></h2>
<p>Calls start in <b>order</b>.</p><script>hidden()</script><a href="{}">link</a></div></body></html>
"""


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = pathlib.Path(folder.name)

    def write(self, link):
        (self.site / "lanes.html").write_text(PAGE.format(link), encoding="utf-8")

    def test_each_section_has_an_entry(self):
        self.write("#order")
        site_search.add_to(self.site)
        index = (self.site / "search_index.js").read_text(encoding="utf-8")
        self.assertEqual(json.loads(index.removeprefix("siteIndex(").removesuffix(");\n")),
                         [["lanes.html", "", "Lanes", "A pair of rings.", "Lanes"],
                          ["lanes.html", "order", "Order of calls", "Calls start in order. link", "Lanes"]])
        self.assertIn('<script src="site_search.js" defer>', (self.site / "lanes.html").read_text(encoding="utf-8"))

    def test_links_inside_the_site_pass(self):
        for link in ("lanes.html", "lanes.html#order", "#order", "https://example.org/none"):
            self.write(link)
            self.assertEqual(site_search.broken_links(self.site), [])

    def test_a_link_to_nothing_is_found(self):
        for link in ("gone.html", "#gone", "lanes.html#gone"):
            self.write(link)
            [found] = site_search.broken_links(self.site)
            self.assertIn("gone", found)

    def shown_for(self, words):
        """Returns the page as a browser shows it, with a search for the words."""
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.site}/browser",
                 "--virtual-time-budget=5000", "--dump-dom", f"file://{self.site}/lanes.html?search={words}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=100, check=True).stdout

    @unittest.skipIf(shutil.which("chromium") is None, "there is no browser")
    def test_the_browser_shows_what_is_found(self):
        self.write("#order")
        site_search.add_to(self.site)
        self.assertRegex(self.shown_for("calls%20start"),
                         '<a href="lanes.html#order"[^>]*><b>Order of calls</b><i>Lanes</i>')
        self.assertIn("No page has all of these words", self.shown_for("calls%20stop"))


if __name__ == "__main__":
    unittest.main()
