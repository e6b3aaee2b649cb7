#!/usr/bin/env python3
"""Draws what `farcall bench am2 --json` has measured: draw.py <its document> <folder>.

Writes am2-latency.svg and am2-bandwidth.svg, the two graphs that AMLAPI's authors published of
theirs: the round trip of a message, and the bandwidth, against the size.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
import chart  # noqa: E402


def circumstances(document):
    env = document["env"]
    return f'{env["cpu"]}, floor {document["floor_ns"]["p50"]:.0f} ns; medians'


def latency_chart(document):
    rows = document["latency"]
    short = next(r["ns"]["p50"] for r in rows if r["bytes"] == 0)
    medium = [(r["bytes"], r["ns"]["p50"]) for r in rows if r["bytes"] > 0]
    ends = medium[0][0], medium[-1][0]
    floor = document["floor_ns"]["p50"]
    return chart.line_chart(
        "AM-2 over shared memory: round trip against size", circumstances(document),
        "bytes of the request; the reply is short", "round trip",
        [("medium request, short reply", medium),
         ("short request, short reply", [(x, short) for x in ends]),
         ("floor: one cache line each way", [(x, floor) for x in ends])], chart.nanoseconds_text)


def bandwidth_chart(document):
    rows = document["bandwidth"]
    return chart.line_chart(
        "AM-2 over shared memory: bandwidth against size", circumstances(document),
        "bytes of a long request", "MiB/s",
        [("long requests, several under way", [(r["bytes"], r["mib_per_second"]) for r in rows]),
         ("memcpy in one process", [(r["bytes"], r["memcpy_mib_per_second"]) for r in rows])],
        lambda value: f"{value:,.0f}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    document = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = pathlib.Path(sys.argv[2])
    (folder / "am2-latency.svg").write_text(latency_chart(document), encoding="utf-8")
    (folder / "am2-bandwidth.svg").write_text(bandwidth_chart(document), encoding="utf-8")


if __name__ == "__main__":
    main()
