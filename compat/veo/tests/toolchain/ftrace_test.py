#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""-ftrace: calls are counted in all programs that load the kernel, and the file has the right name.

Run as: ftrace_test.py <folder with bin, include and lib>. Times are only compared with each other.
"""

import re

import toolchain

LINE = re.compile(r"^ *(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)  (.+)$")


class ftrace(toolchain.test_case):
    def setUp(self):
        super().setUp()
        self.kernel = self.folder / "libkernel.so"
        self.loader = self.folder / "load"
        self.quiet(self.tool("nc++"), "-ftrace", "-shared", "-pthread",
                   toolchain.PROGRAMS / "ftrace_kernel.cpp", "-o", self.kernel, "-lveftrace_t")
        self.quiet("gcc", toolchain.PROGRAMS / "load.c", "-o", self.loader, "-ldl")

    def run_kernel(self, **changes):
        plain = {"VE_NODE_NUMBER", "MPIUNIVERSE", "MPIRANK", "VE_FTRACE_OUT_NAME"} - set(changes)
        command = ["env", *(word for name in sorted(plain) for word in ("-u", name))]
        # 5 is the fifth Fibonacci number, 12 is twice 0 + 1 + 2 + 3.
        self.assertEqual(self.good(*command, self.loader, self.kernel, cwd=self.folder, **changes),
                         "17\n")

    def table(self, name="ftrace.out"):
        """Returns {name: (calls, exclusive time, inclusive time)}."""
        text = (self.folder / name).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        table = {}
        for line in lines:
            match = LINE.match(line)
            self.assertTrue(match, line)
            self.assertNotIn(match[6], table, "two lines for one function")
            table[match[6]] = int(match[1]), float(match[2]), float(match[4])
        return table

    def test_calls_are_counted(self):
        self.run_kernel()
        table = self.table()
        calls = {name: line[0] for name, line in table.items()}
        # fibonacci(5) calls itself 14 times.
        self.assertEqual(calls, {"kernel": 1, "fibonacci": 15, "in_thread": 2,
                                 "numbers::twice(int)": 10, "a region": 4})

    def test_times_fit_together(self):
        self.run_kernel()
        table = self.table()
        slack = 1e-5  # figures are rounded
        for name, (_, exclusive, inclusive) in table.items():
            self.assertLessEqual(exclusive, inclusive + slack, name)
        # Inclusive time counts only the outermost call of a recursive function.
        self.assertLessEqual(table["fibonacci"][2], table["kernel"][2] + slack)
        self.assertLessEqual(table["a region"][1], table["kernel"][2] + slack)

    def test_names_of_files(self):
        for settings, pattern in (
                ({}, r"ftrace\.out"),
                ({"VE_NODE_NUMBER": "3"}, r"ftrace\.out\.veo\.3\.\d+"),
                ({"VE_NODE_NUMBER": "0", "MPIUNIVERSE": "1", "MPIRANK": "12"},
                 r"ftrace\.out\.1\.12\.veo\.0\.\d+"),
                ({"MPIUNIVERSE": "1"}, r"ftrace\.out"),
                ({"VE_FTRACE_OUT_NAME": "other"}, r"other"),
                ({"VE_FTRACE_OUT_NAME": "other", "MPIUNIVERSE": "0", "MPIRANK": "1"},
                 r"other\.0\.1")):
            self.run_kernel(**settings)
            found = [path.name for path in self.folder.iterdir()
                     if re.match(r"ftrace\.out|other", path.name)]
            self.assertEqual(len(found), 1, found)
            self.assertRegex(found[0], f"^{pattern}$")
            self.assertEqual(len(self.table(found[0])), 5)
            (self.folder / found[0]).unlink()

    def test_a_file_that_cannot_be_written_is_named(self):
        text = self.good(self.loader, self.kernel, VE_FTRACE_OUT_NAME="/no/such/folder/file")
        self.assertRegex(text, "ftrace: cannot write /no/such/folder/file: .*VE_FTRACE_OUT_NAME")

    def test_the_table_can_be_shown(self):
        self.run_kernel(VE_NODE_NUMBER="0")
        file = next(self.folder.glob("ftrace.out.veo.0.*"))
        self.assertEqual(self.good(self.tool("ftrace"), "-f", file), file.read_text())
        self.assertIn("usage", self.bad(self.tool("ftrace")))

    def test_a_target_program_that_counts_too(self):
        # Like aveorun-ftrace: the program contains the counters, also for the kernel's calls.
        program = self.folder / "counting"
        library = toolchain.root / "lib" / "libfarcall_veo_ftrace.a"
        self.quiet("gcc", "-rdynamic", toolchain.PROGRAMS / "load.c", "-Wl,--whole-archive",
                   library, "-Wl,--no-whole-archive", "-o", program, "-ldl", "-pthread")
        self.good(program, self.kernel, cwd=self.folder, VE_FTRACE_OUT_NAME="counted")
        self.assertEqual(self.table("counted")["fibonacci"][0], 15)

    def test_two_kernels_make_one_table(self):
        source = self.write("second.c", "int fibonacci(int n);\n"
                            "int kernel(void) { return fibonacci(3); }\n")
        second = self.folder / "libsecond.so"
        self.quiet(self.tool("ncc"), "-ftrace", "-shared", source, self.kernel, "-o", second,
                   f"-Wl,-rpath,{self.folder}")
        self.assertEqual(self.good(self.loader, second, cwd=self.folder,
                                   VE_FTRACE_OUT_NAME="both"), "2\n")
        calls = {name: line[0] for name, line in self.table("both").items()}
        self.assertEqual(calls, {"kernel": 1, "fibonacci": 5})

    def test_counts_only_with_the_option(self):
        for options in [], ["-ftrace", "-no-ftrace"]:
            self.quiet(self.tool("nc++"), *options, "-shared", "-pthread",
                       toolchain.PROGRAMS / "ftrace_kernel.cpp", "-o", self.kernel, "-lveftrace")
            self.run_kernel()
            self.assertEqual(list(self.folder.glob("ftrace.out*")), [])

    def test_many_threads(self):
        # 300 threads, one after the other, in a function `i`, whose name is also a mangled type.
        source = self.write("many.cpp", "#include <pthread.h>\n#include <string>\n"
                            "std::string cpp(1, 'x');\n"
                            "extern \"C\" void* i(void* p) { return p; }\n"
                            "extern \"C\" int kernel(void) { int n = 0; pthread_t t; while (n < 300 &&\n"
                            "pthread_create(&t, 0, i, 0) == 0 && pthread_join(t, 0) == 0) ++n;\n"
                            "return n; }\n")
        kernel = self.folder / "libmany.so"
        self.quiet(self.tool("nc++"), "-ftrace", "-shared", "-pthread", source, "-o", kernel)
        self.assertEqual(self.good(self.loader, kernel, cwd=self.folder,
                                   VE_FTRACE_OUT_NAME="many"), "300\n")
        calls = {name: line[0] for name, line in self.table("many").items()}
        self.assertEqual((calls["kernel"], calls["i"]), (1, 300))
        self.assertIn("in 301 threads", (self.folder / "many").read_text())

    def test_functions_that_only_their_file_can_use(self):
        source = self.write("local.c", "static __attribute__((noinline)) int local(int n)"
                            "{ return n + 1; }\nint kernel(void) { return local(2); }\n")
        kernel = self.folder / "liblocal.so"
        for options, name in ([], "local"), (["-s"], r"liblocal\.so\+0x[0-9a-f]+"):
            self.quiet(self.tool("ncc"), "-ftrace", "-shared", *options, source, "-o", kernel)
            self.assertEqual(self.good(self.loader, kernel, cwd=self.folder,
                                       VE_FTRACE_OUT_NAME="local"), "3\n")
            self.assertRegex(" ".join(sorted(self.table("local"))), f"^kernel {name}$")

    def test_programs(self):
        source = self.write("main.c", "static __attribute__((noinline)) int inner(int n)"
                            "{ return n - 1; }\nint main(int argc, char** argv)"
                            "{ return inner(argc); }\n")
        for option in "-pie", "-no-pie":
            program = self.folder / f"program{option}"
            self.quiet(self.tool("ncc"), "-ftrace", option, source, "-o", program)
            self.quiet(program, cwd=self.folder, VE_FTRACE_OUT_NAME="program")
            self.assertEqual(sorted(self.table("program")), ["inner", "main"])

    def test_exit_in_a_kernel(self):
        source = self.write("exits.c", "#include <stdlib.h>\nvoid inner(void) { exit(3); }\n"
                            "int kernel(void) { inner(); return 0; }\n")
        kernel = self.folder / "libexits.so"
        self.quiet(self.tool("ncc"), "-ftrace", "-O0", "-shared", source, "-o", kernel)
        status, text = toolchain.run(self.loader, kernel, cwd=self.folder,
                                     VE_FTRACE_OUT_NAME="exits")
        self.assertEqual((status, text), (3, ""))
        calls = {name: line[0] for name, line in self.table("exits").items()}
        self.assertEqual(calls, {"kernel": 1, "inner": 1})

    def test_functions_that_are_left_by_longjmp(self):
        source = self.write("jumps.c", "#include <setjmp.h>\nstatic jmp_buf place;\n"
                            "void inner(void) { longjmp(place, 1); }\n"
                            "void outer(void) { inner(); }\n"
                            "int kernel(void) {\n  for (volatile int i = 0; i < 3; ++i)\n"
                            "    if (setjmp(place) == 0) outer();\n  return 6; }\n")
        kernel = self.folder / "libjumps.so"
        self.quiet(self.tool("ncc"), "-ftrace", "-O0", "-shared", source, "-o", kernel)
        self.assertEqual(self.good(self.loader, kernel, cwd=self.folder,
                                   VE_FTRACE_OUT_NAME="jumps"), "6\n")
        table = self.table("jumps")
        self.assertEqual({name: line[0] for name, line in table.items()},
                         {"kernel": 1, "outer": 3, "inner": 3})
        self.assertLessEqual(table["inner"][2], table["kernel"][2] + 1e-5)


if __name__ == "__main__":
    toolchain.main()
