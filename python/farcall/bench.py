# SPDX-License-Identifier: Apache-2.0
"""Measures calls of farcall beside calls of other packages: python -m farcall.bench.

Each figure is the median of samples, with the least sample in parentheses, and the goal of farcall in the same unit.
Cases of a group are measured in turns, so that they can be compared; only joblib, Dask and Ray are measured before,
because their processes would disturb the others. Packages that are not installed are named in the table. The program
runs on one processor and workers on another one, if there are two; packages with processes of their own use all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import platform
import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

from . import __version__, _bench_anchors, _bench_cases, _bench_life, _chart
from ._bench_measure import Group

_SCALES = {"µs": 1e6, "ms": 1e3, "MB": 1e-6, "%": 100}
_PACKAGES = tuple(name for name, kind in _bench_anchors.ALL.items() if not kind.is_standard)


def pin(workers: list[int]) -> None:
    """Lets this process and the workers run on one processor each."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return
    for process, processor in [(os.getpid(), processors[0]), *((pid, processors[1]) for pid in workers)]:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {processor})


def measure(group: Group, rounds: int) -> list[_chart.Figure]:
    """Returns the figures of a group in its unit."""
    scale = _SCALES[group.unit]
    samples = {case.name: [scale * value for value in case.taken] for case in group.cases}
    for round_ in range(rounds + 1):
        for case in group.cases:
            own = min(rounds, case.most_rounds)
            # The first of several rounds fills caches.
            unused = 1 if own > 1 else 0
            if case.sample is None or round_ >= own + unused:
                continue
            value = case.sample() * scale
            if round_ >= unused:
                samples[case.name].append(value)
    return [_chart.Figure(case.name, *_median(samples[case.name]), case.is_farcall, case.goal, case.note)
            for case in group.cases]


def _median(samples: list[float]) -> tuple[float, float]:
    return (statistics.median(samples), min(samples)) if samples else (math.nan, math.nan)


def text_of(figure: _chart.Figure, unit: str) -> str:
    """Returns the line of a figure in the table."""
    if math.isfinite(figure.median):
        goal = f"  goal {figure.goal}" if figure.goal else ""
        return f"  {figure.name:<50} {figure.median:10.2f} {unit}  ({figure.least:.2f}){goal}"
    return f"  {figure.name:<50} {_chart.reason(figure):>10}"


def _share_of_others(seconds: float) -> float:
    """Returns how many processors other programs use, while this program sleeps."""
    def busy() -> float:
        with open("/proc/stat", encoding="ascii") as file:
            words = [int(word) for word in file.readline().split()[1:9]]
        return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")

    begin = busy()
    time.sleep(seconds)
    return (busy() - begin) / seconds


def circumstances(seconds: float) -> dict[str, str]:
    """Describes the machine and the interpreter."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
    return {"processors": f"{len(os.sched_getaffinity(0))} of {found.group(1) if found else platform.machine()}",
            "python": f"{platform.python_implementation()} {platform.python_version()}", "farcall": __version__,
            "system": f"{platform.system()} {platform.release()}",
            "other programs": f"{_share_of_others(seconds):.2f} processors, before the first figure"}


def _groups(made: _bench_cases.Executors, is_pinned: bool) -> Iterator[Group]:
    everywhere = os.sched_getaffinity(0)
    if is_pinned:
        pin(made.workers)
    for make in _bench_cases.GROUPS:
        yield make(made)
    # Executors of these groups start processes of their own.
    os.sched_setaffinity(0, everywhere)
    yield from _bench_life.groups(made)


def _in_json(results: list[tuple[Group, list[_chart.Figure]]], described: dict[str, str]) -> str:
    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    groups: list[dict[str, Any]] = [
        {"title": group.title, "unit": group.unit,
         "figures": [{"name": figure.name, "median": number(figure.median), "least": number(figure.least),
                      "is_farcall": figure.is_farcall, "goal": figure.goal,
                      "note": "" if math.isfinite(figure.median) else _chart.reason(figure)} for figure in figures]}
        for group, figures in results]
    return json.dumps({**described, "groups": groups}, indent=1, ensure_ascii=False) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m farcall.bench", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="write a picture of the table")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures in JSON")
    parser.add_argument("--packages", default=",".join(_PACKAGES), metavar="NAMES",
                        help="measure these packages beside the standard library, if they are installed: "
                        "%(default)s; 'none' for none")
    parser.add_argument("--wheel", metavar="FILE", help="tell the size of this wheel of farcall")
    parser.add_argument("--unpinned", action="store_true", help="let the system choose the processors")
    parser.add_argument("--quick", action="store_true", help="take one sample: a check that all runs, no measurement")
    options = parser.parse_args()
    if options.wheel is not None and not pathlib.Path(options.wheel).is_file():
        parser.error(f"--wheel: there is no file {options.wheel}")
    options.packages = tuple(name for name in options.packages.split(",") if name not in ("", "none"))
    for name in options.packages:
        if name not in _PACKAGES:
            parser.error(f"--packages knows no '{name}' (it knows {', '.join(_PACKAGES)}, none)")
    return options


def main() -> None:
    """Prints a table, and writes it to files."""
    options = _options()
    chosen = _bench_cases.Options(options.quick, options.packages, options.wheel)
    described = circumstances(0.05 if options.quick else 1)
    for name, value in described.items():
        print(f"{name}: {value}", flush=True)
    results = []
    with _bench_cases.executors(chosen, _bench_life.take_heavy(chosen)) as made:
        for group in _groups(made, not options.unpinned):
            figures = measure(group, 1 if options.quick else group.rounds)
            print(f"\n{group.title}:")
            for figure in figures:
                print(text_of(figure, group.unit), flush=True)
            results.append((group._replace(cases=[]), figures))
            del group  # which may have large data
    if options.svg:
        titled = [(f"{group.title}, {group.unit}", figures) for group, figures in results]
        options.svg.write_text(_chart.drawn("Calls of farcall and of other packages", titled), encoding="utf-8")
    if options.json:
        options.json.write_text(_in_json(results, described), encoding="utf-8")


if __name__ == "__main__":
    main()
