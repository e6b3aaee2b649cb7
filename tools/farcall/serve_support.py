# SPDX-License-Identifier: Apache-2.0
"""Servers and hosts for the tests of `farcall serve`."""

import contextlib
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

LIMIT_S = 60


def expect(is_so, what):
    if not is_so:
        raise SystemExit(f"not so: {what}")


def until(is_so, what):
    """Waits until `is_so` returns a true value, and returns that."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"did not come about: {what}")


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            if entry.isdigit():
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.append(int(entry))
    return found


class Server:
    """A process of `farcall serve` whose lines are read as they arrive."""

    def __init__(self, words, **how):
        how.setdefault("env", {k: v for k, v in os.environ.items() if k != "FARCALL_LOG"})
        how.setdefault("stdin", subprocess.DEVNULL)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, **how)
        self.log = []
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.url = ""
        first = self.process.stdout.readline()
        found = re.match(r"farcall: serving at ((?:tcp|unix)://\S+), ", first)
        if found is None:
            self.end()
            raise SystemExit(f"it does not serve: {first}{self.log}")
        self.url = found[1]
        self.status = None
        if "--status" in words:
            line = self.process.stdout.readline()
            while line.startswith("farcall: serving at "):  # further addresses
                line = self.process.stdout.readline()
            self.status = re.search(r"(http://\S+)/readyz", line)[1]

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def end(self):
        """Returns the exit status; kills the process if it still runs."""
        self.process.kill()
        self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        path = self.url.removeprefix("unix://")
        if path != self.url and os.path.exists(path):  # left by a killed server
            os.unlink(path)
        return self.process.returncode

    def wait(self):
        self.process.wait(LIMIT_S)
        return self.end()

    def page(self, path):
        try:
            with urllib.request.urlopen(self.status + path, timeout=LIMIT_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@contextlib.contextmanager
def job(program, url, **variables):
    """A host that keeps two targets at work for the duration of the block."""
    variables = {**os.environ, "FARCALL_TARGETS": f"{url}?count=2", **variables}
    with subprocess.Popen([program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=variables) as host:
        try:
            yield host
        finally:
            host.stdin.close()
            host.words = host.stderr.read()
            host.wait(LIMIT_S)


def passing(sockets, pid="$$", count=None):
    """Returns command prefix and arguments of a process that gets these sockets as descriptors from 3
    on, like from a service manager."""
    placed = "".join(f"{3 + n}<&{10 + n} {10 + n}<&- " for n in range(len(sockets)))
    count = len(sockets) if count is None else count
    script = (f"exec {placed}; export LISTEN_PID={pid} LISTEN_FDS={count} LISTEN_FDNAMES=a:b; "
              "exec \"$@\"")

    def place():
        # Move the descriptors up first, so that they do not overwrite each other.
        high = [os.dup2(s.fileno(), 200 + n, inheritable=False) for n, s in enumerate(sockets)]
        for n, fd in enumerate(high):
            os.dup2(fd, 10 + n)

    return ["/bin/bash", "-c", script, "bash"], {"preexec_fn": place, "close_fds": False}
