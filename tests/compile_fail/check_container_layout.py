#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a program does not link if its containers have another layout than the library's.

Run as: check_container_layout.py <project root>. Compiles a job with g++ for each layout of libstdc++. The
program must need a differently named constructor for each layout, and the name must tell the layout.
"""

import pathlib
import subprocess
import sys
import tempfile

WAYS = {"-D_GLIBCXX_DEBUG": "farcall::compiled_with_GLIBCXX_DEBUG::job::job()",
        "-D_GLIBCXX_USE_CXX11_ABI=0": "farcall::compiled_with_the_old_string_ABI::job::job()",
        "-UNDEBUG": "farcall::job::job()"}  # the usual layout


def main():
    root = pathlib.Path(sys.argv[1])
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.cpp"
        program.write_text("#include <farcall/offload/job.hpp>\nint main() { farcall::job job; }\n")
        for flag, name in WAYS.items():
            subprocess.run(["g++", "-std=c++20", f"-I{root}", flag, "-c", "-o", f"{folder}/program.o", program],
                           check=True)
            needed = subprocess.run(["nm", "--undefined-only", "--demangle", f"{folder}/program.o"],
                                    capture_output=True, text=True, check=True).stdout
            if f"U {name}\n" not in needed:
                print(f"{flag}: the program does not need {name}, but\n{needed}")
                wrong = True
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
