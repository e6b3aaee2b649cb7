#!/usr/bin/env python3
"""Asks `farcall bench` for what it must pass on to farcall-bench, and takes that away.

Run as: bench_test.py <farcall>.
"""

import os
import shutil
import subprocess
import sys
import tempfile


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def expect(done, status, text, where):
    said = done.stdout if where == "out" else done.stderr
    if done.returncode != status or text not in said:
        raise SystemExit(f"{done.args}: status {done.returncode}, not {status}, or no {text!r} in:\n"
                         f"{done.stdout}{done.stderr}")


def check_door(farcall):
    expect(run(farcall, "bench", "--help"), 0, "Usage: farcall bench [OPTIONS] SUBCOMMAND", "out")
    expect(run(farcall, "bench", "offload", "--help"), 0, "Usage: farcall bench offload", "out")
    expect(run(farcall, "bench"), 2, "A subcommand is required", "err")
    expect(run(farcall, "bench", "nonsense"), 2, 'farcall: there is no command "nonsense"', "err")
    expect(run(farcall, "bench", "floor", "--batches", "3"), 2, "--batches: Value 3", "err")
    expect(run(farcall, "bench", "bandwidth", "--pages=huge", "--max-bytes", "1KiB"), 2,
           "farcall: --max-bytes 1024: no block of that size", "err")
    expect(run(farcall, "bench", "floor", "--quick", "--batches", "20", "--json"), 0,
           '"floor_ns": {', "out")
    expect(run(farcall, "bench", "offload", "--quick", "--batches", "20", "--json"), 0,
           '"ring_only_ns": {', "out")
    expect(run(farcall, "bench", "offload", "--quick", "--batches", "20"), 0,
           "engine: empty - ring only = ", "out")


def check_without(farcall):
    with tempfile.TemporaryDirectory() as folder:
        alone = os.path.join(folder, "farcall")
        shutil.copy(farcall, alone)
        done = run(alone, "bench", "floor")
        expect(done, 1, f"farcall: there is no {folder}/farcall-bench", "err")
        expect(done, 1, "--target farcall_bench", "err")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    check_door(sys.argv[1])
    check_without(sys.argv[1])


if __name__ == "__main__":
    main()
