#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what `farcall run` says of the way in which targets use files of the host.

Run as: way_test.py <farcall> <libfarcall-io.so> <program of a job that ends with its standard
input> <preloaded|mounted>
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def run(farcall, program, folder, by, **variables):
    words = [farcall, "run", f"--host-files={folder}", "-n", "3"]
    words += [f"--host-files-by={by}"] if by else []
    return subprocess.run(words + [program], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "FARCALL_IO_FORWARD": "always", **variables})


def expect(is_so, done, what):
    if not is_so:
        raise SystemExit(f"{what}: {done.args}: status {done.returncode}\n{done.stdout}{done.stderr}")


def check_preloaded(farcall, library, program, folder):
    """A command beside which there is no farcall-mount."""
    for name, file in (("bin/farcall", farcall), ("lib/libfarcall-io.so", library)):
        os.makedirs(os.path.dirname(f"{folder}/{name}"))
        shutil.copy(file, f"{folder}/{name}")
    farcall = f"{folder}/bin/farcall"
    for by in ("auto", None):
        done = run(farcall, program, folder, by)
        lines = done.stderr.splitlines()
        expect(done.returncode == 0 and len(lines) == 1, done, "one line")
        expect("through a preloaded library (--host-files-by=auto), and not through a mount: there "
               f"is no {folder}/bin/farcall-mount" in lines[0], done, "choice and reason")
    done = run(farcall, program, folder, "preload")
    expect(done.returncode == 0 and not done.stderr, done, "the user's choice needs no line")
    done = run(farcall, program, folder, "mount")
    expect(done.returncode == 1 and "farcall-mount: install" in done.stderr, done, "no mount")
    helped = subprocess.run([farcall, "run", "--help"], capture_output=True, text=True, check=True)
    expect("a line on standard error names the choice and the reason" in " ".join(helped.stdout.split()), helped,
           "the help says it")


def check_mounted(farcall, program, folder):
    mount = os.path.join(os.path.dirname(os.path.realpath(farcall)), "farcall-mount")
    if not os.path.exists(mount):
        print("farcall-mount is not built (libfuse3-dev)")
        raise SystemExit(SKIPPED)
    checked = subprocess.run([mount, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        print(f"this system allows no mounts: {checked.stdout}")
        raise SystemExit(SKIPPED)
    for by in ("auto", None):
        done = run(farcall, program, folder, by)
        lines = done.stderr.splitlines()
        expect(done.returncode == 0 and len(lines) == 1, done, "one line")
        expect("files of hosts are mounted for targets (--host-files-by=auto), because this machine "
               "allows it" in lines[0], done, "choice and reason")
    done = run(farcall, program, folder, "mount")
    expect(done.returncode == 0 and not done.stderr, done, "the user's choice needs no line")
    done = run(farcall, program, folder, "auto", FARCALL_LOG="info")
    expect("files of the host are used through a mount" in done.stderr, done, "targets say it")
    check_info(farcall)


def check_info(farcall):
    """Compares the rows of `farcall info` about mounts with the system."""
    done = subprocess.run([farcall, "info", "--no-targets", "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["kernel_features"]
    expect(found["mounts_of_host_files"]["works"], done, "mounts")
    version = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    passes = found["passthrough_of_mounts"]
    if version < (6, 9) or os.geteuid() != 0:
        expect(not passes["works"] and "Linux 6.9" in passes["advice"], done, "no passthrough")
    elif passes["works"]:
        expect("advice" not in passes, done, "passthrough")
    parameter = pathlib.Path("/sys/module/fuse/parameters/enable_uring")
    is_on = parameter.exists() and parameter.read_text(encoding="ascii").strip() == "Y"
    expect(found["requests_of_mounts_by_io_uring"]["works"] == is_on, done, "io_uring")


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    farcall, library, program, part = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if part == "preloaded":
            check_preloaded(farcall, library, program, os.path.realpath(folder))
        else:
            check_mounted(farcall, program, os.path.realpath(folder))


if __name__ == "__main__":
    main()
