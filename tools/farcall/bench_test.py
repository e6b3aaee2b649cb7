#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `farcall bench`: its figures, and the options that it passes on to farcall-bench.

Run as: bench_test.py <farcall> <part>, where <part> is one of PARTS.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree


def run(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=100, **how)


def expect(done, status, text, where):
    said = done.stdout if where == "out" else done.stderr
    if done.returncode != status or text not in said:
        raise SystemExit(f"{done.args}: status {done.returncode}, not {status}, or no {text!r} in:\n"
                         f"{done.stdout}{done.stderr}")


def run_drawn(charts, *words):
    """Runs a benchmark with --svg; the picture must have that many charts with lines or marks."""
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "picture.svg")
        done = run(*words, "--svg", picture)
        expect(done, 0, "", "out")
        drawn = xml.etree.ElementTree.parse(picture).findall("{*}svg")
        if len(drawn) != charts or not all(one.findall("{*}g") for one in drawn):
            raise SystemExit(f"{words}: {len(drawn)} charts, not {charts}, or one without figures")
        return done


def check_door(farcall):
    expect(run(farcall, "bench", "--help"), 0, "Usage: farcall bench [OPTIONS] COMMAND", "out")
    expect(run(farcall, "bench", "offload", "--help"), 0, "Usage: farcall bench offload", "out")
    expect(run(farcall, "bench"), 2, "farcall bench: no command given; 'farcall bench help' lists the commands", "err")
    expect(run(farcall, "bench", "nonsense"), 2, 'farcall bench: there is no command "nonsense"', "err")
    expect(run(farcall, "bench", "floor", "--batches", "3"), 2, "farcall bench floor: --batches: it needs a whole number from 20 to 1000000, not \"3\"", "err")
    expect(run(farcall, "bench", "bandwidth", "--pages=huge", "--max-bytes", "1KiB"), 2,
           "farcall bench bandwidth: --max-bytes 1024: no block of that size", "err")
    expect(run(farcall, "bench", "bandwidth", "--unregistered", "--max-bytes", "1KiB"), 2,
           "farcall bench bandwidth: --unregistered begins with blocks of 32 KiB", "err")
    expect(run(farcall, "bench", "bandwidth", "--unregistered", "--transport", "tcp"), 2,
           "farcall bench bandwidth: --unregistered measures copies between processes of this machine", "err")
    expect(run(farcall, "bench", "bandwidth", "--threads", "2"), 2,
           "farcall bench bandwidth: --threads goes with --unregistered", "err")
    expect(run(farcall, "bench", "bandwidth", "--fresh"), 2,
           "farcall bench bandwidth: --fresh goes with --unregistered", "err")
    expect(run(farcall, "bench", "floor", "--quick", "--batches", "20", "--json"), 0,
           '"floor_ns": {', "out")
    expect(run(farcall, "bench", "offload", "--quick", "--batches", "20", "--json"), 0,
           '"ring_only": {', "out")
    expect(run(farcall, "bench", "offload", "--quick", "--batches", "20"), 0,
           "to floor  ring only", "out")


def check_scale(farcall):
    for wrong in ("0", "2,", "2,x", "4097"):
        expect(run(farcall, "bench", "scale", "--nodes", wrong), 2, "farcall bench scale: --nodes: ", "err")
    expect(run(farcall, "bench", "scale", "--launcher", "mpirun", "--transport", "tcp"), 2,
           "farcall bench scale: --launcher is for targets without --transport", "err")
    done = run_drawn(3, farcall, "bench", "scale", "--nodes", "3", "--quick", "--starts", "1",
                     "--json")
    expect(done, 0, '"launcher": "children"', "out")
    row, = json.loads(done.stdout)["sizes"]
    if row["nodes"] != 3 or row["constructor_ms"]["samples"] != 2 or row["limits"]:
        raise SystemExit(f"{row}")
    if row["meeting_pairs"] != 3 or row["calling_lanes"] != 6 or row["host_unused"]["descriptors"] < 3:
        raise SystemExit(f"{row}")


def check_growth(farcall):
    expect(run(farcall, "bench", "scale", "--most", "3"), 2,
           "farcall bench scale: --most goes with --grow", "err")
    expect(run(farcall, "bench", "scale", "--grow", "pages"), 2, "farcall bench scale: --grow: ", "err")
    numbers = {"nodes": [1, 2, 3], "threads": [1, 2, 3], "lanes": [1, 2, 3], "calls": [1, 10, 30]}
    for grows, expected in numbers.items():
        done = run_drawn(2, farcall, "bench", "scale", "--grow", grows, "--most", str(expected[-1]),
                         "--quick", "--batches", "20", "--json")
        document = json.loads(done.stdout)
        points = document["points"]
        if [p["number"] for p in points] != expected or document["limit"]:
            raise SystemExit(f"{grows}: {document}")
        for p in points:
            # On a busy machine, threads may make no call in some slices of time.
            if any(not 0 <= p[rate]["p1"] <= p[rate]["p50"] <= p[rate]["p99"]
                   for rate in ("sync_calls_per_s", "async_calls_per_s")):
                raise SystemExit(f"{grows}: {p}")
        if grows != "calls" and not 0 < points[0]["memory_kib"] < points[-1]["memory_kib"]:
            raise SystemExit(f"{grows}: memory of {points}")
    done = run(farcall, "bench", "scale", "--grow", "lanes", "--most", "70000", "--quick")
    expect(done, 0, "no further point", "out")


def check_compared(key, figure):
    """A figure beside the same work without farcall, or the reason why it is absent."""
    if "absent" in figure:
        if not figure["absent"].startswith("not "):
            raise SystemExit(f"{key}: {figure}")
        return
    if not 0 < figure["p1"] <= figure["p50"] or not 0 < figure["bare"]["p50"]:
        raise SystemExit(f"{key}: {figure}")
    if figure["turns"] != 20 or ("goal" in figure) == key.startswith("bare_"):
        raise SystemExit(f"{key}: {figure}")


def check_waking(farcall):
    done = run_drawn(3, farcall, "bench", "waking", "--quick", "--batches", "20", "--json")
    document = json.loads(done.stdout)
    expected = ["both_sleep", "target_sleeps", "wait_fd_1_threads", "wait_fd_250_threads"]
    if list(document["calls"]) != expected:
        raise SystemExit(f"other rows: {document}")
    for key, figure in document["calls"].items():
        check_compared(key, figure)
    rows = [(row["spin_us"], row["gap_us"]) for row in document["spin"]]
    if rows != [(0, 0), (0, 1000), (2000, 0), (2000, 1000)]:
        raise SystemExit(f"other rows: {rows}")


def check_networks(farcall):
    """UCX and MPI may be absent, but each row must be there."""
    expected = {"ucx": ["call_posix", "bare_posix", "put_posix_1048576", "get_posix_1048576",
                        "call_tcp", "bare_tcp"],
                "mpi": ["call_memory", "call_tcp"]}
    for network, keys in expected.items():
        done = run(farcall, "bench", network, "--quick", "--batches", "20", "--json")
        expect(done, 0, '"figures": {', "out")
        figures = json.loads(done.stdout)["figures"]
        if list(figures) != keys:
            raise SystemExit(f"other rows: {figures}")
        for key, figure in figures.items():
            check_compared(key, figure)


def check_am2(farcall):
    done = run_drawn(3, farcall, "bench", "am2", "--quick", "--batches", "20", "--json")
    expect(done, 0, '"floor_ns": {', "out")
    document = json.loads(done.stdout)
    for name in ("short_round_trip", "medium_1024_round_trip", "short_pipelined", "short_one_way",
                 "long_65536", "tcp_short_round_trip"):
        figure = document["figures"][name]
        if not 0 < figure["p1"] <= figure["p50"] <= figure["p99"]:
            raise SystemExit(f"{name}: {figure}")


def check_unregistered(farcall):
    for blocks, options in (("fresh", ("--fresh",)), ("warm", ("--threads", "2"))):
        counts = (1, 2) if blocks == "warm" else (1,)
        done = run_drawn(len(counts), farcall, "bench", "bandwidth", "--unregistered", "--pages",
                         "small", "--max-bytes", "64KiB", "--batches", "20", "--json", *options)
        expect(done, 0, f'"blocks": "{blocks}"', "out")
        rows = json.loads(done.stdout)["unregistered"]
        expected = [(threads, size) for threads in counts for size in (32768, 65536)]
        if [(r["threads"], r["bytes"]) for r in rows] != expected:
            raise SystemExit(f"other rows: {rows}")
        for row in rows:
            if row["samples"] != 20 or not 0 < row["put_ns"]["p1"] <= row["put_ns"]["p50"]:
                raise SystemExit(f"{row}")


def check_faults(farcall):
    done = run_drawn(1, farcall, "bench", "faults", "--quick", "--json")
    expect(done, 0, '"fault_ns": [', "out")
    rows = json.loads(done.stdout)["fault_ns"]
    expected = [("names", False, 0), ("names", True, 0), ("full", False, 0), ("full", True, 0),
                ("full", False, 3), ("full", True, 3)]
    if [(r["report"], r["deadline"], r["other_reports"]) for r in rows] != expected:
        raise SystemExit(f"other rows: {rows}")
    for row in rows:
        if row["samples"] != (20 if row["report"] == "names" else 3) or not 0 < row["p1"] <= row["p99"]:
            raise SystemExit(f"{row}")


def check_files(farcall):
    expect(run(farcall, "bench", "files", "--descriptors", "--host-files-by=mount"), 2,
           "farcall bench files: --descriptors is for the preloaded library", "err")
    small = ("bench", "files", "--quick", "--size", "16MiB", "--json")
    for transport in ("shm", "tcp"):
        # A chart for each kind of calls and record size, and one for small records.
        done = run_drawn(7, farcall, *small, "--transport", transport)
        document = json.loads(done.stdout)
        ways = ["preload", *(() if document["left_out"] else ("mount",))]
        again = [row for row in document["files"] if row["call"] == "pread, again"]
        others = [row for row in document["files"] if row["call"] != "pread, again"]
        if len(others) != 11 or len(again) != 2 * (len(ways) - 1) or any(r["preload"] for r in again):
            raise SystemExit(f"{transport}: other rows: {document['files']}")
        for row in others:
            if any(not 0 < row[way]["ns"]["p1"] <= row[way]["ns"]["p50"] for way in ways):
                raise SystemExit(f"{transport}: {row}")
            if (row["limit"] is None) != (row["record"] < 1 << 20):
                raise SystemExit(f"{transport}: {row}")


def check_without(farcall):
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "picture.svg")
        done = run(farcall, "bench", "floor", "--svg", picture, env={**os.environ, "PATH": folder})
        expect(done, 1, "farcall bench floor: --html and --svg need python3, which is in no folder of PATH", "err")
        alone = os.path.join(folder, "farcall")
        shutil.copy(farcall, alone)
        done = run(alone, "bench", "floor")
        expect(done, 1, f"farcall bench: there is no {folder}/farcall-bench", "err")
        expect(done, 1, "--target farcall_bench", "err")
        shutil.copy(os.path.join(os.path.dirname(farcall), "farcall-bench"), folder)
        done = run(alone, "bench", "floor", "--svg", picture)
        expect(done, 1, f"farcall bench floor: there is no {folder}/farcall-bench-charts", "err")
        if os.path.exists(picture):
            raise SystemExit(f"a run that was refused has left {picture}")


PARTS = {"door": check_door, "scale": check_scale, "unregistered": check_unregistered,
         "growth": check_growth, "waking": check_waking, "networks": check_networks,
         "am2": check_am2, "faults": check_faults, "files": check_files, "without": check_without}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in PARTS:
        raise SystemExit(__doc__)
    PARTS[sys.argv[2]](sys.argv[1])


if __name__ == "__main__":
    main()
