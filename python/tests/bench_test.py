# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmark and of its picture."""

import itertools
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree

import support
from farcall import _bench_cases, _chart, bench

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [_chart.Figure("a < b", 1.0, 0.5, True), _chart.Figure("c", 10.0, 9.0, False),
           _chart.Figure("d", 100.0, 90.0, False)]


class Picture(support.TestCase):
    """The picture of a table."""

    def setUp(self):
        super().setUp()
        text = _chart.drawn("title", [("group, µs", FIGURES)])
        self.root = xml.etree.ElementTree.fromstring(text)

    def test_each_figure_has_a_bar_and_a_value(self):
        texts = [element.text for element in self.root.iter(f"{SVG}text")]
        self.assertEqual(texts, ["title", "group, µs (logarithmic)", "a < b", "1.00", "c", "10.0", "d", "100"])
        kinds = [bar.get("class") for bar in self.root.iter(f"{SVG}rect")]
        self.assertEqual(kinds, ["farcall", "other", "other"])

    def test_tenfold_figures_have_bars_that_differ_by_equal_lengths(self):
        lengths = [float(bar.get("width")) for bar in self.root.iter(f"{SVG}rect")]
        self.assertAlmostEqual(lengths[2] - lengths[1], lengths[1] - lengths[0], delta=0.2)
        self.assertGreater(lengths[1], lengths[0])

    def test_colours_exist_for_dark_pages(self):
        style = self.root.find(f"{SVG}style").text
        light, dark = style.split("@media (prefers-color-scheme: dark)")
        for name in (".farcall", ".other", "text"):
            self.assertIn(name, light)
            self.assertIn(name, dark)

    def test_numbers_have_three_digits(self):
        self.assertEqual([_chart.text_of(value) for value in (0.1234, 1.234, 12.34, 123.4, 12345.6)],
                         ["0.123", "1.23", "12.3", "123", "12,346"])


class Measuring(support.TestCase):
    """The benchmark."""

    GUARD = 200

    def test_figures_are_medians_without_the_first_round(self):
        samples = itertools.cycle([100e-6, 5e-6, 3e-6, 4e-6])
        group = _bench_cases.Group("title", "µs", 3, [_bench_cases.Case("a", lambda: next(samples))])
        figure, = bench.measure(group, 3)
        self.assertAlmostEqual(figure.median, 4.0)
        self.assertAlmostEqual(figure.least, 3.0)

    def test_demo_prints_three_times(self):
        status, out, errors = support.run([sys.executable, "-m", "farcall.demo"], self.GUARD)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("1.4142135623730951", out)
        self.assertEqual(len(re.findall(r" [\d.]+ µs$", out, re.M)), 3)

    def test_program_measures_all_groups_and_draws_them(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "bench.svg")
            status, out, errors = support.run([sys.executable, "-m", "farcall.bench", "--quick", "--svg", str(picture)],
                                              self.GUARD)
            self.assertEqual((status, errors), (0, ""))
            drawn = picture.read_text(encoding="utf-8")
        titles = re.findall(r"^(\S.*):$", out, re.M)
        self.assertEqual(len(titles), len(_bench_cases.GROUPS))
        for title in titles:
            self.assertIn(title, drawn)
        for name in ("function()", "ProcessPoolExecutor: submit().result()", "memcpy"):
            self.assertIn(f"  {name} ", out)


if __name__ == "__main__":
    support.main()
