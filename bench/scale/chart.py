"""The chart that predict.py draws, as SVG with both axes logarithmic.

Benchmarks draw what they measure themselves (--svg, by bench/report); a prediction is measured by none.
"""

import math
from html import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 30, 66, 56
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito's, which all can tell apart


def nanoseconds_text(value):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} ns"


def decimal_ticks(low, high):
    """1, 2 and 5 times each power of ten, or the powers alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [s * 10**p for p in powers for s in steps if low <= s * 10**p <= high]


class Axis:
    """From numbers to places, by their logarithms."""

    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin = low, high, begin
        self.scale = (end - begin) / (math.log(high) - math.log(low))

    def at(self, value):
        return self.begin + (math.log(value) - math.log(self.low)) * self.scale


def line_chart(title, subtitle, x_label, y_label, series, y_text, x_text):
    """The text of an SVG. `series`: (name, [(x, y), ...]) each; `y_text` and `x_text` write values."""
    points = [p for _, line in series for p in line]
    y_low, y_high = min(y for _, y in points), max(y for _, y in points)
    x = Axis(min(p[0] for p in points), max(p[0] for p in points), LEFT, WIDTH - RIGHT)
    y = Axis(y_low / 1.3, y_high * 1.3, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="14" font-weight="bold">{escape(title)}</text>',
           f'<text x="{LEFT}" y="34" fill="#555">{escape(subtitle)}</text>']
    for tick in decimal_ticks(y.low, y.high):
        at = y.at(tick)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y_text(tick)}</text>')
    for tick in decimal_ticks(x.low, x.high):
        at = x.at(tick)
        out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" '
                   f'text-anchor="middle">{x_text(tick)}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" '
               f'stroke="#333"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle:.0f}" y="{HEIGHT - 16}" text-anchor="middle">'
               f'{escape(x_label)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(f'<text x="16" y="{middle:.0f}" text-anchor="middle" '
               f'transform="rotate(-90 16 {middle:.0f})">{escape(y_label)}</text>')
    for n, (name, line) in enumerate(series):
        colour = COLOURS[n % len(COLOURS)]
        places = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line)
        out.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.extend(f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="2.5" fill="{colour}"/>'
                   for a, b in line)
        at = LEFT + n * (WIDTH - LEFT - RIGHT) / len(series)
        out.append(f'<path d="M{at:.0f} {TOP - 16}h20" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{at + 26:.0f}" y="{TOP - 12}">{escape(name)}</text>')
    return "\n".join(out) + "\n</svg>\n"
