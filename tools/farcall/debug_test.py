#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `farcall run --gdb`, `--valgrind` and `--wrap`, which start nodes by other commands.

Run as: debug_test.py <farcall> <program> <part>, where <part> is one of PARTS.
"""

import json
import os
import pty
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
TIMEOUT_S = 60


def run(*words, **variables):
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, env={**os.environ, **variables})


def expect(is_so, done, what):
    if not is_so:
        raise SystemExit(f"{what}: {done.args}: status {done.returncode}\n{done.stdout}{done.stderr}")


def require(program):
    if shutil.which(program) is None:
        print(f"{program} is not installed")
        raise SystemExit(SKIPPED)


def check_wrap(farcall, program):
    app = (program, "variable")
    for wrap, node, value in (("env X=1", "0", "1"), ("env X=1", "2", "1"),
                              ("2:env X=1", "2", "1"), ("2:env X=1", "1", "unset"),
                              ("2:env X=1", "0", "unset"), ("0:env X=1", "0", "1"),
                              ("env X=1;2:env 'X=a;b c'", "2", "a;b c"),
                              ("env X=1;2:env 'X=a;b c'", "1", "1")):
        done = run(farcall, "run", "-n", "3", "--wrap", wrap, *app, node)
        expect(done.returncode == 0 and done.stdout == value + "\n", done, wrap)
    done = run(farcall, "run", "-n", "2", *app, "1", FARCALL_WRAP="env X=3")
    expect(done.stdout == "3\n", done, "the variable without the command")
    done = run(farcall, "run", "-n", "2", *app, "1", FARCALL_WRAP="env 'X=3")
    expect(done.returncode != 0 and "FARCALL_WRAP: the command" in done.stderr, done, "no command")
    done = run(farcall, "run", "-n", "2", "--wrap", "1:false", *app, "1")
    expect(done.returncode != 0 and "exited with status 1 before it joined" in done.stderr, done,
           "a wrapper that does not start the program")
    slow = (farcall, "run", "-n", "2", "--wrap", "1:sh -c 'sleep 1; exec \"$@\"' sh", *app, "1")
    done = run(*slow, FARCALL_START_TIMEOUT_MS="200")
    expect(done.returncode != 0 and "did not report in time" in done.stderr, done, "a timeout")
    done = run(*slow, FARCALL_START_TIMEOUT_MS="200", FARCALL_TIMEOUTS="off")
    expect(done.stdout == "unset\n", done, "no timeout counts")
    with tempfile.TemporaryDirectory() as folder:
        tracer = os.path.join(folder, "tracer")
        with open(tracer, "w", encoding="utf-8") as script:
            # Like strace: stays, and ends with the program's status.
            script.write(f'#!/bin/sh\n"$@"\nstatus=$?\necho "$*" >>{folder}/traced\nexit $status\n')
        os.chmod(tracer, os.stat(tracer).st_mode | stat.S_IXUSR)
        done = run(farcall, "run", "-n", "3", "--wrap", tracer, program, "status", "5")
        expect(done.returncode == 5, done, "the host's status")
        with open(os.path.join(folder, "traced"), encoding="utf-8") as traced:
            lines = traced.read().splitlines()
        expect(len(lines) == 3 and all(line == f"{program} status 5" for line in lines), done, lines)


def check_refusals(farcall, program):
    for words, text in ((["--gdb", "--valgrind"], "give one of them"),
                        (["--gdb=9"], "there is no node 9"),
                        (["--gdb=first"], "give the number of a node"),
                        (["--gdb", "2"], "as --gdb=2;"),
                        (["--valgrind", "1"], "as --valgrind=1;"),
                        (["--wrap", "9:env X=1"], "there is no node 9"),
                        (["--hosts", "none", "--gdb"], "leave out --hosts")):
        done = run(farcall, "run", *words, program)
        expect(done.returncode == 2 and text in done.stderr, done, words)
    done = run(farcall, "run", "--gdb", program, PATH="/nowhere")
    expect(done.returncode == 2 and "gdb is not installed" in done.stderr, done, "no gdb")
    done = run(farcall, "run", "-n", "3", "--wrap", "2:env X=1", "--json", program)
    planned = json.loads(done.stdout)
    expect(planned["environment"]["FARCALL_WRAP"] == "2:env X=1" and
           "FARCALL_TIMEOUTS" not in planned["environment"] and
           planned["arguments"] == [program], done, "--json")


def check_gdb(farcall, program):
    require("gdb")
    done = run(farcall, "run", "-n", "3", "--gdb", program, "status", "5")
    expect(done.returncode == 5, done, "the status of the host in gdb")
    done = run(farcall, "run", "-n", "3", "--gdb=2", program, "crash", "2")
    expect(done.returncode == 3, done, "the caller is told")
    expect("SIGSEGV" in done.stdout and "app::stores_at" in done.stdout and
           "debugged_program.cpp:" in done.stdout, done, "where it was")
    expect("node 2 (process " in done.stdout, done, "why the call fails")
    told = [line for line in done.stdout.splitlines() if line.startswith("node 2 (process ")]
    expect(told and "SIGSEGV" in told[0], done, "the caller gets the signal")
    done = run(farcall, "run", "-n", "2", "--gdb", program, "crash", "0")
    expect(done.returncode == 128 + signal.SIGSEGV, done, "the signal of the host in gdb")


def check_terminal(farcall, program):
    """gdb has the terminal, so it receives all input, and interrupts."""
    require("gdb")
    for node in ("0", "1"):
        with tempfile.TemporaryDirectory() as folder:
            go_on = os.path.join(folder, "go-on")
            terminal = terminal_of([farcall, "run", "-n", "3", f"--gdb={node}", program, "held",
                                    go_on])
            terminal.expect("(gdb)")
            terminal.type("break app::doubled\n" if node == "1" else "break wait_for_file\n")
            terminal.expect("Breakpoint 1 at")
            terminal.type("run\n")
            if node == "0":
                terminal.expect("hit Breakpoint 1")
                terminal.type("continue\n")
                terminal.expect("Continuing")
            else:
                terminal.expect("New Thread")
            # The interrupt reaches only this node: the others live on and are called.
            terminal.type("\x03")
            terminal.expect("received signal SIGINT")
            terminal.expect("(gdb)")
            terminal.type("\x03")
            terminal.expect("Quit")
            with open(go_on, "w", encoding="utf-8"):
                pass
            terminal.type("continue\n")
            if node == "1":
                terminal.expect("hit Breakpoint 1")
                terminal.type("continue\n")
            terminal.expect("exited " + ("normally" if node == "1" else "with code 06"))
            terminal.type("quit\n")
            status = terminal.status()
            if status != (6 if node == "1" else 0):  # gdb's status, if it ran the host
                raise SystemExit(f"node {node}: status {status} of\n{terminal.seen}")


class terminal_of:
    """A program on its own terminal, as if a shell had started it."""

    def __init__(self, words):
        self.seen = ""
        self.at = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(words[0], words)

    def expect(self, text):
        """Waits for a text after the last match."""
        end = time.monotonic() + TIMEOUT_S
        while text not in self.seen[self.at:]:
            if time.monotonic() > end or not self.read():
                raise SystemExit(f"no {text!r} in\n{self.seen}")
        self.at = self.seen.index(text, self.at) + len(text)

    def read(self):
        if not select.select([self.fd], [], [], 1)[0]:
            return True
        try:
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
            return True
        except OSError:  # the other end is closed
            return False

    def type(self, text):
        os.write(self.fd, text.encode())

    def status(self):
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                return os.waitstatus_to_exitcode(status)
        raise SystemExit(f"it does not end:\n{self.seen}")


def check_valgrind(farcall, program):
    require("valgrind")
    with tempfile.TemporaryDirectory() as folder:
        # Without the programs that name functions, which are slow in valgrind.
        with open(os.path.join(folder, "valgrind"), "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nexec {shutil.which("valgrind")} "$@"\n')
        os.chmod(script.name, stat.S_IRWXU)
        little = {"PATH": folder, "FARCALL_HEAP_BYTES": "67108864"}
        done = run(farcall, "run", "-n", "2", "--valgrind", program, "crash", "1", **little)
        expect(done.returncode == 3 and "node 1 (process " in done.stdout, done,
               "the caller is told, and the status is the host's")
        expect(done.stderr.count("Memcheck, a memory error detector") == 2, done, "both nodes")
        expect("Invalid write of size 4" in done.stderr and "app::stores_at" in done.stderr, done,
               "what is wrong")


PARTS = {"wrap": check_wrap, "refusals": check_refusals, "gdb": check_gdb,
         "terminal": check_terminal, "valgrind": check_valgrind}


def main():
    farcall, program, part = sys.argv[1:]
    PARTS[part](farcall, program)


if __name__ == "__main__":
    main()
