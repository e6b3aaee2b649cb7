#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extrapolates the results of `farcall bench scale --nodes … --json` to jobs of more nodes.

    predict.py children.json            # documents of one launcher; the last row of each size counts
    predict.py mpirun.json --nodes 1000,10000 --per-machine 64 --cores 64 --svg scale.svg

Constants are fitted to the jobs of at most --fit-to targets. Larger measured jobs check the fit.
Three effects are added that one machine cannot show: a launcher's tree over machines, in which
each level takes --level-ms; processes of different machines running in parallel; and the host's
serial work.
"""

import argparse
import json
import pathlib
import sys
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
import charts  # noqa: E402

LEAST_NUMBERS, MOST_NUMBERS = 1024, 65536    # farcall/base/node_table.hpp
MOST_URL_TARGETS = 4000                      # farcall/transport/target_url.hpp
MOST_LANES, MOST_LANES_OF_HOST = 256, 16384  # farcall/transport/shm/receive_segment.hpp
SPARE_DESCRIPTORS = 128                      # farcall/job/descriptor_limit.cpp


@dataclass
class Line:
    """fixed + each * n"""
    fixed: float
    each: float

    def at(self, n):
        return self.fixed + self.each * n


def fit_line(points):
    """Returns the line with the least squared relative errors; for one point, through the origin."""
    points = [(x, y) for x, y in points if y > 0]
    if not points:
        return Line(0, 0)
    if len({x for x, _ in points}) == 1:
        x, y = points[-1]
        return Line(0, y / x)
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    each = (sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points)) /
            sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points)))
    return Line(mean_y - each * mean_x, each)


def numbers_for(targets):
    """Returns the size of a job's node tables."""
    return min(max(LEAST_NUMBERS, 2 * (targets + 1)), MOST_NUMBERS)


def pairs(targets):
    return targets * (targets - 1) // 2


def tree_levels(machines, fan_out):
    """Returns the steps from the launcher to the last of that many machines."""
    levels, reached = 0, 1
    while reached < machines:
        reached *= fan_out
        levels += 1
    return levels


def memory_of(use):
    """KiB"""
    return use["private_kib"] + use["shared_kib"] + use["page_tables_kib"]


def per_unit(rows, total, count):
    """Returns the share of `total` for each of `count`, over all jobs."""
    with_it = [r for r in rows if r.get(count)]
    return sum(r[total] for r in with_it) / sum(r[count] for r in with_it) if with_it else 0


@dataclass
class Constants:
    launch_ms: Line         # before the constructor begins
    constructor_ms: Line    # if all run on one machine
    host_cpu_ms: Line
    target_cpu_ms: float
    host_unused_kib: Line
    host_used_kib: Line
    descriptors: Line
    node_kib: float
    number_bytes: float     # of a node, for each entry of the job's tables
    pair_ms: float          # if all run on one machine
    pair_host_cpu_ms: float
    pair_target_cpu_ms: float
    lane_ms: float          # if all run on one machine
    lane_cpu_ms: float      # of both ends
    known_bytes: float
    lane_kib: float         # of both ends


def constants_of(rows, fit_to):
    fitted = [r for r in rows if r["nodes"] <= fit_to]
    if len(fitted) < 2:
        raise SystemExit(f"there are fewer than two jobs of at most {fit_to} targets")
    line = lambda value: fit_line([(r["nodes"], value(r)) for r in fitted])  # noqa: E731
    last = fitted[-1]
    # All small jobs have tables of equal size.
    sizes = [r for r in rows if r["nodes"] >= LEAST_NUMBERS // 4]
    tables = [(numbers_for(r["nodes"]), r["target_heap_bytes"]) for r in sizes]
    number_bytes = 0
    if len({x for x, _ in tables}) > 1:
        (x0, y0), (x1, y1) = tables[0], tables[-1]
        number_bytes = (y1 - y0) / (x1 - x0)
    return Constants(
        launch_ms=line(lambda r: r["launch_ms"]["p50"] - r["constructor_ms"]["p50"]),
        constructor_ms=line(lambda r: r["constructor_ms"]["p50"]),
        host_cpu_ms=line(lambda r: r["start_host_cpu_ms"]["p50"]),
        target_cpu_ms=sum(r["start_targets_cpu_ms"]["p50"] for r in fitted) /
        sum(r["nodes"] for r in fitted),
        host_unused_kib=line(lambda r: memory_of(r["host_unused"])),
        host_used_kib=line(lambda r: memory_of(r["host_used"])),
        descriptors=line(lambda r: r["host_unused"]["descriptors"]),
        node_kib=memory_of(last["target_unused"]),
        number_bytes=number_bytes,
        pair_ms=per_unit(fitted, "meeting_ms", "meeting_pairs"),
        pair_host_cpu_ms=per_unit(fitted, "meeting_host_cpu_ms", "meeting_pairs"),
        pair_target_cpu_ms=per_unit(fitted, "meeting_targets_cpu_ms", "meeting_pairs"),
        lane_ms=per_unit(fitted, "calling_ms", "calling_lanes"),
        lane_cpu_ms=per_unit(fitted, "calling_targets_cpu_ms", "calling_lanes"),
        known_bytes=last.get("known_heap_bytes", 0) + last.get("known_page_tables_bytes", 0),
        lane_kib=last.get("lane_memory_kib", 0))


@dataclass
class Cluster:
    per_machine: int
    cores: int
    fan_out: int
    level_ms: float

    def machines(self, targets):
        return -(-(targets + 1) // self.per_machine)


def start_ms(c, targets, cluster):
    """Returns the time from the launcher's start to the constructor's end."""
    here = min(targets + 1, cluster.per_machine)
    launch = (c.launch_ms.at(here) +
              cluster.level_ms * tree_levels(cluster.machines(targets), cluster.fan_out))
    side_by_side = here * c.target_cpu_ms / min(cluster.cores, here)
    return launch + c.constructor_ms.fixed + max(c.host_cpu_ms.each * targets, side_by_side)


def contact_ms(c, targets, cluster):
    """All targets meet, then call, all others: the host makes the introductions one by one."""
    here = min(targets, cluster.per_machine)
    share = here / min(cluster.cores, here)
    meeting = max(pairs(targets) * c.pair_host_cpu_ms,
                  share * (targets - 1) * c.pair_target_cpu_ms / 2)
    return meeting + share * (targets - 1) * c.lane_cpu_ms


def node_kib(c, targets):
    """Returns the memory of a target that has contacted the host only."""
    return c.node_kib + c.number_bytes * (numbers_for(targets) - LEAST_NUMBERS) / 1024


def contacted_kib(c, targets):
    return node_kib(c, targets) + (targets - 1) * (c.known_bytes / 1024 + c.lane_kib)


def limits(c, cluster, launcher, descriptors, timeout_s):
    """Returns the limits in the order in which they are reached: (targets, limit, remedy)."""
    found = [(MOST_NUMBERS - 1, "numbers of nodes", "several jobs; wider numbers in lanes"),
             (int((descriptors - SPARE_DESCRIPTORS - c.descriptors.fixed) / c.descriptors.each +
                  1e-6), f"{descriptors:,} descriptors of the host", "a tree of control connections")]
    low, high = 1, 10**9
    while low < high:
        middle = (low + high + 1) // 2
        slow = start_ms(c, middle, cluster) > timeout_s * 1000
        low, high = (low, middle - 1) if slow else (middle, high)
    found.append((low, f"start timeout of {timeout_s:g} s", "FARCALL_START_TIMEOUT_MS"))
    if launcher == "children":
        found.append((MOST_URL_TARGETS, "targets in URLs", "a launcher"))
    if cluster.per_machine > MOST_LANES:
        found.append((MOST_LANES, "lanes to a node from its machine, when all call all",
                      "fewer processes on a machine, with more workers"))
    return sorted(found)


def read_rows(documents):
    rows, launchers = {}, set()
    for path in documents:
        try:
            document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise SystemExit(f"{path}: {problem}; farcall bench scale --nodes 2,4,8 --json makes one")
        if not isinstance(document, dict) or "launcher" not in document or "sizes" not in document:
            raise SystemExit(f"{path} is none of farcall bench scale --nodes 2,4,8 --json")
        launchers.add(document["launcher"])
        rows.update({r["nodes"]: r for r in document["sizes"] if "failure" not in r})
    if len(launchers) != 1:
        raise SystemExit("the documents are of different launchers")
    return [rows[n] for n in sorted(rows)], launchers.pop(), document["env"]


def table(header, lines):
    return "\n".join("| " + " | ".join(cells) + " |"
                     for cells in [header, ["---"] * len(header), *lines]) + "\n"


def time_text(ms):
    for unit, size in (("h", 3.6e6), ("min", 6e4), ("s", 1e3)):
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms:.3g} ms"


def memory_text(kib):
    for unit, size in (("GiB", 2**20), ("MiB", 2**10)):
        if kib >= size:
            return f"{kib / size:.3g} {unit}"
    return f"{kib:.3g} KiB"


def check_table(c, rows, fit_to):
    def cells(measured, predicted, text):
        return f"{text(measured)} ({100 * (predicted / measured - 1):+.0f} %)" if measured else ""

    lines = []
    for r in (r for r in rows if r["nodes"] > fit_to):
        n = r["nodes"]
        met, called = r.get("meeting_pairs", 0), r.get("calling_lanes", 0)
        lines.append([
            f"{n:,}", cells(r["constructor_ms"]["p50"], c.constructor_ms.at(n), time_text),
            cells(r["start_host_cpu_ms"]["p50"], c.host_cpu_ms.at(n), time_text),
            cells(memory_of(r["host_unused"]), c.host_unused_kib.at(n), memory_text),
            cells(r["host_unused"]["descriptors"], c.descriptors.at(n), lambda d: f"{d:,.0f}"),
            cells(r.get("meeting_ms", 0), met * c.pair_ms, time_text),
            cells(r.get("calling_ms", 0), called * c.lane_ms, time_text)])
    return table(["targets", "constructor", "host's processor time", "host's memory, unused",
                  "descriptors", "meeting", "calling"], lines) if lines else ""


def prediction_table(c, sizes, cluster):
    return table(
        ["targets", "machines", "start", "host's memory, unused", "used", "host's descriptors",
         "a target's memory", "first contact of all", "a target's memory then"],
        [[f"{n:,}", f"{cluster.machines(n):,}", time_text(start_ms(c, n, cluster)),
          memory_text(c.host_unused_kib.at(n)), memory_text(c.host_used_kib.at(n)),
          f"{c.descriptors.at(n):,.0f}", memory_text(node_kib(c, n)),
          time_text(contact_ms(c, n, cluster)), memory_text(contacted_kib(c, n))]
         for n in sizes])


def draw(c, sizes, cluster, rows, subtitle):
    top = max(sizes)
    steps = [2**i for i in range(1, 40) if 2**i < top] + [top]
    series = (("start", [(n, start_ms(c, n, cluster)) for n in steps]),
              ("first contact of all", [(n, contact_ms(c, n, cluster)) for n in steps]),
              ("start measured on one machine", [(r["nodes"], r["launch_ms"]["p50"]) for r in rows]))
    return charts.svg_picture({
        "title": "Jobs of many nodes", "text": subtitle, "circumstances": "", "left_out": [], "charts": [{
            "title": "Start and first contact", "subtitle": "",
            "x": {"title": "targets", "unit": "count", "scale": "log10"},
            "y": {"title": "time", "unit": "nanoseconds", "scale": "log10"},
            "series": [{"name": name, "role": "figure",
                        "points": [[n, *[1e6 * ms] * 3, None, 1] for n, ms in points]}
                       for name, points in series]}]})


def main():
    words = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("documents", nargs="+")
    words.add_argument("--fit-to", type=int, default=64, metavar="TARGETS")
    words.add_argument("--nodes", default="1000,10000,100000")
    words.add_argument("--per-machine", type=int, default=64, help="processes (64)")
    words.add_argument("--cores", type=int, default=64, help="of a machine (64)")
    words.add_argument("--fan-out", type=int, default=64, help="of the launcher's tree (64)")
    words.add_argument("--level-ms", type=float, default=200,
                       help="to start a launcher's daemon on another machine (200)")
    words.add_argument("--descriptors", type=int, default=524288, help="that the host may have")
    words.add_argument("--start-timeout", type=float, default=10, help="seconds (10)")
    words.add_argument("--number-bytes", type=float, metavar="BYTES",
                       help="of a target's memory for each number of a node, where no two of the "
                            "measured jobs have different numbers")
    words.add_argument("--svg", metavar="FILE")
    o = words.parse_args()
    rows, launcher, env = read_rows(o.documents)
    c = constants_of(rows, o.fit_to)
    if o.number_bytes is not None:
        c.number_bytes = o.number_bytes
    cluster = Cluster(o.per_machine, o.cores, o.fan_out, o.level_ms)
    sizes = [int(n) for n in o.nodes.split(",")]
    print(f"{env['cpu']}; {launcher}; fitted to jobs of at most {o.fit_to} targets\n")
    print(table(["constant", "value"], [
        ["constructor on this machine",
         f"{c.constructor_ms.fixed:.3g} ms + {c.constructor_ms.each:.3g} ms a target"],
        ["processor time of the host for it",
         f"{c.host_cpu_ms.fixed:.3g} ms + {c.host_cpu_ms.each:.3g} ms a target"],
        ["processor time of a target", f"{c.target_cpu_ms:.3g} ms"],
        ["host's memory, unused", f"{c.host_unused_kib.each:.3g} KiB a target"],
        ["host's memory, used", f"{c.host_used_kib.each:.3g} KiB a target"],
        ["host's descriptors", f"{c.descriptors.each:.3g} a target"],
        ["a target's memory", f"{c.node_kib:,.0f} KiB"],
        ["of it for each number of a node", f"{c.number_bytes:.3g} B"],
        ["introduction of a pair", f"{1000 * c.pair_host_cpu_ms:.3g} µs of the host, "
                                   f"{1000 * c.pair_target_cpu_ms:.3g} µs of the two"],
        ["first call in a lane", f"{1000 * c.lane_cpu_ms:.3g} µs of the two"],
        ["a known target", f"{c.known_bytes:,.0f} B"],
        ["a lane", f"{c.lane_kib:.3g} KiB of the two"]]))
    if checked := check_table(c, rows, o.fit_to):
        print("Measured beyond that, and how far the prediction is off:\n\n" + checked)
    print(f"Predicted, {o.per_machine} processes to a machine with {o.cores} cores:\n")
    print(prediction_table(c, sizes, cluster))
    print("Limits, and the number of targets at which they are reached:\n")
    print(table(["targets", "what", "what helps"],
                [[f"{n:,}", what, how] for n, what, how in
                 limits(c, cluster, launcher, o.descriptors, o.start_timeout)]))
    if o.svg:
        pathlib.Path(o.svg).write_text(
            draw(c, sizes, cluster, rows, f"{env['cpu']}, {launcher}; beyond {rows[-1]['nodes']:,} "
                                          "targets predicted"), encoding="utf-8")


if __name__ == "__main__":
    main()
