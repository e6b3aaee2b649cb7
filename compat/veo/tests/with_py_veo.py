#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program that imports py-veo, with a libveo of ours in place of the package's own.

Run as: with_py_veo.py <folder of py-veo> <libveo> <program> [argument…]. The package finds its libveo
beside itself and by a name that has a hash in it, so a temporary folder gets links to both names. Without
the package's folder the program runs with the packages of this Python.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    packages, library = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    command = [sys.executable, "-B", *sys.argv[3:]]
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if packages.is_dir():
            # Real folders, because the path from one to the other must contain no link.
            for name in ("veo", "py_veo.libs"):
                (pathlib.Path(folder) / name).mkdir()
                for own in (packages / name).iterdir():
                    link = pathlib.Path(folder) / name / own.name
                    link.symlink_to(own if name == "veo" else library)
            environment["PYTHONPATH"] = os.pathsep.join([folder, str(packages)])
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
