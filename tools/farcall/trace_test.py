#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Timelines of jobs: `farcall run --trace` and FARCALL_TRACE.

Run as: trace_test.py <farcall> <program> <part>, where <part> is one of PARTS. Checks the files
against the trace event format, so that browsers show them as intended.
"""

import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT_S = 90


def run(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_TRACE")}
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, env={**environment, **variables})


def expect(is_so, what):
    if not is_so:
        raise SystemExit(f"not so: {what}")


def good(done):
    expect(done.returncode == 0, f"{done.args} ends with 0:\n{done.stdout}{done.stderr}")
    return done


def nested(slices):
    """Checks that slices of one track, in whole ns, are nested or disjoint."""
    open_ends = []
    for begin, minus_length, name in sorted(slices):
        end = begin - minus_length
        while open_ends and open_ends[-1][0] <= begin:
            open_ends.pop()
        expect(not open_ends or end <= open_ends[-1][0],
               f"{name} from {begin} to {end} ns lies inside {open_ends[-1:]}, or beside")
        open_ends.append((end, name))


def read(path):
    """Returns the document after checking each row."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    arrows = collections.defaultdict(list)
    beside = collections.Counter()
    tracks = collections.defaultdict(list)
    named = set()
    for row in document["traceEvents"]:
        place = (row["pid"], row["tid"])
        phase = row["ph"]
        expect(phase in "MXstfbe", f"a known phase: {row}")
        if phase == "M":
            named.add((row["name"], row["pid"], row["tid"]))
            continue
        expect(isinstance(row["ts"], (int, float)) and row["name"], f"a name and a time: {row}")
        if phase == "X":
            expect(row["dur"] >= 0, f"a length: {row}")
            # In ns, like readers: sums of fractional microseconds are slightly off.
            begin, length = round(row["ts"] * 1000), round(row["dur"] * 1000)
            if length > 0:
                tracks[place].append((begin, -length, row["name"]))
        elif phase in "stf":
            arrows[row["id"]].append((phase, row["ts"], place))
        else:
            beside[(row["cat"], row["id"], row["pid"])] += 1 if phase == "b" else -1
    expect(not any(beside.values()), "what begins on a track of its own ends there")
    for slices in tracks.values():
        nested(slices)
    for pid, tid in tracks:
        expect(("thread_name", pid, tid) in named, f"a name for thread {tid} of node {pid}")
        expect(any(n == "process_name" and p == pid for n, p, _ in named), f"a name for node {pid}")
    for name, steps in arrows.items():
        phases = [phase for phase, _, _ in steps]
        expect(phases.count("s") == 1 and phases.count("t") == 1, f"arrow {name} has both ends")
        begin = next(when for phase, when, _ in steps if phase == "s")
        slack = 1e-3 * max(c["error_ns"] for c in document["otherData"]["clocks"]) + 1e-3
        expect(all(when >= begin - slack for _, when, _ in steps), f"arrow {name} goes forward")
    return document


def slices(document, node, name):
    return [r for r in document["traceEvents"]
            if r["ph"] == "X" and r["pid"] == node and r["name"] == name]


def check_calls(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    good(run(farcall, "run", "-n", "2", "--trace", path, program, "calls"))
    document = read(path)
    for name, times in (("twice", 3), ("long_one", 4), ("noted", 1), ("sum", 1), ("ask_host", 1)):
        full = f"(anonymous namespace)::{name}"
        ran = [r for r in slices(document, 1, full) if r["cat"] == "handler"]
        expect(len(ran) == times, f"node 1 runs {name} {times} times, not {len(ran)}")
    tracks = [r["args"]["name"] for r in document["traceEvents"]
              if r["ph"] == "M" and r["name"] == "thread_name"]
    for name in ("main thread (", "worker 0 ("):
        expect([t for t in tracks if t.startswith(name)], f"a track {name}...): {tracks}")
    # Calls one after the other: each handler begins inside its call. Its end is recorded after the
    # reply is sent, which the caller may have taken by then.
    calls = sorted(slices(document, 0, "(anonymous namespace)::twice"), key=lambda r: r["ts"])
    handlers = [r for r in slices(document, 1, "(anonymous namespace)::twice")
                if r["cat"] == "handler"]
    handlers.sort(key=lambda r: r["ts"])
    calls = [c for c in calls if c["cat"] == "call"]
    expect(len(calls) == 3, f"three calls of twice: {calls}")
    for call, handler in zip(calls, handlers):
        expect(call["ts"] <= handler["ts"] <= call["ts"] + call["dur"],
               f"{handler} begins inside {call}")
        expect(call["args"]["to node"] == 1 and handler["args"]["from node"] == 0, "whose they are")
    # Calls at the same time: each on its own track, for at least its duration.
    together = [r for r in document["traceEvents"]
                if r["ph"] == "b" and r["name"] == "(anonymous namespace)::long_one"]
    expect(len(together) == 4, f"four calls side by side: {together}")
    expect(len(slices(document, 1, "inside long_one")) == 4, "ranges of the target")
    outer = slices(document, 0, "together")
    expect(len(outer) == 1 and outer[0]["dur"] >= 8000, f"the host's range: {outer}")
    for name in ("put", "get"):
        copied = slices(document, 0, name)
        expect(len(copied) == 1 and copied[0]["args"] == {"node": 1, "bytes": 8000}, f"{copied}")
    # A call from the target to the host; and an arrow for each call that has a handler.
    asked = [r for r in slices(document, 0, "(anonymous namespace)::twice")
             if r["cat"] == "handler"]
    expect(len(asked) == 1, f"the host runs twice for its target: {asked}")
    begun = sum(r["ph"] == "s" for r in document["traceEvents"])
    ended = sum(r["ph"] == "f" for r in document["traceEvents"])
    # Two calls have no reply: the program's post, and the release of the buffer.
    expect(begun == ended + 2 and begun >= 12, f"arrows: {begun} and {ended} back")
    expect(document["otherData"]["missed events"] == 0, "nothing is missed")


def check_variable(farcall, program, folder):
    # Path from the variable, and from the program's option; %p is the process.
    path = os.path.join(folder, "out-%p.json")
    done = good(run(program, "calls", FARCALL_TRACE=path))
    files = os.listdir(folder)
    expect(len(files) == 1 and files[0].startswith("out-") and "%" not in files[0], files)
    read(os.path.join(folder, files[0]))
    expect(done.stdout + done.stderr == "", f"nothing is printed: {done.stdout}{done.stderr}")
    path = os.path.join(folder, "second.json")
    good(run(program, "calls", f"--farcall-trace={path}"))
    read(path)
    # A longer file from before is replaced.
    with open(path, "w", encoding="utf-8") as file:
        file.write("x" * 5_000_000)
    good(run(program, "many", "1", FARCALL_TRACE=path))
    read(path)
    # Two jobs in one process.
    path = os.path.join(folder, "jobs.v1.json")
    good(run(program, "twice", FARCALL_TRACE=path))
    read(path)
    read(os.path.join(folder, "jobs.v1-2.json"))


def check_limit(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    done = good(run(program, "many", "3000", FARCALL_TRACE=path, FARCALL_TRACE_EVENTS="1000"))
    expect("has 1000 events" in done.stderr and "FARCALL_TRACE_EVENTS" in done.stderr, done.stderr)
    document = read(path)
    expect(document["otherData"]["events"] == 1000, document["otherData"])
    expect(document["otherData"]["missed events"] > 0, document["otherData"])
    # More events than a thread's ring holds: the file is valid, and counts the missing events.
    done = good(run(program, "many", "150000", FARCALL_TRACE=path, FARCALL_TRACE_EVENTS="200000"))
    document = read(path)
    expect(document["otherData"]["events"] <= 200_000, document["otherData"])


def check_refusals(farcall, program, folder):
    for path in (os.path.join(folder, "none", "out.json"), folder):
        done = run(program, "calls", FARCALL_TRACE=path)
        expect(done.returncode != 0 and "timeline cannot be written" in done.stderr and
               path in done.stderr and "FARCALL_TRACE" in done.stderr, done.stderr)
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    done = run(program, "calls", FARCALL_TRACE=pipe)
    expect(done.returncode != 0 and "timeline cannot be written" in done.stderr, done.stderr)
    done = run(program, "many", "1", FARCALL_TRACE="/dev/full")
    expect(done.returncode == 0 and "writing the timeline" in done.stderr, done.stderr)
    done = run(program, "many", "1", FARCALL_TRACE=os.path.join(folder, "x"),
               FARCALL_TRACE_EVENTS="some")
    expect(done.returncode != 0 and "FARCALL_TRACE_EVENTS" in done.stderr, done.stderr)
    path = os.path.join(folder, "of-no-job")
    done = run(program, "many", "1", FARCALL_TRACE=path, FARCALL_TARGETS="exec:false")
    expect(done.returncode != 0 and not os.path.exists(path), "nothing is left of a job that fails")
    done = run(farcall, "run", "--trace")
    expect(done.returncode != 0, "a file is wanted")


def check_killed(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    done = run(farcall, "run", "-n", "2", "--trace", path, program, "killed")
    expect("failed" in done.stdout, done.stdout + done.stderr)
    document = read(path)
    expect(slices(document, 1, "(anonymous namespace)::long_one"), "what it did before is there")
    # The target died before it sent the name of the function that it ran last.
    calls = [r for r in document["traceEvents"] if r["pid"] == 0 and r.get("cat") == "call"]
    expect(len([r for r in calls if r["ph"] == "X"]) >= 2, f"its last call is there: {calls}")


def check_fork(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    good(run(program, "fork", FARCALL_TRACE=path))
    document = read(path)
    expect(not slices(document, 0, "in the child"), "a child records nothing")
    expect(os.listdir(folder) == ["out.json"], os.listdir(folder))


def check_equals(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    good(run(farcall, "run", "--spmd", "-n", "3", "--trace", path, program, "equals"))
    document = read(path)
    for node in range(3):
        expect([r for r in slices(document, node, "(anonymous namespace)::twice")
                if r["cat"] == "handler"], f"node {node} runs a handler")


def otf2_events(printed):
    """Returns (kind, location, time in ns, other location and tag of a message) from otf2-print."""
    row = re.compile(r"^(ENTER|LEAVE|MPI_SEND|MPI_RECV)\s+(\d+)\s+(\d+)\s+(.*)$")
    for line in printed.splitlines():
        found = row.match(line)
        if not found:
            continue
        kind, location, time, rest = found.groups()
        peer = re.search(r"(?:Receiver|Sender): (\d+)", rest)
        tag = re.search(r"Tag: (\d+)", rest)
        yield (kind, int(location), int(time), int(peer[1]) if peer else None,
               int(tag[1]) if tag else None)


def module_beside(farcall):
    """Returns the path of this build's module, or None. The version is in the folder's name."""
    build = os.path.dirname(os.path.dirname(farcall))
    return next(iter(glob.glob(os.path.join(build, "lib", "farcall-*", "libfarcall-otf2.so"))), None)


def need_otf2(farcall):
    if not module_beside(farcall) or not shutil.which("otf2-print"):
        print("OTF2 is not there")
        sys.exit(77)


def check_otf2(farcall, program, folder):
    need_otf2(farcall)
    path = os.path.join(folder, "out.otf2")
    good(run(farcall, "run", "-n", "2", "--trace", path, program, "calls"))
    expect(sorted(os.listdir(folder)) == ["out", "out.def", "out.otf2"], os.listdir(folder))
    names = good(run("otf2-print", "-G", path)).stdout
    for name in ("the host (node 0)", "main thread", "inside long_one", "(anonymous namespace)::twice"):
        expect(name in names, f"{name} is defined:\n{names}")
    depth, last = collections.Counter(), collections.Counter()
    messages = collections.defaultdict(list)
    kinds = collections.Counter()
    for kind, location, time, peer, tag in otf2_events(good(run("otf2-print", path)).stdout):
        kinds[kind] += 1
        expect(time >= last[location], f"times of location {location} go forward")
        last[location] = time
        depth[location] += {"ENTER": 1, "LEAVE": -1}.get(kind, 0)
        expect(depth[location] >= 0, f"what is left at location {location} was entered")
        if kind == "MPI_SEND":
            messages[(location, peer, tag)].append(time)
        elif kind == "MPI_RECV":
            messages[(peer, location, tag)].append(time)
    expect(kinds["ENTER"] > 20 and kinds["ENTER"] == kinds["LEAVE"], kinds)
    expect(not any(depth.values()), "what is entered is left")
    expect(len(messages) > 10 and all(len(m) == 2 for m in messages.values()),
           f"messages have both ends: {messages}")
    again = run(farcall, "run", "-n", "2", "--trace", path, program, "calls")
    expect(again.returncode != 0 and "out.otf2 is there already" in again.stderr, again.stderr)
    # A copy of the program has no module next to it.
    module = module_beside(farcall)
    named = os.path.join(folder, "named.otf2")
    good(run(shutil.copy(program, folder), "calls", FARCALL_TRACE=named,
             FARCALL_OTF2_MODULE=shutil.copy(module, folder)))
    expect(os.path.exists(named), os.listdir(folder))
    missing = run(program, "calls", FARCALL_TRACE=os.path.join(folder, "missing.otf2"),
                  FARCALL_OTF2_MODULE="/no/such.so")
    expect(missing.returncode != 0 and "there is no /no/such.so" in missing.stderr
           and "FARCALL_OTF2_MODULE=" in missing.stderr, missing.stderr)
    nowhere = run(farcall, "run", "--trace", "/no/such/folder/out.otf2", program, "calls")
    expect(nowhere.returncode != 0 and "No such file or directory" in nowhere.stderr,
           nowhere.stderr)


NAMED = {"f": (2, 3), "Pi": (1, 1), 'solve "rows"': (1, 1)}


def check_names(farcall, program, folder):
    path = os.path.join(folder, "out.json")
    good(run(farcall, "run", "-n", "2", "--trace", path, program))
    document = read(path)
    for name, (calls, handlers) in NAMED.items():
        for node, category, times in ((0, "call", calls), (1, "handler", handlers)):
            found = [r for r in slices(document, node, name)
                     if r["cat"] == category and (category == "handler" or r["dur"] > 0)]
            expect(len(found) == times, f"{times} of {category} {name}, not {len(found)}: "
                   f"{[r['name'] for r in document['traceEvents'] if r['ph'] == 'X']}")
    expect(len(slices(document, 1, "missing")) == 0, "what is not registered has no name there")


def check_names_otf2(farcall, program, folder):
    need_otf2(farcall)
    path = os.path.join(folder, "out.otf2")
    good(run(farcall, "run", "-n", "2", "--trace", path, program))
    regions = good(run("otf2-print", "-G", path)).stdout
    for name in ("f", "Pi", 'solve "rows"'):
        expect(f'"{name}"' in regions, f"{name} is defined:\n{regions}")


PARTS = {"calls": check_calls, "variable": check_variable, "limit": check_limit,
         "refusals": check_refusals, "killed": check_killed, "fork": check_fork,
         "equals": check_equals, "otf2": check_otf2, "names": check_names,
         "names_otf2": check_names_otf2}


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in PARTS:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        PARTS[sys.argv[3]](sys.argv[1], sys.argv[2], folder)


main()
