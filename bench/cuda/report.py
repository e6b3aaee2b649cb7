#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints figures of farcall_cuda_bench beside the floor, the best launch and the goals.

Run as: report.py FIGURES.csv, a file that farcall_cuda_bench --csv has written. Adds the ratios to the
file, and writes all figures with their circumstances as one document beside it, FIGURES.json.
"""

import csv
import io
import json
import math
import os
import pathlib
import sys

COLUMNS = "group what unit p1 p50 p99 samples kind to_floor to_best_launch ratio against".split()
UNITS = {"ns": ("ns", "us", "ms", "s"), "calls/s": ("/s", "k/s", "M/s", "G/s")}
COMPARED = {"to_floor": ("floor", ("call", "floor", "launch")),
            "to_best_launch": ("launch", ("call", "launch"))}


def text_of(value, unit):
    """Returns the value with three digits and a suitable unit."""
    *units, last = UNITS.get(unit, (unit,))
    for unit in units:
        if value < 999.5:
            break
        value /= 1000
    else:
        unit = last
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"


class Figures:
    """Rows of a file; the ratios are to the figures of all groups."""

    def __init__(self, text):
        rows = list(csv.reader(text.splitlines(keepends=True)))
        if not rows or rows[0] != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
            raise ValueError("no figures of farcall_cuda_bench, or a line is cut short")
        rows = [dict(zip(COLUMNS, row)) for row in rows[1:]]
        self.circumstances = {r["what"]: r["against"] for r in rows if r["kind"] == "circumstance"}
        self.rows = [r for r in rows if r["kind"] != "circumstance"]
        self.best = {kind: min((r for r in self.rows if r["kind"] == kind),
                               key=lambda r: float(r["p50"]), default=None)
                     for kind, _ in COMPARED.values()}
        for r in self.rows:
            for column, (kind, compared) in COMPARED.items():
                r[column] = self.ratio_text(r, self.best[kind] if r["kind"] in compared else None)
            r["ratio"] = self.ratio_text(r, self.find(r["against"]))

    @staticmethod
    def ratio_text(row, other):
        median = float(other["p50"]) if other else 0
        return f"{float(row['p50']) / median:.6g}" if median else ""

    def find(self, what):
        return next((r for r in self.rows if r["what"] == what and what), None)

    def table(self):
        """Returns the lines of the table of all groups."""
        lines, group = [], None
        for r in self.rows:
            if r["group"] != group:
                group = r["group"]
                lines += ["", f"{group:<52} {'p1':>10} {'p50':>10} {'p99':>10} {'/floor':>7} {'/launch':>7}"]
            if r["kind"] == "note":
                lines.append(f"({r['what']})")
                continue
            values = " ".join(f"{text_of(float(r[p]), r['unit']):>10}" for p in ("p1", "p50", "p99"))
            ratios = " ".join(f"{float(r[c]):7.2f}" if r[c] else " " * 7 for c in COMPARED)
            against = f"  {float(r['ratio']):.3f} x {r['against']}" if r["ratio"] else ""
            lines.append(f"{r['what']:<52} {values} {ratios}{against}".rstrip())
        return lines

    def goals(self):
        """Returns the lines that compare figures with their goals, if both exist."""
        is_gpu = not self.circumstances.get("target", "cuda").startswith("cuda-emulated")

        def median(what, unit=1.0):
            return float((self.find(what) or {"p50": 0})["p50"]) / unit

        def ratio(what):
            return float((self.find(what) or {})["ratio"] or 0) if self.find(what) else 0

        empty, floor, launch = median("empty call, fc::pure_fn"), self.best["floor"], self.best["launch"]
        goals = []
        if floor and float(floor["p50"]):
            goals.append(("empty call / " + floor["what"], empty / float(floor["p50"]),
                          "<=", 1.5 if is_gpu else 1.25, ""))
        if is_gpu:
            goals.append(("empty call", empty / 1000, "<=", 2, " us"))
            if launch and float(launch["p50"]):
                goals.append(("empty call / " + launch["what"], empty / float(launch["p50"]), "<=", 0.5, ""))
            goals += [(f"{size} B each way / empty call", median(f"call, {size} B each way", empty), "<=",
                       goal, "") for size, goal in ((64, 1.3), (256, 2)) if empty]
            goals += [("call, 1 KiB each way", median("call, 1024 B each way", 1000), "<=", 4, " us"),
                      ("calls per second, 8 workers", median("8 threads, 8 workers, window 256", 1e6), ">=",
                       2, " M")]
            goals += [(f"{way}, {memory} / {rival}", ratio(f"{way} {memory}, 256 MiB"), ">=", goal, "")
                      for memory, rival, goal in (("pinned", "cudaMemcpyAsync", 0.98),
                                                  ("pageable", "cudaMemcpy", 1.2))
                      for way in ("put", "get")]
            goals.append(("bandwidth kernel beside 8 idle workers",
                          ratio("bandwidth kernel, 8 idle workers"), "<=", 1.02, ""))
        return ["", "goals"] + [
            f"  {what:<44} {value:8.3f}{unit}, goal {sign} {goal:g}{unit}: " +
            ("reached" if (value <= goal if sign == "<=" else value >= goal) else "MISSED")
            for what, value, sign, goal, unit in goals if value]

    def document(self):
        def value(text):
            number = float(text)
            return (int(number) if number.is_integer() else number) if math.isfinite(number) else None

        figures = [{k: r[k] if k in ("group", "what", "unit", "against") else value(r[k])
                    for k in COLUMNS if k != "kind" and r[k] and (k != "against" or r["ratio"])}
                   for r in self.rows if r["kind"] != "note"]
        best = {name: row and row["what"] for name, row in (("floor", self.best["floor"]),
                                                            ("best_launch", self.best["launch"]))}
        return {"circumstances": self.circumstances, **best, "figures": figures,
                "notes": [f"{r['group']}: {r['what']}" for r in self.rows if r["kind"] == "note"]}

    def write_csv(self, out):
        table = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows({"what": name, "kind": "circumstance", "against": value}
                        for name, value in self.circumstances.items())
        table.writerows(self.rows)


def write_whole(path, text):
    """Replaces a file; a reader, also after an interruption, finds the old text or the new one."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8", newline="") as out:
        out.write(text)
    os.replace(new, path)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    path = pathlib.Path(sys.argv[1])
    try:
        with open(path, encoding="utf-8", newline="") as file:
            figures = Figures(file.read())
    except (OSError, ValueError) as e:
        raise SystemExit(f"{path}: {e}") from e
    print("\n".join(figures.table() + figures.goals()), flush=True)
    table = io.StringIO(newline="")
    figures.write_csv(table)
    write_whole(path, table.getvalue())
    write_whole(path.with_suffix(".json"), json.dumps(figures.document(), indent=2) + "\n")


if __name__ == "__main__":
    main()
