#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed commands for kernels, in both layouts, after the prefix was moved.

Run as: install_test.py <build folder> <layout that was chosen: own or nec>.
"""

import ctypes
import pathlib
import sys

import toolchain

build = None
layout = None


class installing(toolchain.test_case):
    def install(self, component):
        prefix = self.folder / "before"
        self.good("cmake", "--install", build, "--component", component, "--prefix", prefix)
        moved = self.folder / "after it was moved"
        prefix.rename(moved)
        return moved

    def expect_a_toolchain(self, bin_folder, prefix=""):
        file = self.write("kernel.c", "#include <libvhcall.h>\n#include <veo_hmem.h>\n"
                          "int kernel(void) { return veo_get_max_proc_identifier() +\n"
                          "(vhcall_find(0, 0) == -1); }\n")
        library = self.folder / "libkernel.so"
        self.quiet(bin_folder / f"{prefix}ncc", "-O4", "-report-all", "-shared", "-Wl,-zdefs",
                   file, "-o", library, "-lveohmem")
        self.assertEqual(ctypes.CDLL(str(library)).kernel(), 17)
        source = self.write("main.cpp", "int main() { return 0; }\n")
        program = self.folder / "program"
        self.quiet(bin_folder / f"{prefix}nc++", "-ftrace", source, "-o", program)
        self.good(program, VE_FTRACE_OUT_NAME=str(self.folder / "trace"))
        self.assertIn("main", self.good(bin_folder / f"{prefix}ftrace", self.folder / "trace"))
        for name in "nfort", "nar", "nranlib", "nnm", "mk_veorun_static", "relink_aveorun":
            self.good(bin_folder / f"{prefix}{name}", "--version", FARCALL_FC="gcc")

    def test_among_the_rest_of_the_system(self):
        if layout != "own":
            self.skipTest("this build installs in NEC's layout")
        prefix = self.install("veo")
        self.expect_a_toolchain(prefix / "bin", "farcall-")
        self.expect_a_toolchain(prefix / "libexec" / "farcall" / "veo" / "bin")
        # The prefix's bin has no short names, which would hide the system's commands.
        self.assertEqual([path.name for path in (prefix / "bin").iterdir()
                          if not path.name.startswith("farcall")], [])

    def test_as_the_packages_of_nec(self):
        prefix = self.install("veo" if layout == "nec" else "veo_nec")
        self.expect_a_toolchain(prefix / "bin")
        for name in ("bin/mk_veorun_static", "bin/relink_aveorun", "bin/gen_veorun_static_symtable",
                     "bin/ve_exec", "bin/gdb", "bin/ve-gdb",
                     "include/libvhcall.h", "include/veo_hmem.h", "include/veo_ve.h",
                     "include/vhcall.h", "include/vedma.h", "lib/libaveoVE.a",
                     "lib/libaveoVE.so.1", "lib/libsysve.so", "lib/libveftrace_t.so",
                     "lib/libveftrace_p.a", "lib/libveio.so", "lib/libveohmem.a",
                     "lib/libveohmem.so.1", "lib/libvhcall.so", "libexec/mk_veorun_static",
                     "veos/include/libvepseudo.h", "veos/include/veo_hmem.h",
                     "veos/libexec/mk_veorun_static_ve1", "veos/libexec/mk_veorun_static_ve3",
                     "veos/libexec/relink_aveorun_ve1", "veos/libexec/relink_aveorun_ve3"):
            self.assertTrue((prefix / name).exists(), name)
        # Kernels and programs have separate folders.
        self.assertFalse((prefix / "veos/include/libvhcall.h").exists())
        self.assertFalse((prefix / "include/libvepseudo.h").exists())
        self.assertIn("--link-nosym", self.good(prefix / "libexec/mk_veorun_static", "--help"))

    def test_files_do_not_name_the_build_folder(self):
        prefix = self.install("veo")
        for path in prefix.rglob("*"):
            if path.is_symlink():
                self.assertFalse(path.readlink().is_absolute(), path)
                self.assertTrue(path.exists(), f"{path} leads nowhere")
            elif path.is_file() and path.suffix in ("", ".bash", ".h", ".link"):
                # Only the debug information of programs may contain the build folder.
                is_program = path.read_bytes()[:4] == b"\x7fELF"
                text = self.good("readelf", "-d", path) if is_program else path.read_text()
                self.assertFalse(str(build) in text, f"{path} names the build folder")


if __name__ == "__main__":
    layout = sys.argv.pop(2)
    build = pathlib.Path(sys.argv[1]).resolve()
    toolchain.main()
