#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads profiles in each format with third-party readers, and compares the profiles with each other.

Run as: formats_test.py <farcall-profile-formats> <part>, where <part> is one of PARTS. Exit status
77: a program that the part needs is not installed.
"""

import ast
import collections
import gzip
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"
ACTIVITIES = {"computes", "waits", "idle"}


def expect(condition, *what):
    if not condition:
        raise SystemExit(" ".join(map(str, ("expected otherwise:",) + what)))


def prefixes(folder):
    """Yields (name of a profile, its file's path without the format, its number of samples)."""
    for path in sorted(folder.glob("*.samples")):
        yield path.stem, str(path)[:-len(".samples")], int(path.read_text())


def collapsed(path):
    """Returns stack → count. Other readers also take the text after the last blank as the count."""
    counts = collections.Counter()
    text = pathlib.Path(path).read_text(encoding="utf-8")
    expect(text == "" or text.endswith("\n"), path, "ends with a whole line")
    for line in text.split("\n")[:-1]:
        match = re.fullmatch(r"(.+) ([1-9]\d*)", line, re.DOTALL)
        expect(match, path, repr(line))
        counts[tuple(match[1].split(";"))] += int(match[2])
    return counts


def check_collapsed(folder):
    for name, start, samples in prefixes(folder):
        counts = collapsed(start + ".collapsed")
        expect(sum(counts.values()) == samples, name, "has", samples, "samples:", counts)


def check_flame_graph(folder):
    for name, start, samples in prefixes(folder):
        root = xml.etree.ElementTree.parse(start + ".svg").getroot()
        expect(root.tag == SVG + "svg", name, root.tag)
        expect(int(root.get("data-samples")) == samples, name, root.get("data-samples"))
        # The second graph, which scripts show, has all functions of farcall.
        graphs = [g for g in root.findall(f"{SVG}g") if g.get("class").startswith("graph")]
        frames = graphs[0].findall(f"{SVG}g")
        own = [int(re.search(r"; (\d+) of its own$", f.find(f"{SVG}title").text)[1])
               for f in frames]
        expect(sum(own) == samples, name, own)
        # The caller of a frame is the last frame before it that is one level higher.
        above = {}
        for frame in frames:
            box = {k: float(frame.find(f"{SVG}rect").get(k).rstrip("%")) for k in ("x", "y", "width", "height")}
            begin, end = int(frame.get("data-s")), int(frame.get("data-s")) + int(frame.get("data-n"))
            expect(abs(box["x"] - begin * 100 / samples) < 0.001, name, box)
            expect(abs(box["x"] + box["width"] - end * 100 / samples) < 0.002, name, box)
            caller = above.get(box["y"] - 18)
            expect(caller is None or caller[0] <= begin < end <= caller[1], name, box, caller)
            expect((caller is None) == (frame is frames[0]), name, box)
            above[box["y"]] = begin, end
    texts = [t.text for t in xml.etree.ElementTree.parse(folder / "example.svg").iter(SVG + "text")]
    expect('./solver <input> & "more"' in texts, texts)


# Parts of https://www.speedscope.app/file-format-schema.json about sampled profiles.
SPEEDSCOPE_SCHEMA = {
    "type": "object",
    "required": ["$schema", "profiles", "shared"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "activeProfileIndex": {"type": "number"},
        "exporter": {"type": "string"},
        "name": {"type": "string"},
        "profiles": {"type": "array", "items": {
            "type": "object",
            "required": ["endValue", "name", "samples", "startValue", "type", "unit", "weights"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "sampled"},
                "name": {"type": "string"},
                "unit": {"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none",
                                  "seconds"]},
                "startValue": {"type": "number"},
                "endValue": {"type": "number"},
                "samples": {"type": "array", "items": {"type": "array",
                                                       "items": {"type": "number"}}},
                "weights": {"type": "array", "items": {"type": "number"}}}}},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "file": {"type": "string"},
                               "line": {"type": "number"}, "col": {"type": "number"}}}}}}}}


JSON_TYPES = {"object": dict, "array": list, "string": str, "number": (int, float)}


def expect_conforms(value, schema, where):
    """Validates by the parts of JSON schema that the schema above uses."""
    if "type" in schema:
        expect(isinstance(value, JSON_TYPES[schema["type"]]), where, "is of type", schema["type"])
    if "const" in schema:
        expect(value == schema["const"], where, value)
    if "enum" in schema:
        expect(value in schema["enum"], where, value)
    for key in schema.get("required", ()):
        expect(key in value, where, "has", key)
    if isinstance(value, dict):
        for key, item in value.items():
            expect(key in schema["properties"] or schema.get("additionalProperties", True),
                   where, "has no", key)
            expect_conforms(item, schema["properties"].get(key, {}), f"{where}.{key}")
    for i, item in enumerate(value if isinstance(value, list) else ()):
        expect_conforms(item, schema["items"], f"{where}[{i}]")


def check_speedscope(folder):
    for name, start, samples in prefixes(folder):
        with open(start + ".speedscope.json", encoding="utf-8") as text:
            document = json.load(text)
        expect_conforms(document, SPEEDSCOPE_SCHEMA, name)
        frames = [frame["name"].replace(";", ":") for frame in document["shared"]["frames"]]
        with open(start + ".firefox.json", encoding="utf-8") as text:
            seconds = json.load(text)["meta"]["interval"] / 1000 or 1
        counts = collections.Counter()
        for profile in document["profiles"]:
            expect(len(profile["samples"]) == len(profile["weights"]), name)
            expect(abs(sum(profile["weights"]) - profile["endValue"]) < 1e-9, name)
            for stack, weight in zip(profile["samples"], profile["weights"]):
                counts[tuple(frames[i] for i in stack)] += round(weight / seconds)
        expect(sum(counts.values()) == samples, name, "has", samples, "samples:", counts)
        expect(counts == collapsed(start + ".collapsed"), name, counts)


def check_table(table, columns):
    expect(set(table) == set(columns) | {"length"}, sorted(table))
    for column in columns:
        expect(len(table[column]) == table["length"], column, "is as long as the table")


def check_indices(column, limit, null=False):
    for value in column:
        expect((null and value is None) or (type(value) is int and 0 <= value < limit),
               value, "is below", limit)


def firefox_thread(thread, libs, categories):
    """Checks what docs-developer and the types of firefox-devtools/profiler require of version 55.
    Returns stack → count, and activity → count."""
    strings, stacks, frames = thread["stringArray"], thread["stackTable"], thread["frameTable"]
    functions, symbols = thread["funcTable"], thread["nativeSymbols"]
    resources, samples = thread["resourceTable"], thread["samples"]
    check_table(stacks, ("frame", "prefix"))
    check_table(frames, ("address", "inlineDepth", "category", "subcategory", "func", "line",
                         "column", "nativeSymbol", "innerWindowID"))
    check_table(functions, ("name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber",
                            "columnNumber"))
    check_table(symbols, ("libIndex", "address", "name", "functionSize"))
    check_table(resources, ("lib", "name", "host", "type"))
    check_table(thread["markers"], ("data", "name", "startTime", "endTime", "phase", "category"))
    expect(len(set(strings)) == len(strings), "each text is there once")
    check_indices(stacks["frame"], frames["length"])
    check_indices(frames["func"], functions["length"])
    check_indices(frames["category"], len(categories))
    check_indices(frames["nativeSymbol"], symbols["length"], null=True)
    check_indices(functions["name"], len(strings))
    check_indices(functions["fileName"], len(strings), null=True)
    check_indices([r for r in functions["resource"] if r != -1], resources["length"])
    check_indices(resources["name"], len(strings))
    check_indices(resources["lib"], len(libs))
    check_indices(symbols["libIndex"], len(libs))
    check_indices(symbols["name"], len(strings))
    expect(set(resources["type"]) <= {1}, "they are libraries")
    for at, prefix in enumerate(stacks["prefix"]):
        expect(prefix is None or 0 <= prefix < at, "stack", at, "is behind its caller", prefix)
        frame = stacks["frame"][at]
        if frames["inlineDepth"][frame] > 0:
            outer = stacks["frame"][prefix]
            expect(frames["inlineDepth"][frame] == frames["inlineDepth"][outer] + 1, at)
            for column in ("address", "nativeSymbol"):
                expect(frames[column][frame] == frames[column][outer], column, at)
    for address, symbol in zip(frames["address"], frames["nativeSymbol"]):
        if symbol is None:
            expect(address == -1, address)
        else:
            expect(address >= symbols["address"][symbol], address, "is in its symbol")

    expect(set(samples) == {"stack", "time", "weight", "weightType", "length"}, samples.keys())
    expect(samples["weight"] is None and samples["weightType"] == "samples")
    expect(len(samples["stack"]) == len(samples["time"]) == samples["length"])
    expect(samples["time"] == sorted(samples["time"]), "times do not go back")
    check_indices(samples["stack"], stacks["length"])
    counts = collections.Counter()
    does = collections.Counter()
    for stack in samples["stack"]:
        does[categories[frames["category"][stacks["frame"][stack]]]] += 1
        names = []
        while stack is not None:
            name = strings[functions["name"][frames["func"][stacks["frame"][stack]]]]
            names.insert(0, name.replace(";", ":"))
            stack = stacks["prefix"][stack]
        counts[tuple(names)] += 1
    return counts, does


def check_firefox(folder):
    for name, start, samples in prefixes(folder):
        with open(start + ".firefox.json", encoding="utf-8") as text:
            document = json.load(text)
        meta = document["meta"]
        for key in ("interval", "startTime", "processType", "product", "stackwalk", "version",
                    "markerSchema"):
            expect(key in meta, name, key)
        expect(meta["preprocessedProfileVersion"] == 55, name)
        expect(meta["symbolicated"], name, "is not to be looked up again")
        expect("grey" in [c["color"] for c in meta["categories"]], name, "has a default category")
        expect(all(c["subcategories"][0] == "Other" for c in meta["categories"]), name)
        for lib in document["libs"]:
            expect(set(lib) == {"arch", "name", "path", "debugName", "debugPath", "breakpadId",
                                "codeId"}, name, lib)
        categories = [c["name"] for c in meta["categories"]]
        counts, does = collections.Counter(), collections.Counter()
        for thread in document["threads"]:
            expect(type(thread["pid"]) is str and type(thread["tid"]) is int, name)
            expect(type(thread["isMainThread"]) is bool and thread["name"], name)
            for sums, more in zip((counts, does),
                                  firefox_thread(thread, document["libs"], categories)):
                sums.update(more)
        expect(sum(counts.values()) == samples, name, "has", samples, "samples")
        expect(counts == collapsed(start + ".collapsed"), name, counts)
        expect(set(does) <= ACTIVITIES, name, does)
        if name == "example":
            expect(does == {"computes": 7, "waits": 2, "idle": 3}, does)
            first = document["threads"][0]
            expect(first["processName"] == "node 0: solver (100)" and first["isMainThread"], first)
            expect(sorted(lib["name"] for lib in document["libs"]) == ["libm.so.6", "solver"])


# Fields of pprof's profile.proto, by name and number.
PPROF_PROTO = """
syntax = "proto3";
package p;
message Profile {
  repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Mapping mapping = 3;
  repeated Location location = 4; repeated Function function = 5; repeated bytes string_table = 6;
  int64 drop_frames = 7; int64 keep_frames = 8; int64 time_nanos = 9; int64 duration_nanos = 10;
  ValueType period_type = 11; int64 period = 12; repeated int64 comment = 13;
  int64 default_sample_type = 14;
}
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; repeated Label label = 3; }
message Label { int64 key = 1; int64 str = 2; int64 num = 3; int64 num_unit = 4; }
message Mapping {
  uint64 id = 1; uint64 memory_start = 2; uint64 memory_limit = 3; uint64 file_offset = 4;
  int64 filename = 5; int64 build_id = 6; bool has_functions = 7; bool has_filenames = 8;
  bool has_line_numbers = 9; bool has_inline_frames = 10;
}
message Location {
  uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; bool is_folded = 5;
}
message Line { uint64 function_id = 1; int64 line = 2; }
message Function {
  uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; int64 start_line = 5;
}
"""


class Message(collections.defaultdict):
    """Returns field → its values in order."""

    def __init__(self):
        super().__init__(list)

    def number(self, field):
        return self[field][0] if self[field] else 0


def protobuf(path, folder):
    """Returns the profile as protoc reads it."""
    (folder / "p.proto").write_text(PPROF_PROTO)
    with gzip.open(path) as file:
        done = subprocess.run(["protoc", "--decode=p.Profile", f"--proto_path={folder}", "p.proto"],
                              input=file.read(), capture_output=True, timeout=60)
    expect(done.returncode == 0, done.stderr)
    open_messages = [Message()]
    for line in done.stdout.decode().splitlines():
        words = line.strip()
        if words.endswith(" {"):
            open_messages.append(Message())
            open_messages[-2][words[:-2]].append(open_messages[-1])
        elif words == "}":
            open_messages.pop()
        else:
            field, _, value = words.partition(": ")
            expect(not field.isdigit(), path, "has no unknown fields:", words)
            open_messages[-1][field].append(
                ast.literal_eval("b" + value).decode("utf-8") if value.startswith('"') else
                {"true": True, "false": False}.get(value) or int(value))
    return open_messages[0]


def check_pprof(folder):
    for name, start, samples in prefixes(folder):
        profile = protobuf(start + ".pb.gz", folder)
        texts = profile["string_table"]
        expect(texts[0] == "" and len(set(texts)) == len(texts), name, texts)
        expect([(texts[t.number("type")], texts[t.number("unit")]) for t in profile["sample_type"]] ==
               [("samples", "count"), ("cpu", "nanoseconds")], name)
        ids = {}
        for kind in ("mapping", "location", "function"):
            ids[kind] = {entry.number("id"): entry for entry in profile[kind]}
            expect(0 not in ids[kind], name, kind)
            expect(len(ids[kind]) == len(profile[kind]), name, kind, "numbers are unique")
        for location in profile["location"]:
            expect(location["line"], name, "a location has a function")
            if location["mapping_id"]:
                mapping = ids["mapping"][location.number("mapping_id")]
                expect(mapping.number("memory_start") <= location.number("address") <
                       mapping.number("memory_limit"), name)
        counts, does = collections.Counter(), collections.Counter()
        for sample in profile["sample"]:
            count, nanoseconds = sample["value"]
            expect(nanoseconds == count * profile.number("period"), name, sample)
            labels = {texts[label.number("key")]: texts[label.number("str")] or label.number("num")
                      for label in sample["label"]}
            expect({"thread", "process", "activity"} <= set(labels) <=
                   {"thread", "process", "activity", "node"}, name, labels)
            names = [texts[ids["function"][line.number("function_id")].number("name")]
                     for number in sample["location_id"] for line in ids["location"][number]["line"]]
            counts[tuple(name.replace(";", ":") for name in reversed(names))] += count
            does[labels["activity"]] += count
        expect(sum(counts.values()) == samples, name, "has", samples, "samples")
        expect(counts == collapsed(start + ".collapsed"), name, counts)
        expect(set(does) <= ACTIVITIES, name, does)
        if name == "example":
            expect(does == {"computes": 7, "waits": 2, "idle": 3}, does)
            expect(profile["period"] == [10_000_000], profile["period"])
            expect(texts[profile["mapping"][0].number("filename")] == "/opt/solver/bin/solver", texts)
            expect(sorted(len(location["line"]) for location in profile["location"])[-1] == 2,
                   "axpy is inlined into solve")


def check_veprof(folder):
    for name, start, samples in prefixes(folder):
        text = pathlib.Path(start + ".veprof").read_text(encoding="utf-8")
        first, head, third, *rows, end = text.split("\n")
        expect(first.startswith("#") and third.startswith("#") and end == "", name, text)
        expect(head.split(";") == ["0.1", "0", "host", "-", "1000"], name, head)
        names = third[2:].split(";")
        expect(names[0] == "samples" and names[-1] == "symbol" and len(names) == 20, name, names)
        total = 0
        for row in rows:
            fields = row.split(";")
            expect(len(fields) == len(names) and fields[-1], name, row)
            taken, cycles, instructions, *others = map(float, fields[:-1])
            expect(cycles > 0 and instructions == 1 and set(others) == {0}, name, row)
            total += taken
        expect(total == samples, name, "has", samples, "samples, not", total)


# Script that records shots of a picture: the text of the search result, and each frame's width and
# state.
SHOTS = """const shots = [];
const graph = () => document.querySelector(".graph:not(.gone)");
const shot = () => shots.push([document.querySelector(".controls .found").textContent,
  Array.from(graph() === null ? [] : graph().querySelectorAll(".frame")).map(f => [
    f.querySelector("title").textContent.split("\\n")[0],
    [Math.round(10 * parseFloat(f.querySelector("rect").getAttribute("width"))) / 10].concat(
      Array.from(f.classList).filter(c => ["gone", "found", "caller"].includes(c)))])]);
const flip = n => document.querySelectorAll("input[type=checkbox]")[n].click();
const click = n => graph().querySelectorAll(".frame")[n].querySelector("rect").dispatchEvent(
  new MouseEvent("click", {bubbles: true}));
const press = (key, ctrl) => window.dispatchEvent(
  new KeyboardEvent("keydown", {key: key, ctrlKey: ctrl}));
const box = document.querySelector("input[type=search]");
const type = text => { box.value = text; box.dispatchEvent(new Event("input")); };
STEPS
document.documentElement.appendChild(document.createElementNS("", "shots")).textContent =
  JSON.stringify(shots);"""


def in_browser(svg, steps, fragment=""):
    """Returns the shots of the steps in a browser that has loaded a picture: (search result, frames)."""
    page = svg.parent / "page.svg"
    script = f"<script><![CDATA[{SHOTS.replace('STEPS', steps)}]]></script></svg>"
    page.write_text(svg.read_text(encoding="utf-8").replace("</svg>", script), encoding="utf-8")
    shots = re.search(r"<shots[^>]*>(.*)</shots>", loaded(page, fragment), re.DOTALL)
    expect(shots, "the page has shots")
    return [(found, dict(frames)) for found, frames in json.loads(html.unescape(shots[1]))]


def loaded(page, fragment=""):
    """Returns a page after a browser has run its scripts."""
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={page.parent / 'browser'}", "--dump-dom",
         "file://" + urllib.parse.quote(str(page)) + fragment],
        capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, done.stdout, done.stderr)
    return done.stdout


def check_browser(folder):
    if shutil.which("chromium") is None:
        print("chromium is not installed")
        raise SystemExit(77)
    svg = folder / "example.svg"
    solve = "solve(matrix<double> const&)"

    # Seven of twelve samples compute. Frames: all, main, solve, axpy, serve, a;b and the waiting ones.
    shots = in_browser(svg, """shot(); click(2); shot(); click(2); shot();
        press("f", true); type(document.activeElement === box ? "AXPY" : "no focus"); shot();
        type("a"); shot(); click(2); press("Escape", false); shot(); flip(0); shot();""", "")
    plain, zoomed, back, one, several, escaped, waiting = shots
    expect(plain[0] == "" and plain[1][solve] == [85.7] and plain[1]["all"] == [100], plain)
    expect("gone" in plain[1]["waits"] and "gone" in plain[1]["idle"], plain)
    expect(zoomed[1][solve] == [100] and zoomed[1]["axpy"] == [50], zoomed)
    expect("gone" in zoomed[1]["serve"] and "gone" in zoomed[1]["wait"], zoomed)
    expect(back == plain, back)
    expect("42.9 %" in one[0] and one[1]["axpy"] == [42.9, "found"], one)
    # Matches are main with its callees, and a;b, which are all that is shown.
    expect("100.0 %" in several[0] and several[1]["all"] == [100], several)
    expect(escaped == plain, escaped)
    expect(waiting[1][solve] == [50] and waiting[1]["waits"] == [16.7] and waiting[1]["idle"] == [25], waiting)

    shot, = in_browser(svg, "shot();", "#waiting&zoom=2&search=" + urllib.parse.quote("X<DOUBLE> const&"))
    expect("50.0 %" in shot[0] and shot[1][solve] == [100, "found"], shot)

    # Functions of farcall are one frame, until the user asks for all.
    folded, unfolded = in_browser(folder / "farcall.svg", "shot(); flip(0); shot();")
    expect("farcall" in folded[1] and "farcall::run()" not in folded[1], folded)
    expect("farcall" not in unfolded[1] and "farcall::run()" in unfolded[1], unfolded)

    # A page with the picture: the controls are in the page.
    page = loaded(folder / "example.html")
    expect(page.count('type="search"') == 1 and "<foreignObject" not in page, "the page has the controls")

    # Two pictures on one page.
    page = folder / "page.html"
    pictures = [p.read_text(encoding="utf-8") for p in (svg, folder / "random1.svg")]
    page.write_text("<!DOCTYPE html><meta charset=utf-8>" + "".join(pictures), encoding="utf-8")
    inlined = loaded(page, "#search=axpy")
    expect("NaN" not in inlined, [line for line in inlined.splitlines() if "NaN" in line][:3])
    expect("found in 42.9 %" in inlined and "found in 0.0 %" in inlined, "each is searched")

    # A profile with names of arbitrary bytes; then an empty one.
    shot, = in_browser(folder / "random1.svg", "shot();", "#search=a&zoom=1")
    expect(len(shot[1]) > 10 and "%" in shot[0], shot)
    shot, = in_browser(folder / "empty.svg", "shot();", "#search=a&zoom=0")
    expect("0.0 %" in shot[0] and not shot[1], shot)


PARTS = {"collapsed": check_collapsed, "flame_graph": check_flame_graph,
         "speedscope": check_speedscope, "firefox": check_firefox, "pprof": check_pprof,
         "veprof": check_veprof, "browser": check_browser}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in PARTS:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, timeout=60)
        PARTS[sys.argv[2]](pathlib.Path(folder))


if __name__ == "__main__":
    main()
