#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The libraries for kernels, in ordinary programs: libveohmem, libaveoVE, libsysve.

Run as: libraries_test.py <folder with bin, include and lib>.
"""

import toolchain


class libraries(toolchain.test_case):
    def build(self, source, *options, program="program"):
        path = self.folder / program
        self.quiet(self.tool("ncc"), "-Wall", "-Wextra", "-Wno-unused-parameter",
                   toolchain.PROGRAMS / source, "-o", path, *options)
        return path

    def host_functions(self):
        """Builds a library for the host with the host's compiler."""
        path = self.folder / "libfunctions.so"
        self.quiet("gcc", "-Wall", "-Wextra", "-Wno-unused-parameter", "-shared", "-fPIC",
                   f"-I{toolchain.root}/include", toolchain.PROGRAMS / "vhcall_functions.c", "-o",
                   path)
        return path

    def test_tagged_addresses(self):
        self.quiet(self.build("hmem.c", "-Wno-int-to-pointer-cast", "-lveohmem"))
        library = toolchain.root / "lib" / "libveohmem.a"
        self.quiet("gcc", f"-I{toolchain.root}/include", toolchain.PROGRAMS / "hmem.c", library,
                   "-o", self.folder / "static")
        self.quiet(self.folder / "static")

    def test_previous_results(self):
        self.quiet(self.build("previous_result.c", "-laveoVE"))
        self.quiet(self.build("previous_result.c", "-DKEEPS", "-rdynamic", "-laveoVE"))

    def test_previous_results_are_for_kernels_only(self):
        text = self.bad("gcc", f"-I{toolchain.root}/include", "-fsyntax-only",
                        toolchain.PROGRAMS / "previous_result.c")
        self.assertIn("__ve__", text)

    def test_vhcall_in_the_same_process(self):
        functions = self.host_functions()
        says = "vhcall_install: /dev/null: "
        for program in (self.build("vhcall.c", program="shared"),
                        self.build("vhcall.c", toolchain.root / "lib" / "libsysve.a", "-rdynamic",
                                   program="static")):
            # One library cannot be loaded, with a reason.
            self.assertTrue(self.good(program, functions).startswith(says))

    def test_vhcall_elsewhere(self):
        text = self.good(self.build("vhcall_elsewhere.c", "-rdynamic"))
        self.assertEqual(text, "")

    def test_vhcall_without_newer_functions(self):
        file = self.write("kernel.c", "#define VHCALLNOENHANCE\n#include <libvhcall.h>\n"
                          "int vhcall_args_alloc;\n")
        self.quiet(self.tool("ncc"), "-fsyntax-only", file)

    def test_headers_are_for_c_and_cpp(self):
        headers = sorted((toolchain.root / "include").glob("*.h"))
        self.assertGreater(len(headers), 6)
        for header in headers:
            for language, compiler in ("c", "ncc"), ("c++", "nc++"):
                self.quiet(self.tool(compiler), "-Wall", "-Wextra", "-pedantic", "-Werror",
                           "-fsyntax-only", "-x", language, header)

    def test_copies_shared_memory_and_files(self):
        program = self.build("sysve.c", "-lveio", "-pthread")
        for threads in "1", "4", "not a number":
            text = self.good(program, self.folder / "file", VE_ASYNC_IO_THREAD=threads)
            if text:
                self.assertIn("no System V shared memory here", text)
                print(text)

    def test_nodes_as_cards(self):
        program = self.folder / "devices"
        library = toolchain.root / "lib"
        self.quiet("g++", "-Wall", "-Wextra", f"-I{toolchain.root}/include",
                   toolchain.PROGRAMS / "devices.cpp", "-o", program, f"-L{library}",
                   "-lveproductinfo", "-lfarcall_veo_devices", f"-Wl,-rpath,{library}")
        # The preloaded library comes before libudev in programs linked with it.
        preload = str(library / "libfarcall_veo_devices.so")
        self.quiet(program, "8", LD_PRELOAD=preload)
        self.quiet(program, "2", LD_PRELOAD=preload, FARCALL_VEO_DEVICES="2")
        self.quiet(program, "10", LD_PRELOAD=preload, FARCALL_VEO_DEVICES="99")


if __name__ == "__main__":
    toolchain.main()
