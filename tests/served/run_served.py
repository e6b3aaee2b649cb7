#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with its targets on a server that this script starts.

run_served.py FARCALL TARGETS [--helper HELPER] PROGRAM [argument…]

FARCALL is the farcall command. In TARGETS, tcp stands for the server's URL: "tcp?count=2,shm". The
exit status is the program's; a server that complains, or does not end, is a failure too. With
HELPER, the targets are the nodes of a program that uses libveo, and the server runs that instead;
it may complain, for kernels that fail.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile


def main():
    farcall, targets, *command = sys.argv[1:]
    helper = None
    if command[0] == "--helper":
        _, helper, *command = command
    # The server's log goes to a file: a pipe would fill up, as this script does not read it meanwhile.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        key = str(pathlib.Path(folder) / "key")
        subprocess.run([farcall, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen(
            [farcall, "serve", "--listen", "127.0.0.1:0", "--key", key, *([helper] if helper else command)],
            stdout=subprocess.PIPE, stderr=said, text=True,
            # Without the lines about each connection.
            env={**os.environ, "FARCALL_LOG": "warning"})
        try:
            line = server.stdout.readline()
            found = re.search(r"tcp://[^, ]+", line)
            if not found:
                server.kill()
                said.seek(0)
                sys.exit(f"the server does not say where it listens: {line!r} {said.read()}")
            urls = re.sub(r"\btcp\b", found.group(0), targets)
            nodes = "FARCALL_VEO_NODES" if helper else "FARCALL_TARGETS"
            environment = {**os.environ, nodes: urls, "FARCALL_KEY": key}
            status = subprocess.run(command, env=environment).returncode
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                sys.exit("the server does not end")
        said.seek(0)
        # ThreadSanitizer's symbolizer complains about shared memory's missing files, even for suppressed races.
        complaints = "".join(line for line in said if "llvm-symbolizer" not in line)
        if complaints and not helper:
            print("the server has complained:\n" + complaints)
            status = status or 1
        sys.exit(status)


if __name__ == "__main__":
    main()
