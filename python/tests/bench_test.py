# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmark and of its picture."""

import itertools
import json
import math
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree

import support
from farcall import _bench_anchors, _bench_cases, _bench_life, _bench_measure, _chart, _paths, bench

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

    def test_figures_without_numbers_have_no_bars(self):
        text = _chart.drawn("title", [("group, %", [
            _chart.Figure("missing", math.nan, math.nan, False, note="not <installed>"),
            _chart.Figure("hangs", math.inf, math.inf, False), _chart.Figure("zero", 0.0, 0.0, True)])])
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual([bar.get("class") for bar in root.iter(f"{SVG}rect")], ["farcall"])
        values = [each.text for each in root.iter(f"{SVG}text") if each.get("class") == "value"]
        self.assertEqual(values, ["not <installed>", "does not end", "0"])

    def test_numbers_have_three_digits(self):
        self.assertEqual([_chart.text_of(value) for value in (0.1234, 1.234, 12.34, 123.4, 12345.6)],
                         ["0.123", "1.23", "12.3", "123", "12,346"])


# Rows of farcall, by the titles of their groups.
ROWS = {
    "Calls that wait": ["function()", 'function(1, 2.0, "x")', "submit().result()", "submit().result(), pickled",
                        "method of an actor", "sqrt() of libm, called by its name"],
    "Calls of tasks, with one worker": ["submit().result() in a task", "each of 1000 tasks that wait for the next"],
    "Calls by TCP on this machine": ["function() by TCP"],
    "Calls that follow each other, each": ["submit(), 256 at a time", "submit(), 256 at a time, pickled", "map()"],
    "Calls of a coroutine": ["await", "gather() of 256, each"],
    "Single calls, after a pause and beside a busy thread": ["function() after 20 ms",
                                                             "function() beside a busy thread"],
    "64 MiB": ["argument", "result", "Array.put()", "Array.get(out)"],
    "Calls with an array in shared memory": ["function() of a byte", "function() of an Array of 64 MiB"],
    "An argument of 40 MiB": ["argument", "Array.put()"],
    "First result of map() of 100,000 numbers": ["map()"],
    "Start of workers, until four have returned a result": ["four workers", "four further workers"],
    "Imports": ["import farcall", "from farcall import Executor"],
    "Worker that is killed": ["error after a kill", "next result after the error"],
    "Calls that are stopped": ["stop() of a call that sleeps", "stop() of a call that goes on, after its grace"],
    "Ctrl-C during a call, until the program has ended": ["Ctrl-C"],
    "Memory of an idle worker (RSS)": ["worker"],
    "Its share of memory (PSS)": ["worker"],
    "Processor time of idle programs, of one processor": ["worker"],
    "Sizes of packages": ["farcall, installed", "wheel of farcall"],
}
# Rows of packages with which users compare farcall, and the titles of their groups.
ANCHORS = {
    "Calls that wait": ["multiprocessing.Pipe: there and back", "ProcessPoolExecutor: submit().result()",
                        "multiprocessing.Pool: submit().result()", "multiprocessing.Manager: method"],
    "Calls by TCP on this machine": ["TCP: 16 bytes there and back"],
    "64 MiB": ["memcpy", "ProcessPoolExecutor: argument", "ProcessPoolExecutor: result"],
    "Start of workers, until four have returned a result": ["ProcessPoolExecutor: four workers",
                                                            "ProcessPoolExecutor, forkserver: four workers"],
    "Worker that is killed": ["ProcessPoolExecutor: error after a kill"],
    "Ctrl-C during a call, until the program has ended": ["ProcessPoolExecutor: Ctrl-C"],
    "Memory of an idle worker (RSS)": ["ProcessPoolExecutor: worker", "multiprocessing.Pool: worker"],
}
WHEEL_BYTES = 3_000_000


def group_of(*cases, rounds=3):
    """Returns a group of cases in microseconds."""
    return _bench_measure.Group("title", "µs", rounds, list(cases))


class Measuring(support.TestCase):
    """The benchmark."""

    GUARD = 200

    def test_figures_are_medians_without_the_first_round(self):
        samples = itertools.cycle([100e-6, 5e-6, 3e-6, 4e-6])
        figure, = bench.measure(group_of(_bench_measure.Case("a", lambda: next(samples))), 3)
        self.assertAlmostEqual(figure.median, 4.0)
        self.assertAlmostEqual(figure.least, 3.0)

    def test_slow_cases_have_fewer_rounds(self):
        taken = []

        def case(name, most):
            return _bench_measure.Case(name, lambda: taken.append(name) or 1e-6, most_rounds=most)

        bench.measure(group_of(case("a", 100), case("b", 2), case("c", 1)), 3)
        self.assertEqual("".join(taken), "abcababa")
        taken.clear()
        bench.measure(group_of(case("a", 100), case("b", 2), rounds=1), 1)
        self.assertEqual("".join(taken), "ab")

    def test_samples_that_were_taken_before_count(self):
        case = _bench_measure.Case("a", None, False, note="has failed", taken=(1e-6, 5e-6, 2e-6))
        figure, = bench.measure(group_of(case), 3)
        self.assertAlmostEqual(figure.median, 2.0)
        self.assertIn("2.00 µs  (1.00)", bench.text_of(figure, "µs"))

    def test_figures_without_numbers_say_why(self):
        missing, hangs = bench.measure(group_of(
            _bench_measure.Case("a", None, False, note="not installed"),
            _bench_measure.Case("b", lambda: math.inf, False)), 3)
        self.assertRegex(bench.text_of(missing, "ms"), r"^  a +not installed$")
        self.assertRegex(bench.text_of(hangs, "ms"), r"^  b +does not end$")

    def test_packages_are_measured_if_they_are_chosen(self):
        options = _bench_cases.Options(packages=("joblib",))
        self.assertEqual(options.lack(_bench_anchors.Ray), "not chosen")
        self.assertIn(options.lack(_bench_anchors.Joblib), ("", "not installed"))
        for kind in (_bench_anchors.Standard, _bench_anchors.ForkServer, _bench_anchors.Pool, _bench_anchors.Farcall):
            self.assertEqual(options.lack(kind), "")

    def test_programs_that_hang_are_ended(self):
        with _bench_life.Program("idle", _bench_anchors.Farcall) as program:
            worker = int(program.line(support.GUARD_SECONDS))
            self.assertIn(worker, _bench_life.descendants(program.pid))
            self.assertIsNone(program.line(0.01))
            self.assertGreater(_bench_life.memory_of(worker)["Rss"], _bench_measure.MIB)
        self.assertTrue(support.wait_until(lambda: support.is_gone(worker)))

    def test_demo_prints_three_times(self):
        status, out, errors = support.run([sys.executable, "-m", "farcall.demo"], self.GUARD)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("1.4142135623730951", out)
        self.assertEqual(len(re.findall(r" [\d.]+ µs$", out, re.M)), 3)

    def test_program_measures_all_groups_and_draws_them(self):
        with tempfile.TemporaryDirectory() as folder:
            picture, data, wheel = (pathlib.Path(folder, name) for name in ("bench.svg", "bench.json", "wheel"))
            wheel.write_bytes(bytes(WHEEL_BYTES))
            # On a busy machine, processes that share a processor wait for it in each call.
            status, out, errors = support.run(
                [sys.executable, "-m", "farcall.bench", "--quick", "--unpinned", "--packages", "none", "--svg",
                 str(picture), "--json", str(data), "--wheel", str(wheel)], self.GUARD)
            self.assertEqual((status, errors), (0, ""))
            drawn = picture.read_text(encoding="utf-8")
            written = json.loads(data.read_text(encoding="utf-8"))
        groups = {group["title"]: {figure["name"]: figure for figure in group["figures"]}
                  for group in written["groups"]}
        self.assertEqual(set(groups), set(ROWS))
        self.assertEqual(re.findall(r"^(\S.*):$", out, re.M), list(groups))
        for title, names in (*ROWS.items(), *ANCHORS.items()):
            self.assertIn(title, drawn)
            for name in names:
                with self.subTest(title=title, name=name):
                    self.check(groups[title][name], name in ROWS[title])
                    self.assertIn(f"\n  {name} ", out)
        for name in ("loky: submit().result()", "Dask: call and result", "Ray: method of an actor"):
            self.assertEqual(groups["Calls that wait"][name]["note"], "not chosen")
        self.assertEqual(groups["Sizes of packages"]["wheel of farcall"]["median"], WHEEL_BYTES / 1e6)
        self.assertIn("Python", written["python"])

    def check(self, figure, is_farcall):
        """Checks that a row has a number. The time of a program that ends too late on a busy machine is none."""
        self.assertEqual(figure["is_farcall"], is_farcall)
        if figure["median"] is None:
            has_command = True
            try:
                _paths.command()
            except FileNotFoundError:
                has_command = False
            self.assertIn(figure["note"], ["does not end", "too little free memory"]
                          + ["there is no farcall command"] * (not has_command))
        else:
            self.assertGreaterEqual(figure["median"], figure["least"])

    def test_unknown_packages_are_refused(self):
        status, _, errors = support.run([sys.executable, "-m", "farcall.bench", "--packages", "rya"])
        self.assertEqual(status, 2)
        self.assertIn("--packages knows no 'rya' (it knows loky, mpi4py, rpyc, joblib, Dask, Ray, none)", errors)


if __name__ == "__main__":
    support.main()
