#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests files of the host in targets that a wrapping command puts into a sandbox, in targets with a
sanitizer, and by static programs, which the system reports.

Run as: sandbox_test.py <farcall> <reader> <reader with the address sanitizer> <static program>
                        <wrapped|sanitized|watched>
"""

import os
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(words, **variables):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, **variables})


def expect_words(done):
    if done.returncode != 0 or done.stdout != "host host\n":
        raise SystemExit(f"{done.args}: status {done.returncode}\n{done.stdout}{done.stderr}")


def check_wrapped(farcall, reader, folder):
    if run(["unshare", "-m", "true"]).returncode != 0:
        print("this system allows no namespaces")
        raise SystemExit(SKIPPED)
    sandbox = f"1:unshare -m sh -c 'mount -t tmpfs none {folder} && echo sandbox > {folder}/f && exec \"$@\"' sh"
    expect_words(run([farcall, "run", f"--wrap={sandbox}", f"--host-files={folder}", reader, f"{folder}/f"]))
    refused = run([farcall, "run", "--wrap=nice -n 1", f"--host-files={folder}", "--host-files-by=mount", reader],
                  FARCALL_IO_FORWARD="always")
    if refused.returncode == 0 or "--wrap" not in refused.stderr and "mount" not in refused.stderr:
        raise SystemExit(f"{refused.args}: status {refused.returncode}\n{refused.stderr}")


def check_sanitized(farcall, reader, folder):
    for options in ("", "detect_leaks=0"):
        expect_words(run([farcall, "run", "--host-files-by=preload", f"--host-files={folder}", reader, f"{folder}/f"],
                         FARCALL_IO_FORWARD="always", ASAN_OPTIONS=options))


def check_watched(farcall, reader, static, folder):
    words = [farcall, "run", "--host-files-by=preload", f"--host-files={folder}", reader, f"{folder}/f"]
    for program, names in (("cat", False), (static, True)):
        done = run([*words, program], FARCALL_IO_FORWARD="always", FARCALL_IO_WATCH="1")
        expect_words(done)
        lines = [line for line in done.stderr.splitlines() if "this machine's files at paths of the host" in line]
        expected = f"{os.path.basename(static)[:15]} (1 calls, the first for {folder}/f)"
        if len(lines) != (1 if names else 0) or (names and expected not in lines[0]):
            raise SystemExit(f"{done.args}: {done.stderr}")


def main():
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    farcall, reader, sanitized, static, part = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        with open(f"{folder}/f", "w", encoding="utf-8") as file:
            file.write("host\n")
        if part == "wrapped":
            check_wrapped(farcall, reader, folder)
        elif part == "watched":
            check_watched(farcall, reader, static, folder)
        else:
            check_sanitized(farcall, sanitized, folder)


if __name__ == "__main__":
    main()
