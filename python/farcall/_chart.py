# SPDX-License-Identifier: Apache-2.0
"""Draws figures as bars, in SVG that is readable on light and dark pages."""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH = 860
_LABELS = 330  # width of the names
_BARS = 420  # width of the longest bar
_LINE = 20
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 16px }
  .group { font-weight: 600 }
  .farcall { fill: #0a69c7 }
  .other { fill: #a0a8b2 }
  .value { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .farcall { fill: #4ea3ff }
    .other { fill: #6b7480 }
    .value { fill: #9aa4af }
  }
"""


class Figure(NamedTuple):
    """A measured figure. The median is infinite if something has not ended, and no number if it was not measured."""

    name: str
    median: float
    least: float
    is_farcall: bool
    goal: str = ""
    note: str = ""


def reason(figure: Figure) -> str:
    """Says why there is no number."""
    return figure.note if math.isnan(figure.median) else "does not end"


def _length(value: float, low: float, high: float) -> float:
    """Returns the length of a bar, which is proportional to the logarithm."""
    return 8 + (_BARS - 8) * math.log(value / low) / math.log(high / low) if value > low else 8


def text_of(value: float) -> str:
    """Returns a number with three digits."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{min(digits, 3)}f}"


def drawn(title: str, groups: list[tuple[str, list[Figure]]]) -> str:
    """Returns a picture. Each group has a scale of its own, on which each tenfold has the same length."""
    parts = []
    y = 30
    parts.append(f'<text class="title" x="10" y="{y}">{escape(title)}</text>')
    for name, figures in groups:
        y += 34
        parts.append(f'<text class="group" x="10" y="{y}">{escape(name)} (logarithmic)</text>')
        medians = [figure.median for figure in figures if math.isfinite(figure.median) and figure.median > 0]
        low = min(medians, default=1) / 2
        high = max(medians, default=1) * 1.01
        for figure in figures:
            y += _LINE
            parts.append(f'<text x="{_LABELS - 8}" y="{y}" text-anchor="end">{escape(figure.name)}</text>')
            is_measured = math.isfinite(figure.median)
            length = _length(figure.median, low, high) if is_measured else 0
            kind = "farcall" if figure.is_farcall else "other"
            if is_measured:
                parts.append(
                    f'<rect class="{kind}" x="{_LABELS}" y="{y - 11}" width="{length:.1f}" height="13" rx="2"/>')
            value = text_of(figure.median) if is_measured else reason(figure)
            parts.append(f'<text class="value" x="{_LABELS + length + 6:.1f}" y="{y}">{escape(value)}</text>')
    body = "\n".join(parts)
    height = y + 20
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n{body}\n</svg>\n')
