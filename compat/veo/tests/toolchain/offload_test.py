#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole programs: kernels built by the commands, called through libveo by programs of the host.

Run as: offload_test.py <folder with bin, include and lib> <libraries that libveo.a needs…>.
"""

import sys

import toolchain

needed_by_archive = []

QUIET_KERNELS = "-Wall", "-Wextra", "-Wno-unused-parameter"


class offload(toolchain.test_case):
    def setUp(self):
        super().setUp()
        self.objects = []
        for source, *options in ["offload_kernels.c"], ["vhcall.c", "-Dmain=vhcall_main"]:
            target = self.folder / source.replace(".c", ".o")
            self.quiet(self.tool("ncc"), *QUIET_KERNELS, "-fpic", "-c", *options,
                       toolchain.PROGRAMS / source, "-o", target)
            self.objects.append(target)

    def kernel_library(self):
        path = self.folder / "libkernels.so"
        self.quiet(self.tool("ncc"), "-shared", "-fpic", *self.objects, "-lveohmem", "-o", path)
        return path

    def host_functions(self):
        path = self.folder / "libfunctions.so"
        self.quiet("gcc", "-shared", "-fPIC", *QUIET_KERNELS, f"-I{toolchain.root}/include",
                   toolchain.PROGRAMS / "vhcall_functions.c", "-o", path)
        return path

    def program(self, *libraries):
        path = self.folder / "program"
        self.quiet("gcc", "-Wall", "-Wextra", f"-I{toolchain.root}/include",
                   toolchain.PROGRAMS / "offload.c", "-o", path, *libraries)
        return path

    def shared_program(self):
        folder = toolchain.root / "lib"
        return self.program(f"-L{folder}", "-lveo", f"-Wl,-rpath,{folder}")

    def test_kernels_in_a_library(self):
        # The helper is found relative to libveo.
        self.quiet(self.shared_program(), self.kernel_library())

    def test_kernels_in_the_helper(self):
        self.good(self.tool("mk_veorun_static"), "-o", self.folder / "helper", *self.objects, "-lveohmem")
        # VEORUN_BIN is split at spaces, and the folder's name has some.
        self.quiet(self.shared_program(), "-", VEORUN_BIN="./helper", cwd=self.folder)

    def test_program_with_the_archive(self):
        program = self.program(toolchain.root / "lib" / "libveo.a", *needed_by_archive)
        helper = toolchain.root / "libexec" / "farcall" / "veo" / "aveorun"
        self.quiet(program, self.kernel_library(), VEORUN_BIN=str(helper))
        dynamic = self.good("readelf", "-d", program)
        self.assertNotIn("libveo", dynamic)
        # The helper is not beside the program.
        text = self.bad(program, self.kernel_library())
        self.assertIn("VEORUN_BIN", text)

    def vhcall(self, where, **changes):
        # One library cannot be loaded, with a reason.
        text = self.good(self.shared_program(), self.kernel_library(), self.host_functions(), where,
                         **changes)
        self.assertRegex(text, r"\A(.*vhcall_install: /dev/null: .*\n)+\Z")

    def test_vhcall_in_the_helper(self):
        self.vhcall("helper")
        self.vhcall("helper", FARCALL_VHCALL="helper")

    def test_vhcall_in_the_program(self):
        self.vhcall("program", FARCALL_VHCALL="program")

    def test_vhcall_in_no_such_place(self):
        text = self.bad(self.shared_program(), self.kernel_library(), FARCALL_VHCALL="moon")
        self.assertIn('FARCALL_VHCALL is "moon"; give helper or program', text)


if __name__ == "__main__":
    needed_by_archive = sys.argv[2:]
    del sys.argv[2:]
    toolchain.main()
