#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/guide/18-seeing-what-a-job-does.md, or checks that they fit the page.

Run as: draw.py [--check] <farcall> <program of steps.cpp>

Without --check the script samples the program, runs a quick benchmark, and writes the pictures into
docs/. With --check it draws them into a temporary folder, and checks the old and the new ones: that they
are small, that they name no machine and no path, that they show the parts that the page mentions, and
that the page shows each picture. The exit status is 77 if sampling is refused on this machine; then
only the existing pictures were checked.
"""

import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

DOCS = pathlib.Path(__file__).resolve().parent.parent
PAGE = DOCS / "guide" / "18-seeing-what-a-job-does.md"
SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 60 * 1024
THINNEST = 4  # pixels of a frame that is kept, of 1200
LONGEST_NAME = 80
SKIPPED = 77
# Texts that each picture has to show.
PICTURES = {"flame-graph.svg": ("node 0: steps", "node 1: steps", "steps::next_values",
                                "steps::weighted_sum", "steps::weight_of"),
            "bench-offload.svg": ("sync, empty", "floor of the figure")}


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)


def made_by(words, file):
    """Returns the file that the command writes. Ends this script if the command fails."""
    done = run(*words)
    if done.returncode != 0:
        if "perf_event_paranoid" in done.stderr:
            print("sampling is refused here:", done.stderr)
            raise SystemExit(SKIPPED)
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return file.read_text(encoding="utf-8")


def clean_frame(frame):
    """Returns the frame of a flame graph without paths and process numbers, or "" if it is thin."""
    if 12 * float(re.search(r'<rect[^>]* width="([\d.]+)%"', frame)[1]) < THINNEST:
        return ""

    def title(match):
        name, *rest = match[1].split("\n")
        if len(name) > LONGEST_NAME and "&" not in name[LONGEST_NAME - 8:LONGEST_NAME]:
            name = name[:LONGEST_NAME] + "…"
        return "<title>" + "\n".join([name] + [line.rsplit("/", 1)[-1] for line in rest]) + "</title>"

    return re.sub(r"<title>(.*?)</title>", title, frame, flags=re.S)


def as_wide_as_page(svg):
    """Returns the picture without a width and height of its own."""
    return re.sub(r'^((?:<\?xml.*?\?>\s*)?<svg [^>]*?) width="\d+" height="\d+"', r"\1", svg)


def flame_graph(farcall, program, folder):
    file = folder / "flame.svg"
    words = [farcall, "prof", "-s", "500", "--per-node", "-o", str(file), "--call-graph"]
    has_dwarf = "built without libdw" not in run(*words, "dwarf", "--", "/bin/true").stderr
    svg = made_by([*words, "dwarf" if has_dwarf else "fp", "--", program, "300"], file)
    # The second graph, which has all functions of farcall, is hidden at first.
    svg = re.sub(r'<g class="graph gone".*(?=<script>)', "", svg, flags=re.S)
    svg = re.sub(r'<g class="frame.*?</g>\n', lambda m: clean_frame(m[0]), svg, flags=re.S)
    svg = re.sub(rf"(?:[\w./-]*/)?{re.escape(pathlib.Path(program).name)}\b", "steps", svg)
    svg = re.sub(r"(node \d+: steps) \(\d+\)", r"\1", svg)
    return as_wide_as_page(svg.replace(">steps 300</text>", ">./steps 300</text>"))


def first_chart(farcall, folder):
    """Returns the first chart of the benchmark, without the other charts and the machine's description."""
    file = folder / "bench.svg"
    svg = made_by([farcall, "bench", "offload", "--quick", "--svg", str(file)], file)
    head = re.match(r"<svg .*?</style>\n", svg, re.S)[0]
    width, height, chart = re.search(r'<svg y="\d+" width="(\d+)" height="(\d+)">\n(.*?)</svg>\n',
                                     svg, re.S).groups()
    head = as_wide_as_page(re.sub(r'viewBox="[^"]*"', f'viewBox="0 0 {width} {height}"', head))
    head = re.sub(r"<desc .*?</desc>\n", '<desc id="description">Calls to one target: how long each '
                  "kind takes, beside the floor of the same run.</desc>\n", head, flags=re.S)
    return f'{head}<rect width="{width}" height="{height}" class="bg"/>\n{chart}</svg>\n'


def draw(farcall, program, into):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (into / "flame-graph.svg").write_text(flame_graph(farcall, program, folder),
                                              encoding="utf-8")
        (into / "bench-offload.svg").write_text(first_chart(farcall, folder), encoding="utf-8")


def problems_of(folder, name):
    """Yields the problems of a picture."""
    path = folder / name
    if not path.is_file():
        yield "is not there"
        return
    if path.stat().st_size >= MOST_BYTES:
        yield f"has {path.stat().st_size} bytes, {MOST_BYTES} or more"
    root = xml.etree.ElementTree.parse(path).getroot()
    texts = ["".join(e.itertext()) for e in root.iter()
             if e.tag in (SVG + "title", SVG + "text", SVG + "desc")]
    whole = "\n".join(texts)
    for place in re.findall(r"(?:^|\s)/[\w.-]+/\S*", whole):
        yield f"has the path {place.strip()}"
    machine = platform.node()
    if len(machine) > 3 and machine in whole or re.search(r"Linux \d|EPYC|Xeon|Core\(TM\)", whole):
        yield "tells what machine it was made on"
    for wanted in PICTURES[name]:
        if wanted not in whole:
            yield f"does not show {wanted}"


def problems_of_page():
    text = PAGE.read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[[^\]]*\]\(\.\./([^)]+)\)", text))
    for name in PICTURES.keys() - shown:
        yield f"does not show {name}"
    for name in shown - PICTURES.keys():
        yield f"shows {name}, which this script does not draw"
    source = (pathlib.Path(__file__).parent / "steps.cpp").read_text(encoding="utf-8")
    for function in set(re.findall(r"`(?:steps::)(\w+)`", text)):
        if not re.search(rf"\b{function}\(", source):
            yield f"tells of steps::{function}, which steps.cpp has not"


def check(farcall, program):
    problems = [f"{PAGE.name} {p}" for p in problems_of_page()]
    problems += [f"docs/{name} {p}" for name in PICTURES for p in problems_of(DOCS, name)]
    if problems:
        raise SystemExit("\n".join(problems))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        draw(farcall, program, folder)
        problems = [f"{name}, drawn now, {p}" for name in PICTURES
                    for p in problems_of(folder, name)]
    if problems:
        raise SystemExit("\n".join(problems))


def main():
    words = sys.argv[1:]
    is_check = words[:1] == ["--check"]
    if len(words) != 2 + is_check:
        raise SystemExit(__doc__)
    if is_check:
        check(*words[1:])
    else:
        draw(*words, DOCS)


if __name__ == "__main__":
    main()
