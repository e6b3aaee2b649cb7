#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands with the compiler of another machine, and VHcall with its calling convention.

Run as: other_machine_test.py <folder with bin, include and lib> <sources of the libraries> <machine>.
Exits with 77 when there is no compiler for the machine or nothing can run its programs; `./run test`
says in FARCALL_CROSS what is there, and then that is a failure.
"""

import os
import pathlib
import sys

import toolchain

sources = None
machine = None


class other_machine(toolchain.test_case):
    def setUp(self):
        super().setUp()
        self.compilers = {"FARCALL_CC": f"{machine}-linux-gnu-gcc",
                          "FARCALL_CXX": f"{machine}-linux-gnu-g++",
                          "FARCALL_AR": f"{machine}-linux-gnu-ar"}
        # Folder with the libraries for that machine.
        self.libraries = self.folder / "lib"
        self.libraries.mkdir()

    def build_library(self, name, *files):
        self.quiet(self.tool("ncc"), "-shared", "-D_GNU_SOURCE", f"-I{toolchain.root}/include",
                   f"-Wl,-soname,lib{name}.so", *(sources / file for file in files), "-o",
                   self.libraries / f"lib{name}.so", "-nostartfiles", "-nodefaultlibs", "-lc",
                   **self.compilers)

    def emulate(self, *command):
        return self.good(f"qemu-{machine}", "-L", f"/usr/{machine}-linux-gnu", *command)

    def test_kernels_need_no_library_for_the_machine(self):
        file = self.write("main.c", "int main(void) { return veo_is_ve_addr(0); }\n"
                          "int veo_is_ve_addr(const void* address) { return address != 0; }\n")
        program = self.folder / "program"
        self.quiet(self.tool("ncc"), file, "-o", program, **self.compilers)
        self.assertEqual(self.emulate(program), "")

    def test_vhcall(self):
        self.build_library("sysve", "memory_copy.c", "vhcall.c", "vhcall_call.c", "vhcall_library.c",
                           "vhcall_local.c",
                           "vhcall_thunk.S")
        functions = self.folder / "libfunctions.so"
        self.quiet(f"{machine}-linux-gnu-gcc", "-shared", "-fPIC", f"-I{toolchain.root}/include",
                   toolchain.PROGRAMS / "vhcall_functions.c", "-o", functions)
        program = self.folder / "program"
        self.quiet(self.tool("ncc"), toolchain.PROGRAMS / "vhcall.c", "-o", program,
                   FARCALL_VEO_LIBDIR=str(self.libraries), **self.compilers)
        self.assertIn("vhcall_install: /dev/null", self.emulate(program, functions))

    def test_traces_need_their_library(self):
        file = self.write("main.c", "int main(void) { return 0; }\n")
        text = self.bad(self.tool("ncc"), "-ftrace", file, "-o", self.folder / "program",
                        **self.compilers)
        self.assertIn("FARCALL_VEO_LIBDIR", text)


if __name__ == "__main__":
    machine = sys.argv.pop(3)
    sources = pathlib.Path(sys.argv.pop(2)).resolve()
    absent = toolchain.missing(f"{machine}-linux-gnu-gcc", f"qemu-{machine}")
    if absent and machine not in os.environ.get("FARCALL_CROSS", "").split():
        toolchain.skip(f"{absent} is not installed")
    toolchain.main()
