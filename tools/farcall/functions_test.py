#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `farcall functions`, which prints programs' tables.

Run as: functions_test.py <farcall> <program> <other program>, where both are built from one source
with differences.
"""

import json
import subprocess
import sys
import time


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def expect(is_so, done, what):
    if not is_so:
        raise SystemExit(f"{what}: {done.args}: status {done.returncode}\n{done.stdout}{done.stderr}")


def check_one(farcall, program):
    done = run(farcall, "functions", "--json", program)
    expect(done.returncode == 0, done, "no table")
    described, = json.loads(done.stdout)["programs"]
    by_name = {c["name"]: c for c in described["callables"]}
    names = [c["name"] for c in described["callables"]]
    expect(names == sorted(names), done, "not sorted")
    for name, kind, signature, layout in (
            ("app::changed", "function", "int (int)", "4:4,4:4"),
            ("app::first_of", "function", "double (app::point)", "8:8,16:8"),
            ("app::same", "function", "app::text (app::text)", "own,own"),
            ("app::lengths", "function",
             "std::map<std::string, int> (std::vector<std::string>)", None),
            ("app::adds", "object", "int (int)", "4:4,4:4"),
            ("int (*)(int)", "pointer", "int (int)", "4:4,4:4")):
        c = by_name.get(name)
        expect(c is not None and c["kind"] == kind and c["signature"] == signature, done, name)
        expect(layout is None or c["layout"] == layout, done, name)
    expect(by_name["app::adds"]["contents"] == "4:4", done, "what an object holds")
    expect(any(c["kind"] == "lambda" for c in described["callables"]), done, "no lambda")
    expect(not any(name.startswith("farcall::") for name in names), done, "farcall's own")
    keys = [c["key"] for c in described["callables"]]
    expect(len(set(keys)) == len(keys) and min(keys) > 18, done, "keys")
    text = run(farcall, "functions", "--all", program)
    expect("farcall::detail::allocate_here" in text.stdout, text, "--all")
    expect(f"{program}: " in text.stdout, text, "no summary")


def check_two(farcall, program, other):
    same = run(farcall, "functions", program, program)
    expect(same.returncode == 0 and "the same in both" in same.stdout, same, "one program twice")
    done = run(farcall, "functions", "--json", program, other)
    expect(done.returncode == 1, done, "the programs differ")
    found = {d["name"]: d for d in json.loads(done.stdout)["differences"]}
    expect(set(found) == {"app::changed", "app::first_of", "app::adds", "app::only_in_one"}, done,
           "other differences")
    for name, text in (("app::changed", "other signature: int (int)"),
                       ("app::first_of", "other layout: 8:8,16:8"),
                       ("app::adds", "other contents: 4:4"),
                       ("app::only_in_one", "missing in ")):
        expect(found[name]["why"].startswith(text), done, name)
    expect(found["app::only_in_one"]["second"] is None, done, "a key of what is not there")
    back = run(farcall, "functions", other, program)
    expect(back.returncode == 1 and "4 do not" in back.stdout, back, "the other way round")


def check_errors(farcall, program):
    for words, text in (([], "give one program"), ([program] * 3, "give one program"),
                        (["./no-such-program"], "no such file"),
                        ([f"exec:{program} status,shm"], "names several targets")):
        done = run(farcall, "functions", *words)
        expect(done.returncode == 2 and text in done.stderr, done, words)
    done = run(farcall, "functions", f"exec:{program} jobless")
    expect(done.returncode == 1 and "status 0 before it joined" in done.stderr, done, "jobless")
    begin = time.monotonic()
    done = run(farcall, "functions", "--start-timeout-ms", "300", f"exec:{program} endless")
    expect(done.returncode == 1 and "did not report in time" in done.stderr, done, "endless")
    expect(time.monotonic() - begin < 30, done, "not bounded")
    expect(not left_behind(program), done, "left behind")


def left_behind(program):
    processes = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True,
                               check=True).stdout
    return [p for p in processes.splitlines()
            if program in p and "endless" in p and "functions" not in p and not p.startswith("Z")]


def main():
    farcall, program, other = sys.argv[1:]
    check_one(farcall, program)
    check_two(farcall, program, other)
    check_errors(farcall, program)


if __name__ == "__main__":
    main()
