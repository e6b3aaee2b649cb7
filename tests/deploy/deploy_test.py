#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the files of deploy/: the units like systemd, the entry point of the image like a container.

Run as: deploy_test.py <farcall> <program of a job that ends with its standard input> <part>, where
<part> is one of PARTS.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path.append(str(ROOT / "tools" / "farcall"))
from serve_support import LIMIT_S, Server, expect, job, passing, until  # noqa: E402

FARCALL, PROGRAM, PART = sys.argv[1:]
SKIPPED = 77
MOST_EXPOSED = 30  # of 100, as systemd-analyze counts


def lines_of(file):
    """Returns the lines without comments; a backslash continues a line."""
    text = (DEPLOY / file).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def settings_of(file):
    """Returns the values of each NAME= of a unit or a file of variables."""
    settings = {}
    for line in lines_of(file):
        name, equals, value = line.partition("=")
        if equals:
            settings.setdefault(name, []).append(value)
    return settings


def checked():
    """Has systemd verify the units, and rate their security."""
    if shutil.which("systemd-analyze") is None:
        print("systemd-analyze is not installed")
        raise SystemExit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        units = ("farcall.service", "farcall.socket")
        # systemd-analyze needs the program, and each unit that another one names.
        for unit in units:
            text = (DEPLOY / unit).read_text(encoding="utf-8")
            pathlib.Path(folder, unit).write_text(text.replace("/usr/bin/farcall", FARCALL),
                                                  encoding="utf-8")
        for unit in units:
            path = pathlib.Path(folder, unit)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)],
                                  capture_output=True, text=True, timeout=LIMIT_S, check=False)
            about = [line for line in (done.stdout + done.stderr).splitlines() if unit in line]
            expect(done.returncode == 0 and not about, f"{unit} is understood: {about}{done}")
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSED}",
             "--no-pager", f"{folder}/farcall.service"],
            capture_output=True, text=True, timeout=LIMIT_S, check=False)
        expect(done.returncode == 0, f"the service is hardened: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def key_file():
    with tempfile.TemporaryDirectory() as folder:
        key = f"{folder}/key"
        subprocess.run([FARCALL, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        yield key


def with_values(words, variables):
    """Expands variables in a command like systemd: "$NAME" stands for words, split at blanks."""
    for word in words:
        if word.startswith("$"):
            yield from variables[word[1:]].split()
        else:
            yield word


def replaced(words, **values):
    """Replaces the value after each of these options, for instance `listen` for --listen."""
    words = list(words)
    for name, value in values.items():
        words[words.index("--" + name.replace("_", "-")) + 1] = value
    return words


def service():
    """Tests ExecStart=: it serves at the unit's socket, reports that it is ready, and drains."""
    unit = settings_of("farcall.service")
    expect(unit["Type"] == ["notify"] and unit["KillMode"] == ["mixed"], "it is told alone to end")
    expect(settings_of("farcall.socket")["ListenStream"] == ["7070"], "one socket is passed")
    variables = {name: values[-1] for name, values in settings_of("server.conf").items()}
    variables["SERVED"] = PROGRAM
    words = list(with_values(shlex.split(unit["ExecStart"][0]), variables))
    expect(words[0] == "/usr/bin/farcall" and "--listen" not in words, words)
    with contextlib.ExitStack() as made:
        key = made.enter_context(key_file())
        # Listens like systemd at a port without an address.
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        listening = made.enter_context(socket.create_server(
            ("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6))
        manager = made.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        name = f"farcall-deploy-{os.getpid()}"
        manager.bind("\0" + name)
        manager.settimeout(LIMIT_S)
        before, how = passing([listening])
        watchdog = int(unit["WatchdogSec"][0]) * 1_000_000
        environment = {**os.environ, "NOTIFY_SOCKET": "@" + name, "WATCHDOG_USEC": str(watchdog)}
        words = [*before, FARCALL, *replaced(words[1:], key=key, status="127.0.0.1:0")]
        with Server(words, env=environment, **how) as server:
            received = []

            def await_state(state):
                while state not in received:
                    received.append(manager.recv(4096).decode())

            await_state("READY=1")
            await_state("WATCHDOG=1")
            url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
            with job(PROGRAM, url, FARCALL_KEY=key) as host:
                await_state("STATUS=2 targets of 1 host")
                server.process.send_signal(signal.SIGTERM)
                await_state("STATUS=draining, 2 targets of 1 host")
            expect(host.returncode == 0, f"the job goes on: {host.words}")
            expect(server.wait() == 0, "the server has drained")
            for line in server.log:
                json.loads(line)


def group_of_packages(name):
    """Returns the packages in that group of ./run."""
    return re.search(rf"^  \[{name}\]=\"(.*)\"$", (ROOT / "run").read_text(encoding="utf-8"),
                     re.MULTILINE)[1].split()


def image():
    """Tests that the image installs the packages of ./run, and that its entry point serves."""
    stages = []
    for line in lines_of("Containerfile"):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append({})
        stages[-1].setdefault(word, []).append(rest)
    expect([s["FROM"][0].split()[0] for s in stages] == 2 * ["docker.io/library/debian:12"], stages)
    installed = stages[0]["RUN"][0].split()
    # ccache is for repeated builds, PMIx for clusters with a launcher, and libffi for OpenMP, which the image is built
    # without.
    for package in group_of_packages("library") + group_of_packages("tools"):
        expect(package in installed or package in ("ccache", "libpmix-dev", "libffi-dev"),
               f"{package} is there")
    last = stages[-1]
    expect(last["STOPSIGNAL"] == ["SIGTERM"] and last["USER"] != ["0"], last)
    entry, arguments = (json.loads(last[word][0]) for word in ("ENTRYPOINT", "CMD"))
    port, = last["EXPOSE"][0].split()
    expect(entry[entry.index("--listen") + 1] == f"0.0.0.0:{port}", entry)
    # Users can give the status page another address, because it is not part of the entry point.
    expect("--status" not in entry, entry)
    expect(arguments[arguments.index("--status") + 1].startswith("127.0.0.1:"), arguments)
    expect(arguments[-1] == "/usr/bin/program", arguments)
    with key_file() as key:
        words = [FARCALL, *replaced([*entry[1:], *arguments[:-1]], listen="0.0.0.0:0", status="127.0.0.1:0", key=key),
                 PROGRAM]
        with Server(words) as server:
            url = server.url.replace("0.0.0.0", "127.0.0.1")
            with job(PROGRAM, url, FARCALL_KEY=key) as host:
                until(lambda: any('"target_started"' in line for line in server.log), "targets run")
                expect(server.page("/readyz") == (200, "ready\n"), "it is ready")
            expect(host.returncode == 0, host.words)
            server.process.send_signal(signal.SIGTERM)
            expect(server.wait() == 0, "it ends")


PARTS = {"checked": checked, "service": service, "image": image}
PARTS[PART]()
