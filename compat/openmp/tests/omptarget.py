# SPDX-License-Identifier: Apache-2.0
"""Compiles OpenMP programs with target regions by clang, in tests and suites."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRIPLE = {"x86_64": "x86_64-pc-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}.get(os.uname().machine, "")


def folder_of(version):
    """Returns the folder of LLVM that has libomptarget of this version, or else None. Looks for the compiler, too.

    Debian has one version installed at a time. `./run` unpacks others into build/libomptarget.
    """
    if shutil.which(f"clang-{version}") is None or shutil.which(f"clang-linker-wrapper-{version}") is None:
        return None
    installed = pathlib.Path(f"/usr/lib/llvm-{version}")
    for folder in (ROOT / "build" / "libomptarget" / version / installed.relative_to("/"), installed):
        if (folder / "lib" / f"libomptarget.so.{version}").exists():
            return folder
    return None


def command(version, source, program, *options):
    """Returns the command that compiles a source."""
    folder = folder_of(version)
    compiler = f"clang{'++' if str(source).endswith('cpp') else ''}-{version}"
    return [compiler, "-fopenmp", f"-fopenmp-targets={TRIPLE}", str(source), "-o", str(program), *options,
            "-isystem", str(next((folder / "lib" / "clang").glob("*")) / "include"), f"-L{folder / 'lib'}",
            f"-Wl,-rpath,{folder / 'lib'}"]
