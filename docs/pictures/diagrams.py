#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the diagrams of the pages, or checks that the files are current: diagrams.py [--check]

Each function below draws one file in docs/pictures/. Readers see the picture in light or in dark colours, as their
system asks for.
"""

import pathlib
import sys
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
STYLE = """\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:14px}
.m{text-anchor:middle}.e{text-anchor:end}.b{font-weight:600}.s{font-size:12.5px}
.k{font-family:ui-monospace,'SF Mono','DejaVu Sans Mono',monospace;font-size:13px}
.bg{fill:#fff}.t{fill:#1b1f24}.q{fill:#5b6470}.on{fill:#fff}
.panel{fill:#f4f6f8;stroke:#cfd5dc}.box{fill:#fff;stroke:#8d97a3}.host{fill:#0072b2}.target{fill:#c04a00}
.reply{fill:#00805c}.free{fill:#e4e7eb;stroke:#cfd5dc}
.line{fill:none;stroke:#5b6470;stroke-width:1.6}.a{stroke:#0072b2}.r{stroke:#00805c}.w{stroke:#c04a00}
.dash{stroke-dasharray:5 4}.ha{fill:#0072b2}.hr{fill:#00805c}.hl{fill:#5b6470}.hw{fill:#c04a00}
@media (prefers-color-scheme:dark){
.bg{fill:#12161b}.t{fill:#e8ebef}.q{fill:#a4adb8}.on{fill:#0d1116}
.panel{fill:#1a2027;stroke:#3a434e}.box{fill:#12161b;stroke:#7b8694}.host{fill:#5ab4f0}.target{fill:#ff9b52}
.reply{fill:#3ed6a6}.free{fill:#2b323b;stroke:#3a434e}
.line{stroke:#a4adb8}.a{stroke:#5ab4f0}.r{stroke:#3ed6a6}.w{stroke:#ff9b52}.ha{fill:#5ab4f0}.hr{fill:#3ed6a6}
.hl{fill:#a4adb8}.hw{fill:#ff9b52}}
"""
HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse" '
    f'markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z" class="h{name}"/></marker>' for name in "arlw")


class Drawing:
    """A picture that grows by boxes, texts and arrows."""

    def __init__(self, width, height, title, description):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-labelledby="title description">\n<title id="title">{escape(title)}</title>\n'
            f'<desc id="description">{escape(description)}</desc>\n<style>\n{STYLE}</style>\n<defs>{HEADS}</defs>\n'
            f'<rect width="{width}" height="{height}" class="bg"/>']

    def text(self, x, y, content, kind="t"):
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}">{escape(content)}</text>')

    def box(self, x, y, width, height, kind="box", label="", text="t"):
        """Draws a box with a label in its middle, in which "|" ends a line."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" class="{kind}"/>')
        lines = label.split("|") if label else []
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, round(top + 18 * number), line, f"{text} m")

    def arrow(self, path, kind="l", more="", both=False):
        """Draws an arrow along the points of `path`."""
        points = "L".join(f"{x} {y}" for x, y in path)
        start = f' marker-start="url(#{kind})"' if both else ""
        self.parts.append(f'<path d="M{points}" class="line {kind} {more}" marker-end="url(#{kind})"{start}/>')

    def line(self, path, more=""):
        points = "L".join(f"{x} {y}" for x, y in path)
        self.parts.append(f'<path d="M{points}" class="line {more}"/>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>\n"])


def call():
    d = Drawing(720, 252, "The time of a call",
                "The host writes a request into memory that the target polls; the target runs the function and writes "
                "the reply. The host may compute until it needs the result.")
    for y, name, about in ((54, "host", "runs main()"), (154, "target", "polls its ring")):
        d.text(18, y + 18, name, "t b")
        d.text(18, y + 36, about, "q s")
        d.line([(118, y + 44), (702, y + 44)])
    d.text(120, 34, "auto f = fc::async(target, sum, data);", "t k")
    d.box(120, 60, 92, 34, "host", "send", "on")
    d.box(214, 60, 276, 34, "free", "computes meanwhile, or waits", "q")
    d.text(492, 34, "f.get()", "t k")
    d.box(492, 60, 92, 34, "host", "take", "on")
    d.box(586, 60, 112, 34, "free", "", "q")
    d.box(120, 160, 118, 34, "free", "polls", "q")
    d.box(240, 160, 166, 34, "target", "runs sum(data)", "on")
    d.box(408, 160, 70, 34, "reply", "reply", "on")
    d.box(480, 160, 218, 34, "free", "polls, and later sleeps", "q")
    d.arrow([(206, 96), (240, 157)], "a")
    d.text(232, 130, "a cache line", "q s")
    d.arrow([(470, 158), (498, 97)], "r")
    d.text(496, 138, "a cache line", "q s")
    d.text(120, 232, "Both processes see the same memory, and both poll: the call needs no system call.", "q s")
    return d


def architecture():
    d = Drawing(720, 470, "Parts of a job",
                "Host and target with their threads. Two rings make a lane; calls back have lanes of their own; a control "
                "socket joins the failure detectors; copies go through shared memory.")
    for x, name in ((12, "host, node 0"), (448, "target, node 1")):
        d.box(x, 12, 260, 446, "panel")
        d.text(x + 14, 36, name, "t b")
    d.box(26, 50, 232, 122)
    d.text(38, 72, "user thread", "t b s")
    d.text(38, 96, "async(node, f, x)", "t k")
    d.text(38, 116, "packs, commits", "q s")
    d.text(38, 142, "future.get()", "t k")
    d.text(38, 161, "unpacks the result", "q s")
    d.box(462, 50, 232, 122)
    d.text(474, 72, "worker 0, the main thread", "t b s")
    d.text(474, 98, "handler: unpacks, runs f", "q s")
    d.text(474, 152, "commits the reply", "q s")
    d.box(282, 82, 156, 32, "box", "request ring", "t s")
    d.arrow([(258, 98), (280, 98)], "a")
    d.arrow([(438, 98), (460, 98)], "a")
    d.box(282, 134, 156, 32, "box", "reply ring", "t s")
    d.arrow([(462, 150), (440, 150)], "r")
    d.arrow([(282, 150), (260, 150)], "r")
    d.text(360, 72, "a lane", "t b m s")
    d.box(26, 190, 232, 62, "box", "worker of the host:|calls from targets", "t s")
    d.box(462, 190, 232, 62, "box", "a handler that calls|the host or a target", "t s")
    d.arrow([(462, 221), (260, 221)], "w")
    d.text(360, 213, "lanes of targets", "q m s")
    d.box(26, 270, 232, 76, "box", "failure detector:|waits for the end of targets|(pidfd) and for notices", "t s")
    d.box(462, 270, 232, 76, "box", "failure detector:|waits for the end|of the host", "t s")
    d.arrow([(260, 308), (460, 308)], "l", "dash", True)
    d.text(360, 300, "control socket", "q m s")
    d.box(26, 364, 232, 80, "box", "user thread, copy thread:|put, get, copy, map", "t s")
    d.box(462, 364, 232, 80, "box", "heap: a segment that is|mapped by its users", "t s")
    d.arrow([(260, 404), (460, 404)], "l", "", True)
    d.text(360, 396, "memcpy", "q m s")
    return d


def lane():
    d = Drawing(720, 372, "A lane",
                "Each of the two rings has one sender and one receiver. Records follow each other, and a commit word of "
                "zero ends them. The receiver publishes the position up to which it has read.")
    d.text(18, 30, "requester: a thread of the caller", "t b s")
    d.text(702, 30, "responder: a worker of the target", "t b s e")
    rings = ((84, "request ring", "request", "host", "a"), (244, "reply ring", "reply", "reply", "r"))
    for y, name, word, colour, arrow in rings:
        # Requests go to the right, replies to the left.
        xs = [124 + 96 * number for number in range(5)]
        if word == "reply":
            xs.reverse()
        d.box(116, y, 488, 64, "panel")
        d.text(360, y - 10, name, "t b m s")
        for number in (2, 1, 0):
            d.box(xs[number], y + 9, 88, 46, colour, f"{word} {5 - number}", "on s")
        for number in (3, 4):
            d.box(xs[number], y + 9, 88, 46, "free", "read", "q s")
        if word == "request":
            d.arrow([(18, y + 32), (114, y + 32)], arrow)
            d.arrow([(606, y + 32), (702, y + 32)], arrow)
            d.text(18, y + 22, "commits", "q s")
            d.text(702, y + 22, "reads", "q s e")
        else:
            d.arrow([(702, y + 32), (606, y + 32)], arrow)
            d.arrow([(114, y + 32), (18, y + 32)], arrow)
            d.text(702, y + 22, "commits", "q s e")
            d.text(18, y + 22, "reads", "q s")
        at = xs[3] + (-4 if word == "request" else 92)
        d.arrow([(at, y + 84), (at, y + 66)], "l")
        d.text(at, y + 98, "consumed: the receiver has read up to here", "q m s")
    return d


def life():
    d = Drawing(720, 574, "The life of a call",
                "Ten steps of a call, in the caller's thread, in the two rings, and in a worker of the target.")
    columns = ((18, 208, "caller's thread"), (256, 208, "memory that both see"), (494, 208, "worker of the target"))
    for x, width, name in columns:
        d.box(x, 14, width, 34, "panel", name, "t b s")
        d.line([(x + width / 2, 48), (x + width / 2, 556)], "dash")

    def step(column, y, label, kind="box", text="t s", height=44):
        x, width, _ = columns[column]
        d.box(x, y, width, height, kind, label, text)

    step(0, 62, "1  finds the lane to the node,|or opens one")
    step(0, 116, "2  looks up the key of f")
    step(0, 170, "3  locks the lane,|takes a pending call")
    step(0, 224, "4  packs the arguments|in place, commits", "host", "on s")
    step(1, 252, "request ring: the record|becomes visible", "host", "on s")
    d.arrow([(226, 250), (254, 262)], "a")
    step(1, 312, "5  if the worker sleeps:|its doorbell is notified")
    d.arrow([(360, 298), (360, 310)], "a")
    step(2, 252, "6  finds the record,|checks length and kind")
    d.arrow([(464, 274), (492, 274)], "a")
    d.arrow([(464, 334), (520, 334), (520, 300)], "a", "dash")
    step(2, 362, "7  unpacks, frees the record,|runs f", "target", "on s")
    d.arrow([(630, 298), (630, 360)], "w")
    step(2, 426, "8  commits the result,|or the exception", "reply", "on s")
    d.arrow([(598, 408), (598, 424)], "r")
    step(1, 448, "reply ring: the record|becomes visible", "reply", "on s")
    d.arrow([(492, 450), (466, 462)], "r")
    step(0, 448, "9  takes the reply,|runs continuations")
    d.arrow([(254, 470), (228, 470)], "r")
    step(0, 512, "10  get() returns the value")
    d.arrow([(122, 494), (122, 510)], "r")
    return d


def connections():
    d = Drawing(720, 430, "Connections between machines",
                "The host has a control connection to each server. Lanes and copies are connections of their own to the "
                "server's port; the server passes them on to its targets.")
    d.box(12, 12, 226, 406, "panel")
    d.text(26, 36, "machine of the host", "t b s")
    d.box(36, 60, 178, 66, "host", "host, node 0", "on b")
    d.box(36, 330, 178, 54, "target", "target, node 1", "on")
    d.arrow([(125, 128), (125, 328)], "a", "", True)
    d.text(135, 224, "shared", "q s")
    d.text(135, 241, "memory", "q s")
    d.box(444, 12, 264, 406, "panel")
    d.text(458, 36, "another machine", "t b s")
    d.box(462, 60, 228, 66, "box", "server: farcall serve|one port", "t s")
    d.box(462, 216, 106, 54, "target", "target,|node 2", "on")
    d.box(584, 216, 106, 54, "target", "target,|node 3", "on")
    for x in (515, 637):
        d.arrow([(x, 128), (x, 214)], "l", "dash")
    d.text(576, 166, "starts", "q m s")
    d.text(576, 183, "them", "q m s")
    d.arrow([(570, 243), (582, 243)], "a")
    d.text(576, 290, "shared memory", "q m s")
    d.arrow([(216, 78), (460, 78)], "l", "dash", True)
    d.text(340, 70, "one for control", "q m s")
    d.arrow([(216, 108), (460, 108)], "a", "", True)
    d.text(340, 128, "one for each lane and copy", "q m s")
    d.arrow([(216, 356), (340, 356), (340, 172), (486, 172), (486, 128)], "w")
    d.text(350, 340, "a target calls", "q s")
    d.text(350, 357, "nodes 2 or 3", "q s")
    d.text(458, 350, "The server passes connections", "q s")
    d.text(458, 368, "to its targets. All are TCP,", "q s")
    d.text(458, 386, "encrypted with a key.", "q s")
    return d


DRAWN = {"call.svg": call, "architecture.svg": architecture, "lane.svg": lane, "life-of-a-call.svg": life,
         "connections.svg": connections}


def main():
    stale = []
    for name, draw in DRAWN.items():
        text = draw().svg()
        file = HERE / name
        if "--check" not in sys.argv:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        raise SystemExit(f"docs/pictures/{', '.join(stale)}: not as drawn by docs/pictures/diagrams.py, which makes them")


if __name__ == "__main__":
    main()
