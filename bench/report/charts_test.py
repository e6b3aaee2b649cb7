#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what charts.py makes of reports, and its parts."""

import math
import pathlib
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import charts  # noqa: E402
from charts import (Axis, Labels, LineChart, Point, RowChart, Series, html_page, linear_ticks,  # noqa: E402
                    log_ticks, svg_picture, tick_text, value_text)

NAN = math.nan
MOST, LEAST = sys.float_info.max, 5e-324
UNMEASURED = (None, None, None, 100, 0)


def axis(scale, values, rounded=False, begin=0, end=100, most=8, unit="nanoseconds"):
    return Axis({"unit": unit, "scale": scale}, values, rounded, begin, end, most)


def spread(p50, floor=None):
    return [0.9 * p50, p50, 1.2 * p50, floor, 20]


def lines(points):
    """One series of so many points beside a floor of 100 ns."""
    ends = sorted({2 ** i for i in (0, points - 1)}) if points else []
    return {"title": "Calls", "subtitle": "",
            "x": {"title": "bytes", "unit": "bytes", "scale": "log2"},
            "y": {"title": "time", "unit": "nanoseconds", "scale": "suited"},
            "series": [{"name": "sync", "role": "figure",
                        "points": [[2 ** i, *spread(150 + i, 100)] for i in range(points)]},
                       {"name": "floor", "role": "floor",
                        "points": [[x, *spread(100)] for x in ends]}]}


def rows(*described):
    return {"title": "Rivals", "subtitle": "",
            "x": {"title": "time", "unit": "nanoseconds", "scale": "suited"},
            "series": [{"name": name, "role": "figure", "remark": remark, "points": [[None, *point]]}
                       for name, point, remark in described]}


def report(*of, **others):
    return {"title": "bench", "text": "", "circumstances": "here", "left_out": [], "charts": of, **others}


class Ticks(unittest.TestCase):
    def check(self, found, expected):
        self.assertEqual(len(found), len(expected), found)
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, delta=1e-6 * abs(b))

    def test_linear_ones_are_round_numbers(self):
        self.check(linear_ticks(0, 90, 10, "nanoseconds"), range(0, 91, 10))
        self.check(linear_ticks(0, 100, 6, "nanoseconds"), (0, 20, 40, 60, 80, 100))
        self.check(linear_ticks(0, 100, 5, "nanoseconds"), (0, 50, 100))
        self.check(linear_ticks(3, 11, 6, "nanoseconds"), (4, 6, 8, 10))
        self.check(linear_ticks(0, 0.3, 4, "percent"), (0, 0.1, 0.2, 0.3))

    def test_linear_ones_of_bytes_are_round_in_kib(self):
        self.check(linear_ticks(0, 4096, 5, "bytes"), (0, 1024, 2048, 3072, 4096))
        self.check(linear_ticks(0, 900, 5, "bytes"), (0, 256, 512, 768))

    def test_linear_ones_of_counts_are_whole(self):
        self.check(linear_ticks(1, 3, 12, "count"), (1, 2, 3))
        self.check(linear_ticks(1.2, 1.8, 12, "count"), (1.2, 1.8))  # the ends, if none is between

    def test_linear_ones_of_one_value_are_that_value(self):
        self.check(linear_ticks(7, 7, 5, "count"), (7,))

    def test_linear_ones_begin_with_zero_that_has_no_sign(self):
        self.assertEqual(math.copysign(1, linear_ticks(0, 10, 5, "nanoseconds")[0]), 1)

    def test_logarithmic_ones_have_steps_if_there_is_space(self):
        self.check(log_ticks(10, 10, 100, 8), (10, 20, 50, 100))
        self.check(log_ticks(10, 1, 1e5, 8), (1, 10, 100, 1e3, 1e4, 1e5))

    def test_logarithmic_ones_leave_out_powers_if_there_are_many(self):
        self.check(log_ticks(10, 1, 1e12, 8), (1, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12))

    def test_logarithmic_ones_without_round_numbers_are_the_ends(self):
        self.check(log_ticks(10, 6, 9, 8), (6, 9))

    def test_binary_ones_are_powers_of_two(self):
        self.check(log_ticks(2, 1, 16, 12), (1, 2, 4, 8, 16))
        self.check(log_ticks(2, 5, 7, 12), (5, 7))
        many = log_ticks(2, 8, 2 ** 30, 12)
        self.assertLessEqual(len(many), 12)
        self.assertTrue(all(math.log2(t).is_integer() for t in many), many)


class Axes(unittest.TestCase):
    def test_a_linear_one_places_in_proportion(self):
        a = axis("linear", (40, 95), True, 300, 0, 6)
        self.assertEqual((a.low, a.high), (0, 100))
        self.assertEqual([a.at(v) for v in (0, 50, 100)], [300, 150, 0])
        self.assertEqual(a.at(1000), 0, "beyond the end")

    def test_a_logarithmic_one_places_by_ratios(self):
        a = axis("log10", (1, 100), end=200)
        self.assertAlmostEqual(a.at(10), 100)
        self.assertFalse(a.has(0) or a.has(-1) or a.has(NAN))

    def test_a_suited_one_is_logarithmic_for_large_ratios(self):
        for values, base in (((10, 100), None), ((10, 1000), 10), ((-10, 1000), None),
                             ((0, 10, 1000), None)):  # a zero has a place on the linear one
            self.assertEqual(axis("suited", values, True).base, base, values)

    def test_a_logarithmic_one_has_a_place_for_zero(self):
        a = axis("log2", (0, 8, 64), most=12, unit="bytes")
        self.assertTrue(a.has(0))
        self.assertEqual((a.at(0), a.at(64), a.ticks[0]), (0, 100, 0))
        self.assertGreater(a.at(8), 0)

    def each(self, *values):
        for scale in ("suited", "linear", "log2", "log10"):
            for some in values:
                for rounded in (False, True):
                    yield axis(scale, some, rounded, unit="bytes"), some
                    yield axis(scale, some, rounded), some

    def test_each_has_some_length_for_few_values(self):
        for a, values in self.each((), (8,), (0,), (NAN,), (NAN, 3)):
            self.assertLess(a.low, a.high)
            self.assertTrue(a.ticks)
            self.assertTrue(all(not a.has(v) or math.isfinite(a.at(v)) for v in values))

    def test_each_has_few_ticks_for_any_values(self):
        for a, values in self.each((LEAST, 1), (LEAST, LEAST), (1, MOST), (-MOST, MOST), (MOST, MOST),
                                   (LEAST, MOST), (1e20, math.nextafter(1e20, MOST)),
                                   (1e-100, math.nextafter(1e-100, 1)), (1e-100, 1e100)):
            self.assertLess(a.low, a.high)
            self.assertLessEqual(len(a.ticks), 20)
            self.assertTrue(all(not a.has(v) or 0 <= a.at(v) <= 100 for v in values), values)

    def test_one_of_one_value_has_no_other_tick(self):
        for scale in ("linear", "log2", "log10"):
            self.assertEqual(axis(scale, (64, 64)).ticks, [64])

    def test_rounded_ends_are_ticks(self):
        for top in (1, 7, 23, 99, 101, 12345):
            for scale in ("linear", "log10"):
                a = axis(scale, (top / 3, top), True)
                self.assertGreaterEqual(a.high, top * (1 - 1e-9))
                self.assertAlmostEqual(a.ticks[-1], a.high, delta=1e-6 * a.high)
                self.assertAlmostEqual(a.ticks[0], a.low, delta=1e-6 * a.high)


class Places(unittest.TestCase):
    def setUp(self):
        self.labels = Labels((0, 0, 100, 100))

    def test_the_first_that_is_free_is_taken(self):
        candidates = (10, 10, 30, 20), (40, 10, 60, 20)
        self.assertEqual([self.labels.find(candidates, False) for _ in range(3)], [*candidates, None])

    def test_labels_may_touch_but_not_overlap(self):
        self.labels.taken.append((0, 0, 50, 100))
        self.assertTrue(self.labels.find([(50, 0, 70, 20)], False))
        self.assertFalse(self.labels.find([(49, 30, 70, 50)], False))

    def test_labels_stay_within_the_area(self):
        self.assertFalse(self.labels.find([(90, 10, 101, 20)], True))
        self.assertFalse(self.labels.find([(-1, 10, 20, 20)], True))
        self.assertTrue(self.labels.find([(80, 90, 100, 100)], True))

    def test_labels_lie_on_lines_only_if_they_may(self):
        self.labels.lines.append(((0, 0), (100, 100)))
        self.assertFalse(self.labels.find([(40, 40, 60, 60)], False))
        self.assertTrue(self.labels.find([(40, 40, 60, 60)], True))

    def test_lines_beside_labels_do_not_matter(self):
        self.labels.lines += [((0, 30), (100, 30)), ((30, 0), (30, 100)),
                              ((0, 75), (75, 0)),  # passes the corner
                              ((0, 50), (35, 50))]  # ends before it
        self.assertTrue(self.labels.find([(40, 40, 60, 60)], False))


class Texts(unittest.TestCase):
    def test_coordinates_have_no_more_digits_than_they_need(self):
        for value, text in ((12, "12"), (100, "100"), (12.5, "12.5"), (1 / 3, "0.33"), (-0.001, "0"),
                            (NAN, "0"), (math.inf, "0")):
            self.assertEqual(charts.place(value), text)

    def test_values_have_units(self):
        for unit, value, text in (
                ("nanoseconds", 187, "187 ns"), ("nanoseconds", 1050, "1.05 µs"),
                ("nanoseconds", 999.6, "1.00 µs"), ("nanoseconds", NAN, "-"), ("bytes", 65536, "64 KiB"),
                ("bytes", 1536, "1.5 KiB"),
                ("bytes", -1024, "-1 KiB"),  # memory that was given back
                ("per_second", 5.06e5, "506 k/s"), ("bytes_per_second", 12.3e9, "12.3 GB/s"),
                ("bytes_per_second", 5, "5.00 B/s"), ("count", 300000, "300,000"), ("count", 999, "999"),
                ("count", 2.5, "2.5"), ("percent", 0.0083, "0.0083 %")):
            self.assertEqual(value_text(unit, value), text)

    def test_ticks_lose_zeros_that_say_nothing(self):
        for unit, value, text in (
                ("nanoseconds", 0, "0 ns"), ("nanoseconds", 200, "200 ns"), ("nanoseconds", 1000, "1 µs"),
                ("nanoseconds", 1500, "1.5 µs"), ("bytes_per_second", 20e9, "20 GB/s")):
            self.assertEqual(tick_text(unit, value), text)

    def test_lines_break_between_words(self):
        self.assertEqual(charts.wrapped("one two three", 7), ["one two", "three"])
        self.assertEqual(charts.wrapped("a longerword b", 4), ["a", "longerword", "b"])
        self.assertEqual(charts.wrapped("", 7), [])

    def test_long_texts_end_with_an_ellipsis(self):
        width = charts.text_width("12345")
        self.assertEqual(charts.shortened("12345", width), "12345")
        self.assertEqual(charts.shortened("123456", width), "1234…")


class Overheads(unittest.TestCase):
    def test_overheads_are_times_as_long_as_the_floor(self):
        def ratio(unit, value, floor):
            return Point(0, *[value] * 3, floor, 1).ratio(unit)

        self.assertEqual(ratio("nanoseconds", 150, 100), 1.5)
        self.assertEqual(ratio("bytes_per_second", 50, 100), 2, "half the rate, twice as long")
        for none in (0, -1, NAN, math.inf):
            self.assertTrue(math.isnan(ratio("nanoseconds", none, 100)))
            self.assertTrue(math.isnan(ratio("nanoseconds", 100, none)))

    def test_a_series_tells_the_least_and_the_most(self):
        points = [[x, p50, p50, p50, floor, 1] for x, p50, floor in ((1, 150, 100), (2, 120, 100),
                                                                     (4, 300, None))]
        for some, text in ((points, "1.20 to 1.50 x"), (points[:1], "1.50 x"), ([], "")):
            series = Series({"name": "sync", "role": "figure", "points": some})
            self.assertEqual(series.overheads("nanoseconds"), text)


class Charts(unittest.TestCase):
    def draw(self, described, kind=LineChart):
        markup, _ = kind(described).draw()
        for word in ("nan", "inf"):
            self.assertNotIn(word, markup)
        xml.etree.ElementTree.fromstring(f"<svg>{markup}</svg>")
        return markup

    def test_each_point_has_a_mark_whatever_their_number(self):
        for points in (1, 2, 40):
            markup = self.draw(lines(points))
            self.assertEqual(markup.count("<g><title>sync, "), points)
            self.assertEqual(markup.count("<circle "), points + 1, "with that of the legend")

    def test_the_last_median_and_the_floor_have_labels(self):
        for points in (1, 3, 40):
            markup = self.draw(lines(points))
            self.assertEqual(markup.count(f'class="la">{149 + points} ns<'), 1)
            self.assertEqual(markup.count(">floor 100 ns<"), 1)

    def test_a_gap_is_where_nothing_was_measured(self):
        described = lines(5)
        line = 'class="l0 ln"/>'
        self.assertEqual(self.draw(described).count(line), 2, "the legend's, and the line")
        described["series"][0]["points"][2][1:] = UNMEASURED
        markup = self.draw(described)
        self.assertEqual(markup.count(line), 3)
        self.assertEqual(markup.count("<g><title>sync, "), 4)

    def test_a_long_bar_ends_with_an_arrow(self):
        described = lines(2)
        described["series"][0]["points"][0][3] = 100000
        for some, heights in ((lines(2), 1), (described, 2)):
            end = re.findall(r'points="(\S+ \S+ \S+)" class="l0 er"', self.draw(some))[0]
            self.assertEqual(len({point.split(",")[1] for point in end.split()}), heights)

    def test_charts_of_nothing_are_whole(self):
        self.draw({**lines(0), "series": []})
        self.draw(rows(), RowChart)
        zero = lines(2)
        zero["x"] = {"title": "x", "unit": "count", "scale": "linear"}
        zero["series"] = [{"name": "s", "role": "figure",
                           "points": [[0, 0, 0, 0, None, 1], [1, 0, 0, 0, None, 1]]}]
        self.assertEqual(self.draw(zero).count("<g><title>s, "), 2, "zero has a place if linear")

    def test_a_row_without_value_tells_why(self):
        markup = self.draw(rows(("here", spread(150, 100), ""),
                                ("absent", UNMEASURED, "it is not installed")), RowChart)
        self.assertEqual(markup.count(">1.50 x<"), 1)
        self.assertEqual(markup.count("not measured: it is not installed"), 1)

    def test_rows_without_floors_have_no_column_for_floors(self):
        self.assertNotIn("to floor", self.draw(rows(("one", spread(150), "")), RowChart))

    def test_words_describe_charts(self):
        self.assertEqual(LineChart(lines(2)).words(),
                         "time against bytes, medians. sync: 150 ns at 1 B to 151 ns at 2 B, 1.50 to 1.51 x "
                         "its floor. floor: 100 ns at 1 B to 100 ns at 2 B.")
        self.assertEqual(RowChart(rows(("here", spread(150, 100), ""), ("absent", UNMEASURED, ""))).words(),
                         "time, medians. here: 150 ns, 1.50 x its floor. absent: not measured.")


class Pages(unittest.TestCase):
    def test_every_text_is_escaped(self):
        bad = "<b>&\"'\x01"
        line, row = lines(3), rows((bad, spread(3, 2), bad), (bad, UNMEASURED, bad))
        for chart in (line, row):
            chart["title"] = chart["subtitle"] = chart["x"]["title"] = bad
        line["y"]["title"] = line["series"][0]["name"] = line["series"][1]["name"] = bad
        all_bad = report(line, row, title=bad, text=bad, circumstances=bad, left_out=[bad])
        for text in (html_page(all_bad), svg_picture(all_bad)):
            self.assertNotIn("<b>", text)
            self.assertNotIn("\x01", text)
            self.assertGreater(text.count("&lt;b&gt;&amp;&quot;&#x27;\ufffd"), 10)

    def test_two_of_one_report_are_equal(self):
        for draw in (html_page, svg_picture):
            self.assertEqual(draw(report(lines(9))), draw(report(lines(9))))

    def test_the_program_says_how_it_is_run(self):
        done = subprocess.run([sys.executable, "-B", str(HERE / "charts.py"), "png"], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Run as: farcall-bench-charts html|svg", done.stderr)


if __name__ == "__main__":
    unittest.main()
