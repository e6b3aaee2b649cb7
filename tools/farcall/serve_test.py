#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of operating `farcall serve`: logs, pages, signals, service managers, core dumps.

Run as: serve_test.py <farcall> <program of a job that ends with its standard input> <part>, where
<part> is one of PARTS.
"""

import contextlib
import datetime
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile

from serve_support import LIMIT_S, Server, children_of, expect, job, passing, until

FARCALL, PROGRAM, PART = sys.argv[1:]


def serving(*options, before=(), **how):
    return Server([*before, FARCALL, "serve", *options, PROGRAM], **how)


def refused_job(url):
    """Returns the message of a host that gets no targets."""
    with job(PROGRAM, url) as host:
        host.wait(LIMIT_S)
    expect(host.returncode != 0, f"no job can be had: {host.words}")
    return host.words


def events(server, name):
    return [e for e in map(json.loads, server.log) if e["event"] == name]


def has_two_targets(server):
    return until(lambda: len(children_of(server.process.pid)) == 2 and
                 children_of(server.process.pid), "two targets run")


def log():
    begun = datetime.datetime.now(datetime.timezone.utc)
    with serving("--plain", "--log-format", "json", "--status", "127.0.0.1:0") as server:
        with job(PROGRAM, server.url) as host:
            targets = has_two_targets(server)
            started = until(lambda: len(e := events(server, "target_started")) == 2 and e,
                            "started")
        expect(host.returncode == 0, f"the job ends well: {host.words}")
        ended = until(lambda: len(e := events(server, "target_ended")) == 2 and e, "ended")
        until(lambda: events(server, "host_disconnected"), "the host has left")
        pids = [{e["pid"] for e in which} for which in (started, ended)]
        expect(pids == 2 * [set(targets)], f"by number: {pids}")
        expect({e["reason"] for e in ended} == {"exited with status 0"}, f"how they ended: {ended}")
        connected = events(server, "host_connected")
        expect(len(connected) == 1 and connected[0]["job"] == started[0]["job"], "one host came")
        expect(re.fullmatch(r"127\.0\.0\.1:\d+", connected[0]["address"]), "from where")
        # Bytes from peers are escaped in the log.
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as intruder:
            intruder.sendall(b"\x1b[2J\n{\"event\":\"forged\"}" + b" " * 40)
            with contextlib.suppress(ConnectionResetError):
                expect(intruder.recv(1) == b"", "it is sent away")
        refusal = until(lambda: events(server, "connection_refused"), "a refusal")[0]
        expect(refusal["cause"] == "protocol" and refusal["level"] == "warning", f"{refusal}")
        server.process.send_signal(signal.SIGTERM)
        expect(server.wait() == 0, "the first signal ends a server without targets")
    expect(len(events(server, "draining")) == len(events(server, "ending")) == 1, "it says so")
    now = datetime.datetime.now(datetime.timezone.utc)
    for line in map(json.loads, server.log):
        expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]), line)
        at = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
        expect(begun - datetime.timedelta(seconds=1) < at <= now, f"{line} is of this time")
    with serving() as server:
        with job(PROGRAM, server.url):
            has_two_targets(server)
        at = f"{os.getuid()}"
        expect(any(f"a process of user {at}" in line for line in server.log), server.log)
        until(lambda: any("no target here any more" in line for line in server.log), server.log)
        for line in server.log:
            expect(re.match(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z farcall\[\d+\] info: ", line), line)
    with serving(env={**os.environ, "FARCALL_LOG": "warning"}) as server:
        with job(PROGRAM, server.url):
            has_two_targets(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait()
        expect(server.log == [], f"FARCALL_LOG goes for these lines, too: {server.log}")


def unread_log():
    """A blocked reader of the log does not block the server; lost lines are counted."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8", errors="replace") as log_file:
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4095 + b"\n")
        os.set_blocking(writing, True)
        with subprocess.Popen([FARCALL, "serve", PROGRAM], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=writing, text=True) as server:
            os.close(writing)
            url = re.search(r"unix://[^,]*", server.stdout.readline())[0]
            with job(PROGRAM, url) as host:
                until(lambda: len(children_of(server.pid)) == 2, "two targets run")
            expect(host.returncode == 0, f"the job ends well: {host.words}")
            until(lambda: not children_of(server.pid), "the targets have ended")
            log_file.reconfigure(newline=None)
            line = log_file.readline()
            while line.startswith("x"):
                # The server ends once the pipe has space.
                if server.returncode is None and server.poll() is None:
                    server.send_signal(signal.SIGTERM)
                line = log_file.readline()
            expect("warning: lines of this log that nobody read are lost: " in line, line)
            expect(server.wait(LIMIT_S) == 0, "and the server ends")


def metric(server, name):
    status, text = server.page("/metrics")
    expect(status == 200, text)
    return float(re.search(rf"^{re.escape(name)} (.*)$", text, re.MULTILINE)[1])


def status():
    # --core-dumps lets this test read the server's descriptors.
    with serving("--status", "127.0.0.1:0", "--core-dumps") as server:
        for path in ("/livez", "/readyz"):
            expect(server.page(path)[0] == 200, path)
        expect(server.page("/other")[0] == 404, "nothing else is there")
        with job(PROGRAM, server.url) as host:
            has_two_targets(server)
            expect(metric(server, "farcall_server_targets") == 2, "two targets")
            expect(metric(server, "farcall_server_hosts") == 1, "one host")
            address = ("127.0.0.1", int(server.status.rpartition(":")[2]))
            idle = [socket.create_connection(address, timeout=LIMIT_S) for _ in range(300)]
            expect(server.page("/livez")[0] == 200, "clients that say nothing keep nobody waiting")
            fds = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            expect(fds < 200, f"nor do they cost more than some descriptors: {fds}")
            for one in idle:
                one.close()
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.page("/readyz")[0] == 503, "a server that drains is not ready")
            expect(server.page("/livez")[0] == 200, "and alive")
            expect(metric(server, "farcall_server_draining") == 1, "as the metrics say")
            words = refused_job(server.url)
            expect("draining" in words, f"other hosts are told: {words}")
            refused = 'farcall_server_refused_connections_total{cause="draining"}'
            # The job requests two targets at once, and may leave before the second is refused.
            expect(metric(server, refused) in (1, 2), "and counted")
            expect(host.poll() is None, "the job goes on")
        expect(host.returncode == 0, f"and ends well: {host.words}")
        expect(server.wait() == 0, "its last target ends the server")
    taken = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    done = subprocess.run([FARCALL, "serve", "--status", address, PROGRAM], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False)
    expect(done.returncode == 1 and f"--status: cannot listen on {address}" in done.stderr,
           done.stderr)
    taken.close()


def reload():
    with tempfile.TemporaryDirectory() as folder:
        clients = f"{folder}/clients"

        def admit(lines):
            with open(clients, "w", encoding="utf-8", opener=lambda path, flags: os.open(
                    path, flags, 0o600)) as file:
                file.write(lines)

        admit(f"alice {64 * 'a'}\n")
        with serving("--clients", clients, "--log-format", "json") as server:
            admit("alice what?\n")
            server.process.send_signal(signal.SIGHUP)
            failed = until(lambda: events(server, "not_reloaded"), "files that cannot be used")[0]
            expect(failed["level"] == "error" and f"{clients}, line 1" in failed["reason"] and
                   failed["reason"] in failed["text"], failed)
            admit(f"bob {64 * 'b'}\n")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: events(server, "reloaded"), "files that can")
            expect(len(events(server, "not_reloaded")) == 1 and not events(server, "log"),
                   f"each is told once: {server.log}")
        subprocess.run([FARCALL, "keygen", f"{folder}/key"], check=True, stdout=subprocess.DEVNULL)
        reading, writing = os.pipe()
        with open(writing, "wb", 0) as entrance, open(f"{folder}/key", "rb") as key:
            entrance.write(key.read())
            with serving("--key-from-stdin", "--log-format", "json", stdin=reading) as server:
                os.close(reading)
                server.process.send_signal(signal.SIGHUP)
                failed = until(lambda: events(server, "not_reloaded"), "it has no file")[0]
                expect("--key-from-stdin" in failed["reason"] and "/proc/" not in failed["reason"],
                       failed)
                with job(PROGRAM, server.url, FARCALL_KEY=f"{folder}/key") as host:
                    has_two_targets(server)
                expect(host.returncode == 0, f"it goes on: {host.words}")


def signals():
    with serving() as server, job(PROGRAM, server.url) as host:
        targets = has_two_targets(server)
        server.process.send_signal(signal.SIGINT)
        until(lambda: any("draining" in line for line in server.log), "it drains")
        expect(host.poll() is None, "the job goes on")
        server.process.send_signal(signal.SIGTERM)
        expect(server.wait() == 0, "the second signal ends it")
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in targets),
              "with its targets")
        host.wait(LIMIT_S)
    expect("its server has ended" in host.words and "interferes" not in host.words, host.words)


def end_of_input():
    """With the key from standard input, the server ends at once with it, and names no peers."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory() as folder, open(writing, "wb", 0) as entrance:
        key = f"{folder}/key"
        subprocess.run([FARCALL, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        with open(key, "rb") as file:
            entrance.write(file.read())
        with serving("--key-from-stdin", stdin=reading) as server:
            os.close(reading)
            with job(PROGRAM, server.url, FARCALL_KEY=key) as host:
                targets = has_two_targets(server)
                entrance.write(b"what follows the key means nothing")
                expect(host.poll() is None and server.process.poll() is None, "both go on")
                entrance.close()
                expect(server.wait() == 0, "it ends")
                until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in targets),
                      "with its targets")
                host.wait(LIMIT_S)
            expect("its server has ended" in host.words, host.words)
            expect(server.log == [], server.log)


def notify():
    with tempfile.TemporaryDirectory() as folder:
        for name in (f"{folder}/notify", f"\0farcall-test-{os.getpid()}"):
            notified(name)
    for variables, words in (({"NOTIFY_SOCKET": "elsewhere"}, "NOTIFY_SOCKET"),
                             ({"NOTIFY_SOCKET": "/" + 200 * "x"}, "NOTIFY_SOCKET"),
                             ({"NOTIFY_SOCKET": "/does/not/exist"}, "NOTIFY_SOCKET"),
                             ({"WATCHDOG_USEC": "soon"}, "WATCHDOG_USEC")):
        with serving(env={**os.environ, **variables}) as server:
            until(lambda words=words: any("warning" in line and words in line
                                          for line in server.log), f"{variables} is warned of")
            with job(PROGRAM, server.url) as host:
                has_two_targets(server)
            expect(host.returncode == 0, "it serves all the same")


def notified(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(LIMIT_S)
        received = []

        def await_state(state):
            while state not in received:
                received.append(manager.recv(4096).decode())
            return True

        variables = {"NOTIFY_SOCKET": name.replace("\0", "@"), "WATCHDOG_USEC": "400000"}
        with serving(env={**os.environ, **variables}) as server:
            await_state("READY=1")
            expect("STOPPING=1" not in received, received)
            await_state("STATUS=0 targets of 0 hosts")
            await_state("WATCHDOG=1")
            with job(PROGRAM, server.url) as host:
                target = has_two_targets(server)[0]
                await_state("STATUS=2 targets of 1 host")
                with open(f"/proc/{target}/environ", "rb") as file:
                    given = file.read()
                expect(b"NOTIFY_SOCKET" not in given and b"WATCHDOG" not in given,
                       "not for targets")
                server.process.send_signal(signal.SIGTERM)
                await_state("STOPPING=1")
                await_state("STATUS=draining, 2 targets of 1 host")
                received.clear()
                await_state("WATCHDOG=1")
            expect(host.returncode == 0 and server.wait() == 0, "both end well")
            # A stopped server sends no WATCHDOG=1.
        with serving(env={**os.environ, **variables}) as server:
            received.clear()
            await_state("WATCHDOG=1")
            server.process.send_signal(signal.SIGSTOP)
            manager.settimeout(1)
            with contextlib.suppress(TimeoutError):
                while True:
                    manager.recv(4096)
            expect(server.process.poll() is None, "it was stopped, and silent")


def refused_sockets(sockets, *options, **named):
    before, how = passing(sockets, **named)
    done = subprocess.run([*before, FARCALL, "serve", *options, PROGRAM], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False, **how)
    expect(done.returncode in (1, 2), f"it does not serve: {done}")
    return done.stderr


def activation():
    with contextlib.ExitStack() as open_sockets:
        def made(one):
            return open_sockets.enter_context(one)
        folder = made(tempfile.TemporaryDirectory())
        first, second = (made(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        local = made(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        local.bind(f"{folder}/socket")
        local.listen()
        all_three = (first, second, local)
        before, how = passing(all_three)
        with serving("--plain", before=before, **how) as server:
            urls = {server.url}
            for _ in range(2):
                urls.add(re.search(r"(tcp|unix)://[^,]*", server.process.stdout.readline())[0])
            expect(urls == {f"tcp://127.0.0.1:{s.getsockname()[1]}" for s in (first, second)} |
                   {f"unix://{folder}/socket"}, urls)
            for url in sorted(urls):
                with job(PROGRAM, url) as host:
                    target = has_two_targets(server)[0]
                    with open(f"/proc/{target}/environ", "rb") as file:
                        expect(b"LISTEN_" not in file.read(), "not for targets")
                    held = [os.readlink(f"/proc/{target}/fd/{fd}")
                            for fd in os.listdir(f"/proc/{target}/fd")]
                    inodes = {f"socket:[{os.fstat(s.fileno()).st_ino}]" for s in all_three}
                    expect(not inodes & set(held), "targets do not have the sockets")
                expect(host.returncode == 0, host.words)
                until(lambda: not children_of(server.process.pid), "the targets have ended")
        expect(os.path.exists(f"{folder}/socket"), "what the manager has made is the manager's")
        # Sockets for another process.
        before, how = passing([first], pid="1")
        with serving(before=before, **how) as server:
            expect(server.url != f"tcp://127.0.0.1:{first.getsockname()[1]}", "not its sockets")
        said = refused_sockets([first], "--listen", "127.0.0.1:0")
        expect("leave out --listen" in said, said)
        wide = made(socket.create_server(("0.0.0.0", 0)))
        said = refused_sockets([local, first])
        expect("without a key" in said and "127.0.0.1:" in said, said)
        said = refused_sockets([first, wide], "--plain")
        expect("--i-trust-this-network" in said and "0.0.0.0:" in said, said)
        nameless = made(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        nameless.bind(f"\0farcall-test-{os.getpid()}")
        nameless.listen()
        datagrams = made(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        not_listening = made(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        file = made(open("/dev/null", "rb"))
        for wrong, words in ((nameless, "neither a TCP socket"), (datagrams, "neither a TCP socket"),
                             (not_listening, "does not listen"), (file, "is no socket")):
            said = refused_sockets([first, wrong])
            expect("descriptor 4" in said and words in said, said)
        said = refused_sockets([first], count=700)
        expect("LISTEN_FDS=700" in said, f"fewer than were named: {said}")
        for named in ({"count": "many"}, {"count": 5000}, {"pid": "me"}):
            said = refused_sockets([first], **named)
            expect("LISTEN_" in said and "service manager" in said, said)


def limit_of(pid):
    with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
        return re.search(r"Max core file size +(\S+)", file.read())[1]


def without_handlers():
    """Returns an environment in which sanitizers do not handle faults."""
    changed = {name: os.environ.get(name, "") + ":disable_coredump=0:handle_segv=0"
               for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}
    return {**{k: v for k, v in os.environ.items() if k != "FARCALL_LOG"}, **changed}


def dumps_core(process):
    """Returns true if a fault of the process leaves a core dump."""
    process.send_signal(signal.SIGSEGV)
    return os.WCOREDUMP(os.waitpid(process.pid, 0)[1])


def core_dumps():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    with tempfile.TemporaryDirectory() as folder:
        how = {"cwd": folder, "env": without_handlers(),
               "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))}
        with subprocess.Popen(["sleep", "1000"], **how) as other:
            until(lambda: os.readlink(f"/proc/{other.pid}/exe").endswith("sleep"), "it runs")
            others_dump = dumps_core(other)
            limit = limit_of(os.getpid()) if hard == 0 else None
        for options, allowed in (((), False), (("--core-dumps",), True)):
            with serving(*options, **how) as server:
                with job(PROGRAM, server.url) as host:
                    target = has_two_targets(server)[0]
                    expect(limit is None or limit_of(target) == limit, "targets have that limit")
                    if os.getuid() != 0:
                        for pid, owner in ((server.process.pid, os.getuid() if allowed else 0),
                                           (target, os.getuid())):
                            expect(os.stat(f"/proc/{pid}/environ").st_uid == owner, f"{options}")
                expect(host.returncode == 0, host.words)
                expect(dumps_core(server.process) == (allowed and others_dump), f"{options}")
                server.process.returncode = -signal.SIGSEGV


def left_sockets():
    """The next server removes a killed server's socket, and no other files."""
    with tempfile.TemporaryDirectory() as folder:
        how = {"env": {**os.environ, "XDG_RUNTIME_DIR": folder}}

        def path_of(server):
            path = server.url.removeprefix("unix://")
            expect(os.path.dirname(path) == folder, f"a socket there: {path}")
            return path

        def left(name):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
                one.bind(f"{folder}/{name}")
            return f"{folder}/{name}"

        digits = 16 * "a"
        kept = [left("other.socket"), left(f"farcall-{digits}a.socket"),
                left(f"farcall-{digits}.socket.old"), left(f"farcall-{16 * 'x'}.socket"),
                f"{folder}/farcall-{16 * 'b'}.socket"]
        with open(kept[-1], "wb"):
            pass
        if os.getuid() == 0:
            kept.append(left(f"farcall-{16 * 'c'}.socket"))
            os.chown(kept[-1], 1, 1)
        with serving(**how) as live, serving(**how) as killed:
            killed.process.kill()
            killed.process.wait(LIMIT_S)
            expect(os.path.exists(path_of(killed)), "it is left there")
            with serving(**how) as server:
                expect(not os.path.exists(path_of(killed)), "it is gone")
                for path in [*kept, path_of(live), path_of(server)]:
                    expect(os.path.exists(path), f"{path} stays")
            with job(PROGRAM, live.url) as host:
                has_two_targets(live)
            expect(host.returncode == 0, host.words)
            expect(not any("refused" in line for line in live.log), f"undisturbed: {live.log}")


def warnings(*options, **variables):
    """Returns the warnings of a server with these variables."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
    with serving(*options, env={**own, **variables}) as server:
        server.process.send_signal(signal.SIGTERM)
        expect(server.wait() == 0, f"it serves all the same: {server.log}")
    return [line.partition("warning: ")[2] for line in server.log if " warning: " in line]


def variables():
    """A server warns of variables that only hosts read."""
    for name, option in (("FARCALL_KEY", "--key FILE"), ("FARCALL_CERTIFICATE", "--certificate FILE"),
                         ("FARCALL_CERTIFICATE_KEY", "--certificate-key FILE"),
                         ("FARCALL_AUTHORITY", "--authority FILE")):
        said = warnings(**{name: "file"})
        expect(len(said) == 1 and said[0].startswith(name + " ") and option in said[0],
               f"{name}: {said}")
        expect(warnings("--plain", **{name: "file"}) == [], "whoever wants none is told nothing")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([FARCALL, "keygen", f"{folder}/key"], check=True, stdout=subprocess.DEVNULL)
        expect(warnings("--key", f"{folder}/key", FARCALL_KEY="file") == [], "nor who has one")
    said = warnings(FARCALL_KEE="file", FARCALL_TARGETS="shm:2", FARCALL_TEST_OTHER="1")
    expect(said == ["FARCALL_KEE is not a setting; did you mean FARCALL_KEY?"], said)


PARTS = {part.__name__: part for part in (activation, core_dumps, end_of_input, left_sockets,
                                          log, notify, reload, signals, status, unread_log, variables)}
PARTS[PART]()
