# SPDX-License-Identifier: Apache-2.0
"""Measures calls of farcall beside calls of other executors: python -m farcall.bench.

Each figure is the median of samples, and the least sample in parentheses. Cases of a group are measured in turns, so
that they can be compared. Other executors are multiprocessing.Pipe, ProcessPoolExecutor, and, if they are installed,
loky and mpi4py.futures. The program runs on one processor and all workers on another one, if there are two.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics

from . import _bench_cases, _chart


def pin(workers: list[int]) -> None:
    """Lets this process and the workers run on one processor each."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return
    for process, processor in [(os.getpid(), processors[0]), *((pid, processors[1]) for pid in workers)]:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {processor})


def measure(group: _bench_cases.Group, rounds: int) -> list[_chart.Figure]:
    """Returns the figures of a group in its unit."""
    scale = {"µs": 1e6, "ms": 1e3}[group.unit]
    samples: dict[str, list[float]] = {case.name: [] for case in group.cases}
    for round_ in range(rounds + 1):
        for case in group.cases:
            value = case.sample() * scale
            # The first round fills caches.
            if round_ > 0 or rounds == 1:
                samples[case.name].append(value)
    return [_chart.Figure(case.name, statistics.median(samples[case.name]), min(samples[case.name]), case.is_farcall)
            for case in group.cases]


def _print(group: _bench_cases.Group, figures: list[_chart.Figure]) -> None:
    print(f"\n{group.title}:")
    for figure in figures:
        print(f"  {figure.name:<46} {figure.median:10.2f} {group.unit}  ({figure.least:.2f})", flush=True)


def main() -> None:
    """Prints a table, and writes a picture of it."""
    parser = argparse.ArgumentParser(prog="python -m farcall.bench", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="write a picture of the table")
    parser.add_argument("--unpinned", action="store_true", help="let the system choose the processors")
    parser.add_argument("--quick", action="store_true", help="take one sample: a check that all runs, no measurement")
    options = parser.parse_args()
    results = []
    with _bench_cases.executors() as made:
        everywhere = os.sched_getaffinity(0)
        if not options.unpinned:
            pin(made.workers)
        for make in _bench_cases.GROUPS:
            if make in _bench_cases.UNPINNED:
                os.sched_setaffinity(0, everywhere)
            group = make(made)
            figures = measure(group, 1 if options.quick else group.rounds)
            _print(group, figures)
            results.append((f"{group.title}, {group.unit}", figures))
    if options.svg:
        options.svg.write_text(_chart.drawn("Calls of farcall and of other executors", results), encoding="utf-8")


if __name__ == "__main__":
    main()
