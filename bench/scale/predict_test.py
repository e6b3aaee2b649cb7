#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the arithmetic of predict.py against small cases worked out by hand."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import predict  # noqa: E402


def use(private, descriptors=0):
    return {"private_kib": private, "shared_kib": 2, "page_tables_kib": 1,
            "descriptors": descriptors}


def row(n):
    """Returns a job whose figures are linear, such as 10 + 2 n."""
    return {"nodes": n, "launch_ms": {"p50": 15 + 3 * n}, "constructor_ms": {"p50": 10 + 2 * n},
            "start_host_cpu_ms": {"p50": 1 + n}, "start_targets_cpu_ms": {"p50": 3 * n},
            "host_unused": use(100 + 5 * n, 5 + 4 * n), "host_used": use(100 + 50 * n),
            "target_unused": use(997), "target_heap_bytes": 1000 + 10 * predict.numbers_for(n),
            "meeting_pairs": predict.pairs(n), "meeting_ms": predict.pairs(n),
            "meeting_host_cpu_ms": predict.pairs(n) / 2,
            "meeting_targets_cpu_ms": predict.pairs(n) * 4,
            "known_heap_bytes": 900, "known_page_tables_bytes": 124,
            "calling_lanes": n * (n - 1), "calling_ms": 2 * n * (n - 1),
            "calling_targets_cpu_ms": 3 * n * (n - 1), "lane_memory_kib": 150}


CLUSTER = predict.Cluster(per_machine=4, cores=2, fan_out=8, level_ms=100)


class Predict(unittest.TestCase):
    def constants(self, fit_to=8):
        return predict.constants_of([row(2), row(4), row(8), row(400), row(1023)], fit_to)

    def test_a_line_goes_through_points_that_lie_on_one(self):
        line = predict.fit_line([(1, 5), (2, 7), (10, 23)])
        self.assertAlmostEqual(line.fixed, 3)
        self.assertAlmostEqual(line.each, 2)

    def test_errors_count_relative_to_the_value(self):
        # Weights 1, 1/4, 1/4; means 2/3 and 4/3; slope (2/9 + 1/18 + 7/18) / (4/9 + 1/36 + 49/36).
        line = predict.fit_line([(0, 1), (1, 2), (3, 2)])
        self.assertAlmostEqual(line.fixed, 12 / 11)
        self.assertAlmostEqual(line.each, 4 / 11)

    def test_one_point_is_in_proportion(self):
        self.assertEqual(predict.fit_line([(4, 8)]), predict.Line(0, 2))

    def test_levels_of_a_tree(self):
        self.assertEqual([predict.tree_levels(m, 8) for m in (1, 2, 8, 9, 64, 65)],
                         [0, 1, 1, 2, 2, 3])

    def test_numbers_and_pairs(self):
        self.assertEqual([predict.numbers_for(n) for n in (1, 511, 512, 1000, 100000)],
                         [1024, 1024, 1026, 2002, 65536])
        self.assertEqual([predict.pairs(n) for n in (1, 2, 5)], [0, 1, 10])

    def test_constants(self):
        c = self.constants()
        self.assertAlmostEqual(c.constructor_ms.each, 2)
        self.assertAlmostEqual(c.launch_ms.fixed, 5)
        self.assertAlmostEqual(c.launch_ms.each, 1)
        self.assertAlmostEqual(c.target_cpu_ms, 3)
        self.assertAlmostEqual(c.host_unused_kib.fixed, 103)
        self.assertAlmostEqual(c.number_bytes, 10)
        self.assertAlmostEqual(c.node_kib, 1000)
        self.assertAlmostEqual(c.pair_host_cpu_ms, 0.5)
        self.assertAlmostEqual(c.lane_cpu_ms, 3)
        self.assertAlmostEqual(c.known_bytes, 1024)

    def test_tables_of_equal_size_show_no_slope(self):
        self.assertEqual(predict.constants_of([row(2), row(4)], 8).number_bytes, 0)

    def test_start_on_one_machine_and_on_several(self):
        c = self.constants()
        # 4 processes: launch 5 + 4; then 10; then the host takes 3, and targets 4 * 3 / 2 in
        # parallel.
        self.assertAlmostEqual(predict.start_ms(c, 3, CLUSTER), 9 + 10 + 6)
        # 10 machines, so two levels; the host takes 39.
        self.assertAlmostEqual(predict.start_ms(c, 39, CLUSTER), 9 + 200 + 10 + 39)

    def test_first_contact(self):
        c = self.constants()
        # Meeting: 3 pairs take the host 1.5; 3 targets on 2 cores take 1.5 * 2 * 4 / 2. Lanes: 1.5
        # * 2 * 3.
        self.assertAlmostEqual(predict.contact_ms(c, 3, CLUSTER), 6 + 9)
        # 101 targets: 5050 pairs take the host 2525; its targets take 2 * 100 * 4 / 2.
        self.assertAlmostEqual(predict.contact_ms(c, 101, CLUSTER), 2525 + 2 * 100 * 3)

    def test_memory_of_a_node(self):
        c = self.constants()
        self.assertAlmostEqual(predict.node_kib(c, 100), 1000)
        self.assertAlmostEqual(predict.node_kib(c, 1023), 1000 + 10 * 1024 / 1024)
        self.assertAlmostEqual(predict.contacted_kib(c, 11), 1000 + 10 * 151)

    def test_limits_are_in_the_order_reached(self):
        found = predict.limits(self.constants(), CLUSTER, "mpirun", 5 + 4 * 500 + 128, 1)
        # Start: 9 + 300 + 10 + n is 1000 ms, with three levels of machines.
        self.assertEqual([n for n, _, _ in found], [500, 681, 65535])
        everything = predict.limits(self.constants(), predict.Cluster(300, 2, 8, 100), "children",
                                    10**6, 10)
        self.assertIn(4000, [n for n, _, _ in everything])
        self.assertEqual(everything[0][0], 256)

    def test_the_program_prints_what_it_finds(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "measured.json"
            failed = {"nodes": 5000, "failure": "too many"}
            path.write_text(json.dumps({"launcher": "mpirun", "env": {"cpu": "some"},
                                        "sizes": [row(2), row(4), row(8), row(16), failed]}))
            picture = pathlib.Path(folder) / "scale.svg"
            done = subprocess.run([sys.executable, "-B", str(HERE / "predict.py"), str(path),
                                   "--fit-to", "8", "--svg", str(picture)],
                                  capture_output=True, text=True, timeout=60, check=True)
            self.assertIn("| 16 | 42 ms (+0 %) | 17 ms (+0 %)", done.stdout)
            self.assertIn("| 100,000 | 1,563 |", done.stdout)
            self.assertIn("first contact of all</text>", picture.read_text(encoding="utf-8"))

    def test_says_what_is_no_document(self):
        with tempfile.TemporaryDirectory() as folder:
            for content in ("", "[1]", "{}"):
                path = pathlib.Path(folder) / "measured.json"
                path.write_text(content, encoding="utf-8")
                done = subprocess.run([sys.executable, "-B", str(HERE / "predict.py"), str(path)],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn("farcall bench scale --nodes 2,4,8 --json", done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
