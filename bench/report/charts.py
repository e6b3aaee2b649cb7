#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the charts of `farcall bench … --html FILE` and `--svg FILE`.

Run as: farcall-bench-charts html|svg < REPORT > FILE, where REPORT is the JSON text of
bench/report/report_json.cpp. A value that is null was not measured.
"""

import html
import json
import math
import re
import sys
import textwrap

WIDTH, EDGE, LEFT, PLOT_HEIGHT, SAMPLE, ROW = 960, 24, 100, 350, 34, 40
SLACK, RATES = 1e-9, ("per_second", "bytes_per_second")
UNITS = {"nanoseconds": "ns µs ms s", "per_second": "/s k/s M/s G/s", "bytes": "B KiB MiB GiB TiB",
         "bytes_per_second": "B/s kB/s MB/s GB/s"}


def number_text(value):
    """Returns three significant digits."""
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def ratio_text(ratio):
    return number_text(ratio) + " x" if math.isfinite(ratio) else "-"


def value_text(unit, value):
    """Returns a measured value with its unit: "187 ns", "1.05 µs", "12.3 GB/s"."""
    if not math.isfinite(value):
        return "-"
    if unit not in UNITS:
        text = f"{value:,.0f}" if unit == "count" and value == math.floor(value) else f"{value:.3g}"
        return text + " %" if unit == "percent" else text
    names, is_bytes = UNITS[unit].split(), unit == "bytes"
    size, step = (math.floor(abs(value) + 0.5), 1024) if is_bytes else (abs(value), 1000)
    while len(names) > 1 and size >= (1024 if is_bytes else 999.5):  # 999.5 has the text of 1000
        size /= step
        del names[0]
    text = f"{size:.{0 if size == math.floor(size) else 1}f}" if is_bytes else number_text(size)
    return f"{'-' if value < 0 else ''}{text} {names[0]}"


def without_zeros(text):
    """Returns the text without zeros at the end of its decimals."""
    return re.sub(r"\.(\d*?)0*(?!\d)", lambda m: "." + m[1] if m[1] else "", text, count=1)


def tick_text(unit, value):
    return without_zeros(value_text(unit, value))


def place(value):
    """Returns a coordinate with at most two decimals; 0 if it is not finite."""
    return without_zeros(f"{value:.2f}") if math.isfinite(value) and abs(value) >= 0.005 else "0"


def xml(text, keeps_lines=False):
    """Returns the text for XML, with U+FFFD in place of control characters."""
    controls = r"(?!\n)" * keeps_lines + "[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
    return html.escape(re.sub(controls, "\ufffd", text))


def wrapped(text, columns):
    """Returns lines of at most so many columns, broken between words; longer words stay whole."""
    return textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)


def text_width(text, size=13):
    """Returns a width that the text does not exceed in usual fonts without serifs."""
    return 0.57 * size * len(text)


def shortened(text, width, size=13):
    """Returns the text, or its beginning with an ellipsis if the text is wider than that."""
    fits = int((width + 0.01) / text_width("n", size))
    return text if len(text) <= fits else text[:max(fits - 1, 0)] + "…"


POWERS = {2: range(-340, 341), 10: range(-102, 103)}
STEPS = {2: [2.0 ** p for p in POWERS[2]], 10: [s * 10.0 ** p for p in POWERS[10] for s in (1, 2, 5)]}


def round_down(value, base):
    return max(s for s in STEPS[base] if s <= value * (1 + SLACK))


def round_up(value, base):
    return next(s for s in STEPS[base] if s >= value * (1 - SLACK))


def linear_ticks(low, high, most, unit, outwards=False):
    """Returns multiples of 1, 2 or 5 times a power of ten, of bytes multiples of a power of two.

    The multiples lie between the two values, or around these if the ticks go `outwards`.
    """
    if not low < high:
        return [low]
    step = round_up((high - low) / (max(most, 2) - 1), 2 if unit == "bytes" else 10)
    if unit == "count":
        step = max(step, 1.0)
    first, last = math.ceil(low / step - SLACK), math.floor(high / step + SLACK)
    if outwards and first < last:
        first, last = math.floor(low / step + SLACK), math.ceil(high / step - SLACK)
    return [i * step for i in range(first, last + 1)] or [low, high]


def log_ticks(base, low, high, most):
    """Returns powers of two or 1, 2, 5 times powers of ten; else each nth power, if space is short."""
    def within(values):
        return [v for v in values if low * (1 - SLACK) <= v <= high * (1 + SLACK)]

    ticks, each = within(STEPS[base]), 0
    while len(ticks) > max(most, 2):
        each += 1
        ticks = within(float(base) ** p for p in POWERS[base] if p % each == 0)
    return ticks if len(ticks) > 1 else [low, high]


class Axis:
    """Maps numbers to places between `begin` and `end`.

    The ends are ticks if the axis is `rounded`, else the first and the last value. A logarithmic axis
    that is not rounded has a place for a measured zero before the smallest other number. The scale
    "suited" is logarithmic from a ratio of 20 on, else linear.
    """

    def __init__(self, described, values, rounded, begin, end, most_ticks):
        # Numbers beyond these leave no space for ends beyond them.
        values = sorted(0.0 if abs(v) < 1e-100 else v for v in values if abs(v) <= 1e100)
        positive = next((v for v in values if v > 0), 0)
        values = values or [0.0, 1.0]
        scale = described["scale"]
        if scale == "suited":
            scale = "log10" if 0 < values[0] * 20 <= values[-1] else "linear"
        self.base = {"log2": 2, "log10": 10}.get(scale) if positive else None
        self.begin, self.end, self.zero_at = begin, end, None
        if not self.base:
            self.low = min(0.0, values[0]) if rounded else values[0]
            self.high = max(self.low, values[-1])
            if self.low == self.high:
                self.high += abs(self.low) / 2 or 1
            self.ticks = linear_ticks(self.low, self.high, most_ticks, described["unit"], rounded)
            if rounded and len(self.ticks) > 1:
                self.low, self.high = self.ticks[0], self.ticks[-1]
        else:
            self.low, self.high = positive, values[-1]
            if rounded:
                self.low, self.high = round_down(self.low, self.base), round_up(self.high, self.base)
            if self.low == self.high:
                self.low, self.high = self.low / 2, self.high * 2
            self.ticks = log_ticks(self.base, self.low, self.high, most_ticks)
            if not rounded and values[0] == 0:
                self.zero_at, self.begin = begin, begin + (end - begin) * 0.06
                self.ticks.insert(0, 0.0)
        if not rounded and values[0] == values[-1]:
            self.ticks = [values[0]]

    def has(self, value):
        """Returns true if the number has a place."""
        return math.isfinite(value) and (
            not self.base or value > 0 or value == 0 and self.zero_at is not None)

    def at(self, value):
        if self.base and value <= 0:
            return self.begin if self.zero_at is None else self.zero_at
        if self.base:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)


class Labels:
    """Finds places (left, top, right, bottom) for labels that hide neither each other nor marks."""

    def __init__(self, area):
        self.area, self.taken, self.lines = area, [], []

    def find(self, candidates, may_lie_on_lines):
        """Takes the first place that is free and within the area; returns None if there is none."""
        for a in candidates:
            is_within = all(sign * (a[i] - self.area[i]) >= 0 for i, sign in enumerate((1, 1, -1, -1)))
            if is_within and not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
                                     for b in self.taken) \
                    and (may_lie_on_lines or not any(self.crosses(line, a) for line in self.lines)):
                self.taken.append(a)
                return a
        return None

    @staticmethod
    def crosses(line, box):
        """Clips the line at each side of the box; returns true if a part is left."""
        (x1, y1), (x2, y2) = line
        first, last = 0.0, 1.0
        for direction, distance in ((x1 - x2, x1 - box[0]), (x2 - x1, box[2] - x1),
                                    (y1 - y2, y1 - box[1]), (y2 - y1, box[3] - y1)):
            if direction < 0:
                first = max(first, distance / direction)
            elif direction > 0:
                last = min(last, distance / direction)
            elif distance < 0:
                return False
        return first <= last


# Colours of Okabe and Ito, darker for white paper, lighter for black; dashes tell series, too.
DASHES = ("none", "8 4", "2 3", "10 3 2 3", "14 4", "5 2", "1 4", "10 3 2 3 2 3")
ON_LIGHT = "#0072b2 #c04a00 #00805c #a8447f #7a6300 #3a8fc4 #5b3fa6 #555555"
ON_DARK = "#5ab4f0 #ff9b52 #3ed6a6 #f2a3cf #e8d44d #a9dcff #bba6f7 #c8c8c8"
MARKS = ((), ((-1, -1), (1, -1), (1, 1), (-1, 1)), ((0, -1.25), (1.2, 0.9), (-1.2, 0.9)),
         ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)), ((0, 1.25), (1.2, -0.9), (-1.2, -0.9)),
         ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2),
          (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)))


def colours(paper, text, muted, grid, floor, series):
    return (f".bg{{fill:{paper}}}.tx,.ti,.la{{fill:{text}}}.la,.fla{{stroke:{paper}}}.mu{{fill:{muted}}}"
            f".gr{{stroke:{grid}}}.ax{{stroke:{muted}}}.fl{{stroke:{floor}}}.ff,.fla{{fill:{floor}}}\n" +
            "".join(f".l{i}{{stroke:{c}}}.f{i}{{fill:{c};stroke:{paper}}}"
                    for i, c in enumerate(series.split())) + "\n")


STYLE = f"""text{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
font-size:13px}}
.ti{{font-size:18px;font-weight:600}}.mu{{font-size:12px}}.mk{{stroke-width:1}}
.la,.fla{{font-size:11.5px;paint-order:stroke;stroke-width:3px;stroke-linejoin:round;\
font-variant-numeric:tabular-nums}}.fla{{font-weight:600}}
polyline{{fill:none}}.gr,.ax{{stroke-width:1}}.ln{{stroke-width:2;stroke-linejoin:round}}
.er{{stroke-width:1.5;stroke-opacity:.6}}.fl{{stroke-width:2;stroke-dasharray:6 4}}
.ft{{stroke-width:3;stroke-dasharray:none}}.fb{{stroke:none;fill-opacity:.1}}\
.ov{{stroke:none;fill-opacity:.22}}
{"".join(f".l{i}.ln{{stroke-dasharray:{d}}}" for i, d in enumerate(DASHES))}
{colours("#ffffff", "#1b1f24", "#5b6470", "#e4e7eb", "#6b7280", ON_LIGHT)}\
@media (prefers-color-scheme:dark){{
{colours("#12161b", "#e8ebef", "#a4adb8", "#2b323b", "#9aa4b1", ON_DARK)}}}
"""


class Canvas:
    """Shapes of SVG, whose looks are classes of STYLE."""

    markup = ""

    def path(self, look, *points, name="polyline"):
        if len(points) > 1:
            places = " ".join(f"{place(x)},{place(y)}" for x, y in points)
            self.markup += f'<{name} points="{places}" class="{look}"/>\n'

    def text(self, x, y, anchor, look, words, turned=""):
        where = f'transform="translate({place(x)} {place(y)}) rotate(-90)"' if turned else \
            f'x="{place(x)}" y="{place(y)}"'
        self.markup += f'<text {where} text-anchor="{anchor}" class="{look}">{xml(words)}</text>\n'

    def mark(self, x, y, series):
        """Draws the mark of the series with that number: shape and colour."""
        look = f"f{series % len(DASHES)} mk"
        if corners := MARKS[series % len(MARKS)]:
            self.path(look, *((x + 4 * a, y + 4 * b) for a, b in corners), name="polygon")
        else:
            self.markup += f'<circle cx="{place(x)}" cy="{place(y)}" r="4" class="{look}"/>\n'

    def bar(self, look, low, high, across, cap, flip, goes_on=False):
        """Draws a bar along the x axis, or if `flip` the y axis; an arrow if it goes on."""
        back = math.copysign(5, low - high) if goes_on else 0
        for line in (((low, 0), (high, 0)), ((low, -cap), (low, cap)),
                     ((high + back, -cap), (high, 0), (high + back, cap))):
            self.path(look, *((across + b, a) if flip else (a, across + b) for a, b in line))


class Point:
    """A figure at an x, with its percentiles and the median of its floor."""

    def __init__(self, *values):
        self.at, self.p1, self.p50, self.p99, self.floor, self.samples = (
            math.nan if v is None else float(v) for v in values)

    def ratio(self, unit):
        """Returns how many times as long as its floor the figure takes; of rates, the inverse."""
        if not (0 < self.p50 < math.inf and 0 < self.floor < math.inf):
            return math.nan
        return self.floor / self.p50 if unit in RATES else self.p50 / self.floor

    def reach(self):
        """Returns the values that an axis shows; the axis truncates long bars."""
        return self.p50, min(max(self.p99, self.p50), 2 * self.p50), max(self.p1, self.p50 / 2)


class Series:
    def __init__(self, described):
        self.name, self.role = described["name"], described["role"]
        self.remark = described.get("remark", "")
        self.points = [Point(*p) for p in described["points"]]

    def overheads(self, unit):
        """Returns "1.07 x" or "1.02 to 1.31 x", the least and the largest ratio to the floor."""
        ratios = [r for r in (p.ratio(unit) for p in self.points) if math.isfinite(r)]
        texts = dict.fromkeys(number_text(r) for r in (min(ratios), max(ratios))) if ratios else []
        return " to ".join(texts) + " x" * bool(ratios)


class Chart(Canvas):
    def __init__(self, described):
        self.described, self.title, self.is_rows = described, described["title"], "y" not in described
        self.x_title, self.x_unit = described["x"]["title"], described["x"]["unit"]
        self.unit = described["x" if self.is_rows else "y"]["unit"]
        self.series = [Series(s) for s in described["series"]]

    def head(self, subtitle):
        """Draws title and subtitle; returns where the legend is."""
        self.text(24, 24, "start", "ti", self.title)
        lines = wrapped(subtitle, 126)
        for i, line in enumerate(lines):
            self.text(24, 43 + 19 * i, "start", "mu", line)
        return 50 + 19 * len(lines)

    def draw_x_axis(self, axis, left, right, bottom, tick_looks, title_at):
        """Draws the axis, its title and the texts of ticks that have space."""
        free_from = 0
        for tick in axis.ticks:
            at, text = axis.at(tick), tick_text(self.x_unit, tick)
            half = text_width(text, 12) / 2
            self.path(tick_looks[0], (at, bottom), (at, tick_looks[1]))
            if at - half >= free_from:
                self.text(at, bottom + 19, "middle", "mu", text)
                free_from = at + half + 8
        self.path("ax", (left, bottom), (right, bottom))
        self.text((left + right) / 2, bottom + 42, "middle", "tx", title_at)

    def words(self):
        """Describes the chart for people who cannot see it."""
        y_title = "" if self.is_rows else f"{self.described['y']['title']} against "
        words = f"{y_title}{self.x_title}, medians."
        for s in self.series:
            ends = [value_text(self.unit, p.p50) +
                    ("" if self.is_rows else " at " + tick_text(self.x_unit, p.at))
                    for p in s.points if math.isfinite(p.p50)]
            ratio = s.overheads(self.unit)
            words += f" {s.name}: " + (" to ".join(ends[:1] + ends[1:][-1:]) or "not measured")
            words += f", {ratio} its floor." if ratio else "."
        return words

    def table(self):
        def row(first, p, *others):
            texts = [value_text(self.unit, v) for v in (p.p1, p.p50, p.p99, p.floor)]
            return f'<tr><th scope="row">{xml(first)}</th>' + "".join(
                f"<td>{xml(t)}</td>" for t in (*texts, ratio_text(p.ratio(self.unit)), *others)) + "</tr>\n"

        headers = [self.x_title, "p1", "p50", "p99", "floor", "to floor", "remark"][:7 if self.is_rows else 6]
        out = "".join(f'<th scope="col">{xml(h)}</th>' for h in headers)
        out = f"<thead><tr>{out}</tr></thead>\n"
        if self.is_rows:
            rows = "".join(row(s.name, s.points[0], s.remark) for s in self.series)
            return f"{out}<tbody>\n{rows}</tbody>\n"
        for s in self.series:
            rows = "".join(row(tick_text(self.x_unit, p.at), p) for p in s.points)
            out += (f'<tbody><tr><th scope="rowgroup" colspan="6">{xml(s.name)}</th></tr>\n'
                    f"{rows}</tbody>\n")
        return out


class LineChart(Chart):
    """Figures against a number: lines through medians, with bars from p1 to p99."""

    def __init__(self, described):
        super().__init__(described)
        self.figures = [s for s in self.series if s.role == "figure"]
        self.floors = [s for s in self.series if s.role == "floor"]
        # The floor, if it is the same everywhere.
        floors = {p.p50 for s in self.floors for p in s.points}
        floor = floors.pop() if len(floors) == 1 and self.unit not in RATES else math.nan
        self.floor = floor if floor > 0 else math.nan
        self.right = WIDTH - (78 if floor > 0 else 28)

    def draw(self):
        """Returns the shapes and their height."""
        self.top = self.draw_head()
        self.bottom = self.top + PLOT_HEIGHT
        xs = [p.at for s in self.series for p in s.points]
        ys = [y for s in self.series for p in s.points
              for y in ([p.p50] if s.role == "published" else p.reach())]
        self.x = Axis(self.described["x"], xs, False, LEFT + 40, self.right - 62, 12)
        self.y = Axis(self.described["y"], ys, True, self.bottom, self.top, 8)
        self.labels = Labels((LEFT + 2, self.top + 1, self.right - 2, self.bottom - 1))
        self.draw_axes()
        for s in self.floors:
            self.draw_floor([p for p in s.points if self.has(p)])
        for i, s in enumerate(self.series):
            if s.role != "floor":
                self.draw_series(i, s)
        self.label_floors()
        self.label_points()
        return self.markup, self.bottom + 56

    def draw_head(self):
        """Draws title, subtitle and legend; returns where the plot begins."""
        key = "Lines are medians, bars go from the 1st to the 99th percentile."
        has_bars = any(p.p1 < p.p99 for s in self.series for p in s.points)
        x, y = 24, self.head(f"{self.described['subtitle']} {key if has_bars else ''}")
        for i, s in enumerate(self.series):
            ratio = s.overheads(self.unit)
            text = shortened(f"{s.name} ({ratio} floor)" if ratio else s.name, WIDTH - 88)
            width = SAMPLE + text_width(text) + 26
            if x > 24 and x + width > WIDTH - 10:
                x, y = 24, y + 21
            look = "fl" if s.role == "floor" else f"l{i % len(DASHES)} ln"
            self.path(look, (x, y - 4), (x + SAMPLE, y - 4))
            if s.role != "floor":
                self.mark(x + SAMPLE / 2, y - 4, i)
            self.text(x + SAMPLE + 8, y, "start", "tx", text)
            x += width
        return y + 18

    def draw_axes(self):
        for tick in self.y.ticks:
            y = self.y.at(tick)
            self.path("gr", (LEFT, y), (self.right, y))
            self.text(LEFT - 8, y + 4, "end", "mu", tick_text(self.unit, tick))
        bottom, middle = self.bottom, self.top + PLOT_HEIGHT / 2
        self.draw_x_axis(self.x, LEFT, self.right, bottom, ("ax", bottom + 5), self.x_title)
        if self.x.zero_at is not None:  # The axis is broken between zero and the logarithms.
            at = (self.x.zero_at + self.x.begin) / 2
            for x in (at - 5, at + 1):
                self.path("ax", (x, bottom + 5), (x + 4, bottom - 5))
        title = self.described["y"]["title"] + ", logarithmic" * bool(self.y.base)
        self.text(20, middle, "middle", "tx", title, "turned")
        if math.isfinite(self.floor):
            ends = self.y.low / self.floor, self.y.high / self.floor
            for tick in log_ticks(10, *ends, 8) if self.y.base else linear_ticks(*ends, 8, "ratio"):
                y = self.y.at(tick * self.floor)
                self.path("ax", (self.right, y), (self.right + 5, y))
                self.text(self.right + 9, y + 4, "start", "mu", tick_text("count", tick) + " x")
            self.text(WIDTH - 8, middle, "middle", "tx", "times the floor", "turned")

    def has(self, p):
        return self.x.has(p.at) and self.y.has(p.p50)

    def at(self, p, series):
        """Returns the place of a point: series at one x stand beside each other."""
        x, others = self.x.at(p.at), len(self.figures) - 1
        if series in self.figures and others > 0:
            x += min(4 * others, 20) * (self.figures.index(series) / others - 0.5)
        return x, self.y.at(p.p50)

    def draw_line(self, look, line):
        self.path(look, *line)
        self.labels.lines += zip(line, line[1:])

    def draw_floor(self, points):
        line = [(self.x.at(p.at), self.y.at(p.p50)) for p in points]
        if len(line) == 1:
            line = [(LEFT, line[0][1]), (self.right, line[0][1])]
        spread = [p for p in points if self.y.has(p.p1) and self.y.has(p.p99)]
        if len(spread) > 1:
            self.path("ff fb", *((self.x.at(p.at), self.y.at(p.p99)) for p in spread),
                      *((self.x.at(p.at), self.y.at(p.p1)) for p in reversed(spread)), name="polygon")
        self.draw_line("fl", line)

    def draw_series(self, i, series):
        line, look = [], f"l{i % len(DASHES)} ln"
        for p in series.points:
            if self.has(p):
                line.append(self.at(p, series))
            else:  # A gap stands for a figure that was not measured.
                self.draw_line(look, line)
                line = []
        self.draw_line(look, line)
        for p in filter(self.has, series.points):
            x, y = self.at(p, series)
            p1, p50, p99 = (value_text(self.unit, v) for v in (p.p1, p.p50, p.p99))
            title = f"{series.name}, {tick_text(self.x_unit, p.at)}: {p50}" + \
                f" (p1 {p1}, p99 {p99})" * (p.samples > 1)
            if math.isfinite(p.ratio(self.unit)):
                title += f", {ratio_text(p.ratio(self.unit))} its floor"
            self.markup += f"<g><title>{xml(title, keeps_lines=True)}</title>\n"
            if p.p1 < p.p99:
                low, high = self.y.at(p.p1), self.y.at(p.p99)
                self.bar(f"l{i % len(DASHES)} er", low, high, x, 3, True, p.p99 > self.y.high)
                self.labels.lines.append(((x, low), (x, high)))
            self.mark(x, y, i)
            self.markup += "</g>\n"
            self.labels.taken.append((x - 5, y - 5, x + 5, y + 5))

    def put_label(self, look, text, candidates, may_lie_on_lines):
        box = self.labels.find(candidates, may_lie_on_lines)
        if box:
            self.text((box[0] + box[2]) / 2, box[3] - 3, "middle", look, text)
        return box

    def label_floors(self):
        for s in self.floors:
            text = f"floor {value_text(self.unit, self.floor)}" if math.isfinite(self.floor) else s.name
            width, candidates = text_width(text, 11.5), []
            for p in filter(self.has, (s.points[-1:] + s.points[:1])):
                left = min(max(self.x.at(p.at) - width / 2, LEFT + 4), self.right - width - 4)
                candidates += [(left, y, left + width, y + 14)
                               for y in (self.y.at(p.p50) + 4, self.y.at(p.p50) - 18)]
            self.put_label("fla", text, candidates, False) or self.put_label("fla", text, candidates, True)

    def label_points(self):
        """Labels the ends of all lines first, then points between these as far as there is space."""
        turns = ([], [], [])
        for s in self.series:
            points = [p for p in s.points if self.has(p)] if s.role != "floor" else []
            for k, p in enumerate(points):
                turns[0 if k + 1 == len(points) else 1 if k == 0 else 2].append((p, s))
        for turn, (p, s) in ((turn, point) for turn in (0, 1, 2) for point in turns[turn]):
            text, (x, y) = value_text(self.unit, p.p50), self.at(p, s)
            half = text_width(text, 11.5) / 2
            above, below, right, left = [(x + dx - half, y + dy - 7, x + dx + half, y + dy + 7)
                                         for dx, dy in ((0, -14), (0, 14), (8 + half, 0), (-8 - half, 0))]
            first, third = (right, above) if turn == 0 else (above, right)
            may_lie_on_lines = turn < 2 or len(self.figures) == 1
            if not self.put_label("la", text, (first, below, third, left), False) and may_lie_on_lines:
                self.put_label("la", text, (above, below, right, left), True)


class RowChart(Chart):
    """Figures below each other, each beside its own floor; each is a series of one point."""

    def __init__(self, described):
        super().__init__(described)
        self.has_floors = any(math.isfinite(s.points[0].floor) for s in self.series)
        self.names = EDGE + min(max([60, *(text_width(s.name) for s in self.series)]), 330)
        self.begin, self.end = self.names + 18, WIDTH - (186 if self.has_floors else 108)

    def draw(self):
        top = self.draw_head()
        bottom = top + ROW * len(self.series)
        values = [v for s in self.series for v in (s.points[0].floor, *s.points[0].reach())]
        self.x = Axis(self.described["x"], values, True, self.begin, self.end - 6,
                      int(max(3, (self.end - self.begin) / 62)))
        self.draw_x_axis(self.x, self.begin, self.end, bottom, ("gr", top),
                         self.x_title + ", logarithmic" * bool(self.x.base))
        for i, s in enumerate(self.series):
            self.draw_row(s, s.points[0], top + ROW * (i + 0.5))
        return self.markup, bottom + 56

    def draw_head(self):
        """Draws title, subtitle and the meaning of the shapes; returns where the rows begin."""
        y = self.head(self.described["subtitle"])
        x, middle = EDGE, y - 4
        key = [(14, "median", lambda: self.mark(x + 4, middle, 0)),
               (32, "1st to 99th percentile", lambda: self.bar("l0 er", x, x + 24, middle, 4, False))]
        if self.has_floors:
            key += [(10, "floor of the figure", lambda: self.path("fl ft", (x + 2, y - 12), (x + 2, y + 4))),
                    (32, "between the two", lambda: self.draw_overhead(x, x + 24, middle))]
        for width, text, draw in key:
            draw()
            self.text(x + width, y, "start", "mu", text)
            x += width + text_width(text, 12) + 22
        self.draw_columns(y, "mu", "p50", "to floor")
        return y + 8

    def draw_columns(self, y, look, value, ratio):
        self.text(self.end + 80, y, "end", look, value)
        if self.has_floors:
            self.text(self.end + 162, y, "end", look, ratio)

    def draw_overhead(self, left, right, middle):
        self.path("f0 ov", (left, middle - 6), (right, middle - 6), (right, middle + 6),
                  (left, middle + 6), name="polygon")

    def draw_row(self, s, p, middle):
        words = f"{s.name}: {s.remark}"
        if math.isfinite(p.p50):
            p1, p50, p99, floor = (value_text(self.unit, v) for v in (p.p1, p.p50, p.p99, p.floor))
            words = f"{s.name}: {p50} (p1 {p1}, p99 {p99})" + \
                f", floor {floor}" * math.isfinite(p.floor) + f"; {s.remark}" * bool(s.remark)
        self.markup += f"<g><title>{xml(words, keeps_lines=True)}</title>\n"
        lines = wrapped(s.name, int((self.names - EDGE) / text_width("n") + 0.01))[:2]
        for i, line in enumerate(lines):
            self.text(self.names, middle + 12 - 8 * len(lines) + 16 * i, "end", "tx",
                      shortened(line, self.names - EDGE))
        if self.x.has(p.floor) and math.isfinite(p.p50):
            if self.x.has(p.p50):
                self.draw_overhead(*(self.x.at(v) for v in sorted((p.floor, p.p50))), middle)
            self.path("fl ft", *((self.x.at(p.floor), middle + dy) for dy in (-12, 12)))
        if self.x.has(p.p50):
            if p.p1 < p.p99:
                ends = self.x.at(p.p1), self.x.at(p.p99)
                self.bar("l0 er", *ends, middle, 4, False, p.p99 > self.x.high)
            self.mark(self.x.at(p.p50), middle, 0)
        if math.isfinite(p.p50):
            self.draw_columns(middle + 4, "tx", p50, ratio_text(p.ratio(self.unit)))
        else:
            why = shortened("not measured" + f": {s.remark}" * bool(s.remark), 928 - self.begin, 12)
            self.text(self.begin + 8, middle + 4, "start", "mu", why)
        self.markup += "</g>\n"


def chart_of(described):
    return (LineChart if "y" in described else RowChart)(described)


NAMES = 'xmlns="http://www.w3.org/2000/svg"'
PAGE_STYLE = """:root{color-scheme:light dark}
body{margin:0 auto;max-width:1040px;padding:24px 20px 48px;line-height:1.5;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
background:#ffffff;color:#1b1f24}
h1{font-size:1.7rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.2rem 0 .5rem}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);\
white-space:nowrap}section{margin-top:1.6rem}
p{margin:.25rem 0 .75rem}ul{padding-left:1.2rem}
figure{margin:0;overflow-x:auto;border:1px solid #d5dae0;border-radius:8px}
figure svg{display:block;width:100%;min-width:640px;height:auto}
details{margin:.5rem 0}summary{cursor:pointer}.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
caption{text-align:left;padding:.4rem 0}
th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d5dae0}
th[scope=row],th[scope=rowgroup],th:first-child,th:nth-child(7),td:nth-child(7){text-align:left}
th[scope=col],td{white-space:nowrap}td:nth-child(7){white-space:normal}
th[scope=row]{font-weight:400}
@media (prefers-color-scheme:dark){body{background:#0b0e12;color:#e8ebef}figure,th,td{border-color:#2b323b}}
@media print{figure{border:0;break-inside:avoid}}
"""


def section(described, number):
    chart = chart_of(described)
    markup, height = chart.draw()
    title = xml(chart.title)
    return f"""<section><h2 class="unseen">{title}</h2><figure>
<svg {NAMES} viewBox="0 0 {WIDTH} {place(height)}" role="img" aria-labelledby="t{number} d{number}">
<title id="t{number}">{title}</title>
<desc id="d{number}">{xml(chart.words())}</desc>
<rect width="{WIDTH}" height="{place(height)}" class="bg"/>
{markup}</svg></figure>
<details><summary>All figures of this chart</summary><div class="wide">
<table><caption>{title}</caption>
{chart.table()}</table></div></details></section>
"""


def listed(lines):
    return "<ul>\n" + "".join(f"<li>{xml(line)}</li>\n" for line in lines if line) + "</ul>\n"


def html_page(report):
    """Returns an HTML document that loads nothing: charts, a table of all figures, circumstances."""
    left_out = "<h2>Not measured</h2>\n" + listed(report["left_out"]) if report["left_out"] else ""
    return f"""<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<link rel="icon" href="data:,"/><title>{xml(report["title"])}</title>
<style>
{PAGE_STYLE}{STYLE}</style></head>
<body><header><h1>{xml(report["title"])}</h1><p>{xml(report["text"])}</p></header>
<main><p>"To floor" says how many times as long as its floor a figure takes; of rates, how many times as \
much the floor gives. The floor was measured in the same run.</p>
{"".join(section(c, i + 1) for i, c in enumerate(report["charts"]))}{left_out}<h2>Circumstances</h2>
{listed(report["circumstances"].splitlines())}</main></body>
</html>
"""


def svg_picture(report):
    """Returns one SVG picture of all charts, one below the other."""
    head, foot, charts, words, y = Canvas(), Canvas(), "", report["text"], 76
    head.text(24, 34, "start", "ti", report["title"])
    head.text(24, 54, "start", "mu", report["text"])
    for chart in map(chart_of, report["charts"]):
        markup, height = chart.draw()
        charts += f'<svg y="{place(y)}" width="{WIDTH}" height="{place(height)}">\n{markup}</svg>\n'
        y += height + 28
        words += f" {chart.title}: {chart.words()}"
    foot.path("gr", (24, y - 14), (WIDTH - 24, y - 14))
    for line in report["circumstances"].splitlines() + ["not measured: " + why for why in report["left_out"]]:
        for part in wrapped(line, 125):
            foot.text(24, y + 4, "start", "mu", part)
            y += 17
    height = place(y + 8)
    return f"""<svg {NAMES} viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" \
aria-labelledby="title description">
<title id="title">{xml(report["title"])}</title>
<desc id="description">{xml(words)}</desc>
<style>
{STYLE}</style>
<rect width="{WIDTH}" height="{height}" class="bg"/>
{head.markup}{charts}{foot.markup}</svg>
"""


DRAWINGS = {"html": html_page, "svg": svg_picture}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in DRAWINGS:
        raise SystemExit(__doc__)
    sys.stdout.buffer.write(DRAWINGS[sys.argv[1]](json.load(sys.stdin.buffer)).encode())


if __name__ == "__main__":
    main()
