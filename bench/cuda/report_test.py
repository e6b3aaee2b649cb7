#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the reports that report.py makes of figures."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import report  # noqa: E402
from report import COLUMNS, Figures, text_of  # noqa: E402

HEAD = ",".join(COLUMNS) + "\n"
MEASURED = HEAD + """,cpu,,,,,,circumstance,,,,one
floor,"flags, ""4"" warps",ns,0,100,0,0,floor,,,,
floor,slower,ns,0,101,0,0,floor,,,,
floor,"has failed: line
and line",,,,,,note,,,,
calls,launch,ns,0,5000,0,0,launch,,,,
calls,launch,ns,0,4000,0,0,launch,,,,
calls,"empty call, fc::pure_fn",ns,190,200,210,7,call,,,,
copies,memcpy,GB/s,3,4,5,7,other,,,,
copies,put,GB/s,1,2,3,7,other,,,,memcpy
copies,get,GB/s,1,2,3,7,other,,,,what is not there
"""


def written(figures):
    out = io.StringIO()
    figures.write_csv(out)
    return out.getvalue()


class Report(unittest.TestCase):
    def test_figures_stand_beside_the_floor_and_the_best_launch(self):
        table = written(Figures(MEASURED))
        for line in ('floor,"flags, ""4"" warps",ns,0,100,0,0,floor,1,,,\n', ",floor,1.01,,,\n",
                     "calls,launch,ns,0,5000,0,0,launch,50,1.25,,\n",
                     'calls,"empty call, fc::pure_fn",ns,190,200,210,7,call,2,0.05,,\n',
                     "copies,put,GB/s,1,2,3,7,other,,,0.5,memcpy\n"):
            self.assertIn(line, table)

    def test_the_document_has_circumstances_ratios_and_notes(self):
        document = Figures(MEASURED).document()
        self.assertEqual(document["circumstances"], {"cpu": "one"})
        self.assertEqual((document["floor"], document["best_launch"]), ('flags, "4" warps', "launch"))
        self.assertEqual(document["notes"], ["floor: has failed: line\nand line"])
        by_name = {f["what"]: f for f in document["figures"]}
        self.assertEqual(by_name["empty call, fc::pure_fn"],
                         {"group": "calls", "what": "empty call, fc::pure_fn", "unit": "ns", "p1": 190,
                          "p50": 200, "p99": 210, "samples": 7, "to_floor": 2, "to_best_launch": 0.05})
        self.assertEqual((by_name["put"]["ratio"], by_name["put"]["against"]), (0.5, "memcpy"))
        self.assertNotIn("against", by_name["get"])

    def test_a_written_table_is_read_again(self):
        once = Figures(MEASURED)
        again = Figures(written(once))
        self.assertEqual(written(again), written(once))
        self.assertEqual(again.document(), once.document())

    def test_the_table_has_a_head_for_each_group(self):
        table = "\n".join(Figures(MEASURED).table())
        for text in ("\nfloor  ", "\ncalls  ", "   200 ns     210 ns    2.00    0.05",
                     "0.500 x memcpy", "(has failed: line\nand line)"):
            self.assertIn(text, table)

    def test_goals_are_reached_or_missed(self):
        goals = "\n".join(Figures(MEASURED).goals())
        self.assertRegex(goals, r'empty call / flags, "4" warps +2.000, goal <= 1.5: MISSED')
        self.assertRegex(goals, r"empty call +0.200 us, goal <= 2 us: reached")
        self.assertRegex(goals, r"empty call / launch +0.050, goal <= 0.5: reached")
        self.assertNotIn("put", goals)
        emulated = "\n".join(Figures(MEASURED.replace(",cpu,", ",target,").replace(
            ",one", ",cuda-emulated:0")).goals())
        self.assertIn("goal <= 1.25: MISSED", emulated)
        self.assertNotIn("launch", emulated)

    def test_a_median_of_zero_is_compared_with_nothing(self):
        zero = MEASURED.replace(",0,100,", ",0,0,").replace("launch,ns,0,4000,", "launch,ns,0,0,").replace(
            "memcpy,GB/s,3,4,", "memcpy,GB/s,3,0,")
        figures = Figures(zero)
        self.assertIn('call,,,,\n', written(figures))
        self.assertIn("put,GB/s,1,2,3,7,other,,,,memcpy\n", written(figures))
        self.assertEqual([line for line in figures.goals() if " / " in line], [])

    def test_values_have_units(self):
        for value, unit, text in ((0, "ns", "0.00 ns"), (1050, "ns", "1.05 us"), (2.5e9, "ns", "2.50 s"),
                                  (5e12, "ns", "5000 s"), (12.3e6, "calls/s", "12.3 M/s"),
                                  (99.96, "GB/s", "100 GB/s")):
            self.assertEqual(text_of(value, unit), text)

    def test_other_files_are_refused(self):
        for text in ("", "a,b\n1,2\n", HEAD + "floor,flag"):
            self.assertRaises(ValueError, Figures, text)

    def test_the_program_writes_both_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "figures.csv")
            path.write_text(MEASURED, encoding="utf-8")
            words = [sys.executable, "-B", str(HERE / "report.py"), str(path)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("\ngoals\n", done.stdout)
            self.assertIn("launch,50,1.25", path.read_text(encoding="utf-8"))
            document = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            self.assertEqual(document["best_launch"], "launch")
            path.write_text("none", encoding="utf-8")
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("figures.csv: no figures of farcall_cuda_bench", done.stderr)

    def test_a_table_that_cannot_be_written_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "figures.csv")
            path.write_text(MEASURED, encoding="utf-8")
            with mock.patch.object(sys, "argv", ["report.py", str(path)]), \
                    mock.patch.object(Figures, "write_csv", side_effect=OSError("full")), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertRaises(OSError, report.main)
            self.assertEqual(path.read_text(encoding="utf-8"), MEASURED)


if __name__ == "__main__":
    unittest.main()
