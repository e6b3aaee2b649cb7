#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `farcall top` on a running job, with each of its outputs.

Run as: top_test.py <farcall> <program of a job that ends with its standard input>
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request

LIMIT_S = 60


def run(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          **how)


def check(is_so, what):
    if not is_so:
        raise SystemExit(f"not so: {what}")


@contextlib.contextmanager
def job(program):
    with subprocess.Popen([program], stdin=subprocess.PIPE) as host:
        try:
            yield host.pid
        finally:
            host.stdin.close()
            host.wait(LIMIT_S)
    check(host.returncode == 0, f"the job ends well: {host.returncode}")


def wait_until_it_calls(farcall, host):
    """Returns the nodes of the job after an interval in which all of them worked. On a busy machine
    the job may make no progress for a while, so intervals become longer."""
    end = time.monotonic() + LIMIT_S
    delay_ms = 300
    while time.monotonic() < end:
        done = run(farcall, "top", "--once", "--json", "--delay", str(delay_ms), "--pid", str(host))
        delay_ms = min(2 * delay_ms, 10000)
        if done.returncode == 0:
            nodes = json.loads(done.stdout)["nodes"]
            # A node that came during the interval has no rates yet.
            if (len(nodes) == 3 and all(n["calls_per_s"] > 0 and n["busy"] is not None
                                        for n in nodes if n["node"] > 0)
                    and nodes[0]["bytes_copied_per_s"] > 0 and nodes[2]["busy"] > 0):
                return nodes
    raise SystemExit(f"the job was not seen at work:\n{done.stdout}{done.stderr}")


def check_json(farcall, host):
    host_node, quick, slow = wait_until_it_calls(farcall, host)
    check(host_node["pid"] == host and host_node["job"] == host, "the host is known by its number")
    check([n["node"] for n in (host_node, quick, slow)] == [0, 1, 2], "nodes are in order")
    check(host_node["program"] == os.path.basename(os.readlink(f"/proc/{host}/exe")), "its program is named")
    check(quick["route"] == "shm" and quick["is_here"], "the route is that of the host")
    check(quick["p50_ns"] is None or 0 < quick["p50_ns"] < 1e9, "p50 is a duration")
    check(slow["calls_per_s"] < quick["calls_per_s"], "the quick one serves more")
    check(slow["function"] == "linger in C", f"the slow one lingers: {slow}")
    check(all(n["resident_bytes"] > 0 for n in (host_node, quick, slow)), "all take memory")


def check_text(farcall, host):
    # A pipe is not a terminal: names are not cut, and the output is plain text.
    done = run(farcall, "top", "--iterations", "2", "--delay", "200", "--pid", str(host))
    check(done.returncode == 0 and "\x1b" not in done.stdout, "a pipe gets plain text")
    tables = done.stdout.strip().split("\n\n")
    check(len(tables) == 2, f"two tables: {done.stdout}")
    check(tables[0].split()[0:2] == ["node", "name"], "with headers")
    lines = run(farcall, "top", "--json", "--iterations", "2", "--delay", "100", "--pid",
                str(host)).stdout.splitlines()
    check(len(lines) == 2 and all(json.loads(line)["nodes"] for line in lines), "a line for each")
    by_calls = run(farcall, "top", "--once", "--json", "--sort", "calls", "--pid", str(host))
    rates = [n["calls_per_s"] for n in json.loads(by_calls.stdout)["nodes"]]
    check(len(rates) == 3 and rates == sorted(rates, reverse=True), f"by calls: {rates}")
    closed = subprocess.run(f"{farcall} top --pid {host} --delay 50 | head -1", shell=True,
                            capture_output=True, text=True, timeout=LIMIT_S, check=False)
    check("node" in closed.stdout, "who reads one line gets it, and both end")


class Terminal:
    """A command on a terminal of a given size."""

    def __init__(self, rows, columns, *words, term="xterm"):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = term
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(words[0], words)
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        end = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.seen):
            check(time.monotonic() < end, f"{pattern!r} appears in {self.seen!r}")
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                got = os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:
                got = ""
            check(got, f"it goes on until {pattern!r}: {self.seen!r}")
            self.seen += got

    def press(self, keys):
        self.seen = ""
        os.write(self.fd, keys.encode())

    def status(self):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.05)[0]:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, 9)
        raise SystemExit("it does not end")


def check_terminal(farcall, host):
    for rows, columns in ((5, 20), (24, 80), (50, 300), (1, 1), (2, 10)):
        shown = Terminal(rows, columns, farcall, "top", "--delay", "100", "--pid", str(host))
        if rows > 2:
            shown.wait_for("node")
        shown.press("cblwumn")
        shown.resize(rows + 3, columns + 10)
        shown.press("q")
        check(shown.status() == 0, f"it ends with q at {columns}x{rows}")
    shown = Terminal(24, 100, farcall, "top", "--delay", "100", "--pid", str(host))
    # Formatted as in the table: without an exponent, and with no more digits than are known.
    shown.wait_for(r"3 nodes, 3 processes here, (\d{3,}|\d+\.\d) calls/s")
    shown.press("?")
    shown.wait_for("show or hide this help")
    shown.wait_for("durations of calls to the node")
    shown.press("?")
    shown.wait_for("calls/s")
    shown.press("p")
    shown.wait_for("paused")
    os.kill(shown.pid, 15)
    check(shown.status() == 0 and "\x1b[?1049l" in shown.seen, "SIGTERM gives the terminal back")
    poor = Terminal(24, 80, farcall, "top", "--pid", str(host), term="no-such-terminal")
    check(poor.status() == 1 and "TERM=no-such-terminal" in poor.seen, "a clear error for TERM")


def metrics_in(text):
    """Returns labels and values of each metric by name, as read by Prometheus' own client. It is
    Debian's (python3-prometheus-client), so only Debian's Python finds it."""
    read = ("import json, sys\n"
            "from prometheus_client.parser import text_string_to_metric_families as families\n"
            "print(json.dumps({f.name: [(s.labels, s.value) for s in f.samples]"
            " for f in families(sys.stdin.read())}))")
    done = run("/usr/bin/python3", "-c", read, input=text)
    check(done.returncode == 0, f"the text is Prometheus': {done.stderr}")
    return json.loads(done.stdout)


def status_for(address, name):
    """Returns the status for a client that takes this machine for `name`."""
    asked = urllib.request.Request(f"http://{address}/metrics", headers={"Host": name})
    try:
        with urllib.request.urlopen(asked, timeout=LIMIT_S) as reply:
            return reply.status
    except urllib.error.HTTPError as e:
        return e.code


def check_metrics(farcall, host):
    with subprocess.Popen([farcall, "top", "--listen", "127.0.0.1:0", "--pid", str(host)],
                          stdout=subprocess.PIPE, text=True) as server:
        where = server.stdout.readline().strip()
        families, calls_before = {}, {}
        end = time.monotonic() + LIMIT_S
        while True:
            with urllib.request.urlopen(where, timeout=LIMIT_S) as reply:
                check(reply.headers["Content-Type"].startswith("text/plain"), "it is text")
                families = metrics_in(reply.read().decode())
            calls = {s["peer"]: value for s, value in families["farcall_calls"]
                     if s["node"] == "0"}
            if calls_before and calls["1"] > calls_before["1"]:
                break
            check(time.monotonic() < end, f"calls grow: {calls_before}, {calls}")
            calls_before = calls_before or calls
            time.sleep(0.1)
        functions = {s["function"] for s, _ in families["farcall_handler_calls"]}
        check(any("sum" in f for f in functions), f"functions have names: {functions}")
        try:
            urllib.request.urlopen(where.replace("/metrics", "/etc/passwd"), timeout=LIMIT_S)
            raise SystemExit("another page is there")
        except urllib.error.HTTPError as e:
            check(e.code == 404, "there is nothing else")
        address = where.split("/")[2]
        for name, status in (("evil.example", 403), ("127.evil.example:80", 403),
                             ("localhost:1", 200), (f"[::1]:{address.split(':')[1]}", 200)):
            check(status_for(address, name) == status, f"a page named {name}: {status}")
        with socket.create_connection(address.split(":"), timeout=LIMIT_S) as silent:
            check(status_for(address, address) == 200, "one that says nothing keeps nobody waiting")
            check(not select.select([silent], [], [], 0)[0], "it may still ask")
        taken = run(farcall, "top", "--listen", where.split("/")[2], "--pid", str(host))
        check(taken.returncode == 1 and "cannot listen on" in taken.stderr, "a port that is taken")
        with socket.create_connection(address.split(":"), timeout=LIMIT_S) as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            server.terminate()
            # A client that never finishes its request does not keep the server from ending.
            end = time.monotonic() + LIMIT_S
            while server.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    slow.sendall(b"a")
                time.sleep(0.1)
        check(server.wait(1) == 0, "SIGTERM ends it")


@contextlib.contextmanager
def offered(content, length):
    """Makes this process look like one with counters."""
    file = os.memfd_create("farcall-counters", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, length)
        os.pwrite(file, content, 0)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        yield
    finally:
        os.close(file)


def check_damaged(farcall, host):
    """Damaged counters do not keep other processes' counters from being shown."""
    pid = os.getpid()
    header = struct.pack("8sIIQqqII", b"farcount", 1, 128, 192, pid, pid, 0, 0)
    for content, length in ((header, 192), (b"", 4096), (header, 1 << 33)):
        with offered(content, length):
            done = run(farcall, "top", "--once", "--json", "--delay", "50", "--pid", str(host))
            check(done.returncode == 0 and len(json.loads(done.stdout)["nodes"]) == 3,
                  f"the job is seen beside what is damaged: {done}")
            check("cannot be read" in done.stderr, f"it is said: {done.stderr}")
            none = run(farcall, "top", "--once", "--pid", str(pid))
            check(none.returncode == 1 and "is in no job" in none.stderr, f"alone: {none}")


def check_mistakes(farcall):
    none = run(farcall, "top", "--once", "--pid", str(os.getpid()))
    check(none.returncode == 1 and f"process {os.getpid()} is in no job" in none.stderr,
          f"a process without a job: {none.stderr}")
    check(run(farcall, "top", "--delay", "1").returncode == 2, "a delay that is too short")
    check(run(farcall, "top", "--sort", "colour").returncode == 2, "an order that is none")
    open_to_all = run(farcall, "top", "--listen", "0.0.0.0:0")
    check(open_to_all.returncode == 2 and "loopback" in open_to_all.stderr, "loopback only")
    for other in (("--once",), ("--json",), ("--iterations", "2")):
        both = run(farcall, "top", "--listen", "127.0.0.1:0", *other)
        check(both.returncode == 2 and "leave out --once" in both.stderr, f"--listen {other}")


def check_end(farcall, program):
    """The table ends together with the job."""
    with job(program) as host:
        wait_until_it_calls(farcall, host)
        look = subprocess.Popen([farcall, "top", "--delay", "100", "--pid", str(host)],
                                stdout=subprocess.PIPE, text=True)
        look.stdout.readline()
    look.communicate(timeout=LIMIT_S)
    check(look.returncode == 0, "it ends with the job")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    farcall, program = map(os.path.abspath, sys.argv[1:])
    with job(program) as host:
        check_json(farcall, host)
        check_text(farcall, host)
        check_terminal(farcall, host)
        check_metrics(farcall, host)
        check_damaged(farcall, host)
    check_mistakes(farcall)
    check_end(farcall, program)


if __name__ == "__main__":
    main()
