#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program as a server with a key, and again as a host with the same key: call_with_key.py <program>

All their connections are encrypted by TLS.
"""

import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile

LIMIT_S = 60


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        key = pathlib.Path(folder, "key")
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        environment = {**os.environ, "FARCALL_KEY": str(key)}
        with subprocess.Popen([program, "--farcall-serve=127.0.0.1:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment) as server:
            try:
                lines = (re.search(r"tcp://[\d.]+:\d+", line) for line in server.stdout)
                url = next((found[0] for found in lines if found), None)
                if url is None:
                    raise SystemExit("the server has ended")
                subprocess.run([program, f"--farcall-targets={url}"], check=True, timeout=LIMIT_S, env=environment)
            finally:
                server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
