#!/usr/bin/env python3
"""Draws what `farcall bench bandwidth --unregistered --json` has measured.

Run as: draw.py <its document> <folder>. Writes unregistered-small.svg, unregistered-huge.svg and
unregistered-hugetlb.svg, as far as the document has such pages: the bandwidth of one thread against
the size, as the scans of VEOS' 4dma were published.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
import chart  # noqa: E402

TITLES = {"small": "small pages", "huge": "transparent huge pages",
          "hugetlb": "huge pages of the pool"}
BYTES_PER_MIB = 2**20


def published(rows):
    """GB/s to the card; empty where the document has none."""
    return [(r["bytes"], r["published_put_mib_s"] * BYTES_PER_MIB / 1e9) for r in rows
            if r["published_put_mib_s"] is not None]


def bandwidth_chart(document, kind, rows):
    env = document["env"]
    series = [(name, [(r["bytes"], r[key]) for r in rows])
              for name, key in (("put, to the target", "put_gb_s"),
                                ("get, from the target", "get_gb_s"),
                                ("memcpy", "memcpy_gb_s"))]
    series.append(("VEOS 4dma, to its card", published(rows)))
    return chart.line_chart(f"Unregistered memory on both sides: {TITLES[kind]}",
                            f'{env["cpu"]}, one thread; medians, and as published of VEOS',
                            "bytes of a copy", "GB/s", series, lambda value: f"{value:g}")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    document = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    for kind in TITLES:
        rows = [r for r in document["unregistered"] if r["pages"] == kind and r["threads"] == 1]
        if len(rows) > 1:
            path = pathlib.Path(sys.argv[2]) / f"unregistered-{kind}.svg"
            path.write_text(bandwidth_chart(document, kind, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
