#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without a job by `farcall run`.

Run as: run_test.py <farcall> <program of a job that ends with its standard input>
"""

import signal
import subprocess
import sys

LIMIT_S = 60
NOTICE = "has ended and made no job, so {} had no effect; "


def run(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL, **how)


def expect(condition, *what):
    if not condition:
        raise SystemExit(" ".join(map(str, ("expected otherwise:",) + what)))


def main():
    farcall, program = sys.argv[1:]
    # A program without a job is named, and its output and status are kept.
    for options, named in ((("-n", "4"), "-n 4"), (("--targets", "shm:2"), "--targets"),
                           (("--spmd", "-n", "2"), "-n 2"), (("--label", "-n", "2"), "-n 2")):
        done = run(farcall, "run", *options, "/bin/sh", "-c", "echo printed; exit 7")
        expect(done.returncode == 7 and done.stdout.endswith("printed\n"), options, done)
        expect(done.stderr.startswith("farcall run: /bin/sh " + NOTICE.format(named)), options, done)
    # Programs without these options may do without a job.
    done = run(farcall, "run", "/bin/sh", "-c", "exit 3")
    expect(done.returncode == 3 and done.stderr == "", done)
    # A program with a job, itself and behind an interpreter.
    for words in ((program,), ("/bin/sh", "-c", f"'{program}'"), ("/bin/sh", "-c", f"exec '{program}'")):
        for option in ((), ("--label",)):
            done = run(farcall, "run", *option, "--targets", "shm:2", *words)
            expect(done.returncode == 0 and NOTICE.format("--targets") not in done.stderr, words, done)
    # Signals go to the program.
    with subprocess.Popen([farcall, "run", "-n", "2", "/bin/sh", "-c", "echo ready; read line"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as host:
        expect(host.stdout.readline() == "ready\n", "the program runs")
        host.send_signal(signal.SIGTERM)
        host.wait(LIMIT_S)
        expect(host.returncode == 128 + signal.SIGTERM, host.returncode)


if __name__ == "__main__":
    main()
