#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ncc, nc++, nar, nranlib, nnm: options of NEC's compilers, and the results.

Run as: compiler_test.py <folder with bin, include and lib>.
"""

import ctypes
import subprocess

import toolchain

# Options in Makefiles and scripts for the vector engine that have no effect here.
VECTOR_ENGINE_OPTIONS = """
    -report-all -report-format -report-file=list.L -no-report-all -report-append-mode
    -fdiag-vector=2 -fdiag-inline=0 -fdiag-parallel=1 -fdiag-system-header -assembly-list
    -traceback -traceback=verbose -proginf -no-proginf -mmemory-trace -no-ftrace
    -march=ve1 -march=ve3 -mabi=1 -mabi=2 -mfp16-format=bfloat -static-nec -muse-mmap
    -minit-stack=zero -minit-stack=snan
    -mvector -mno-vector -mvector-packed -mno-vector-fma -mvector-advance-gather-limit=512
    -mvector-threshold=5 -mretain-list-vector -mretain-none -mlist-vector -mno-list-vector
    -msched-block -msched-interblock -mconditional-index-test -mwork-vector-kind=none
    -mparallel -mparallel-innerloop -mparallel-threshold=100 -mschedule-dynamic
    -mschedule-chunk-size=8 -mcreate-threads-at-startup -mno-parallel-omp-routine
    -floop-collapse -floop-count=64 -floop-fusion -floop-interchange -floop-normalize -floop-split
    -floop-strip-mine -floop-unroll -floop-unroll-complete=512 -fno-loop-unroll
    -fouterloop-unroll -fouterloop-unroll-max-times=8 -fno-outerloop-unroll
    -fivdep -fivdep-omp-worksharing-loop -fnaked-ivdep -fmatrix-multiply -fno-matrix-multiply
    -fmove-loop-invariants -fmove-loop-invariants-unsafe -fmove-nested-loop-invariants-outer
    -fmove-nested-loops-outer -marg-alias -stdlib=libc++ -Werror
    -freplace-loop-equation -fcse-after-vectorization -fargument-noalias -fnamed-noalias
    -fnamed-noalias-aggressive -fassociative-math -faggressive-associative-math
    -fno-associative-math -fprecise-math -fignore-volatile -ffast-math -fstrict-aliasing
    -finline -finline-functions -finline-max-depth=10 -finline-max-function-size=200
    -finline-max-times=20 -finline-file=other.c -finline-directory=. -finline-copy-arguments
    -fno-inline-file=other.c -finline-abort-at-error -mgenerate-il-file -fbounds-check
    -fno-defer-inline-template-instantiation -Wextension -Wobsolescent
    -fpic -fPIC -pthread
""".split()

KERNEL = """
#include <stdint.h>
#pragma _NEC ivdep
uint64_t kernel(uint64_t value) { return value + 1; }
"""


class compiling(toolchain.test_case):
    def test_options_of_the_vector_engine_are_left_out(self):
        for compiler, source in ("ncc", "kernel.c"), ("nc++", "kernel.cpp"):
            file = self.write(source, 'extern "C" int kernel(int n);\nint kernel(int n)'
                              "{ return n + 1; }\n" if source.endswith("cpp") else KERNEL)
            for level in "-O0", "-O1", "-O2", "-O3", "-O4":
                library = self.folder / f"lib{compiler}.so"
                self.quiet(self.tool(compiler), level, *VECTOR_ENGINE_OPTIONS, "-shared", "-o",
                           library, file)
                self.assertIn("kernel", self.functions_of(library))
                self.assertTrue(self.has_debug_information(library, "kernel"))
                self.assertEqual(ctypes.CDLL(str(library)).kernel(41), 42)

    def test_compiling_and_linking_take_the_same_options(self):
        file = self.write("kernel.c", KERNEL)
        kernel = self.folder / "kernel.o"
        self.quiet(self.tool("ncc"), *VECTOR_ENGINE_OPTIONS, "-c", file, "-o", kernel)
        self.quiet(self.tool("nc++"), *VECTOR_ENGINE_OPTIONS, "-shared", kernel, "-o",
                   self.folder / "libkernel.so")

    def test_options_may_come_from_a_file(self):
        text = "const char* a[] = {A, B, C}; int d = D;\n"
        file = self.write("kernel.c", text)
        options = self.write("options", '-O4 -report-all\n-DA="\\"a b\\"" \'-DB="b  c"\'\t'
                             '-DC=\\"c\\ d\\"\n\n -D D=4 -E -P')
        self.assertIn('{"a b", "b  c", "c d"}; int d = 4;',
                      self.good(self.tool("ncc"), f"@{options}", file))
        self.bad(self.tool("ncc"), "@no_such_file", file)

    def test_warnings_about_pragmas_are_optional(self):
        file = self.write("kernel.c", KERNEL)
        self.quiet(self.tool("ncc"), "-Wall", "-fsyntax-only", file)
        text = self.good(self.tool("ncc"), "-Wall", "-Wunknown-pragma", "-fsyntax-only", file)
        self.assertIn("_NEC", text)

    def test_unknown_options_are_refused_by_name(self):
        file = self.write("kernel.c", KERNEL)
        for option in "-mno-such-thing", "-fno-such-thing-at-all", "-fsuch-a-thing":
            text = self.bad(self.tool("ncc"), option, "-c", file, "-o", self.folder / "kernel.o")
            self.assertIn(option, text)

    def test_options_of_the_compiler_are_passed_on(self):
        file = self.write("kernel.c", "#if !defined A || defined __OPTIMIZE__\n#error no\n#endif\n"
                          "int kernel(void) { return A; }\n")
        plain = self.folder / "plain.o"
        self.quiet(self.tool("ncc"), "-O0", "-g0", "-D", "A=3", "-c", file, "-o", plain)
        self.assertFalse(self.has_debug_information(plain, "kernel"))
        text = self.bad(self.tool("ncc"), "-Wall", "-Werror", "-D", "A=undeclared", "-O0",
                        "-fsyntax-only", file)
        self.assertIn("undeclared", text)
        preprocessed = self.good(self.tool("ncc"), "-E", "-O0", "-DA=7", file)
        self.assertRegex(preprocessed, r"return 7;")

    def test_kernels_are_optimised_and_can_be_moved(self):
        file = self.write("kernel.c", "#ifndef __OPTIMIZE__\n#error\n#endif\n#if __PIC__ != 2\n"
                          "#error\n#endif\n#ifndef __ve__\n#error\n#endif\n")
        self.quiet(self.tool("ncc"), "-fsyntax-only", file)
        self.quiet(self.tool("nc++"), "-fsyntax-only", "-x", "c++", file)

    def test_names_of_the_compiler_are_defined(self):
        file = self.write("kernel.c", "#if !__NEC__ || !defined __ve__\n#error\n#endif\n"
                          "#ifdef __VECTOR__\nint vector;\n#else\nint scalar;\n#endif\n")
        for compiler in "ncc", "nc++":
            self.assertIn("vector", self.good(self.tool(compiler), "-E", file))
            self.assertIn("scalar", self.good(self.tool(compiler), "-mno-vector", "-E", file))

    def test_warnings_are_no_errors(self):
        # This compiler warns of other things than NEC's.
        file = self.write("kernel.c", "static int unused;\nint kernel(void) { return 1; }\n")
        text = self.good(self.tool("ncc"), "-Wall", "-Werror", "-c", file, "-o",
                         self.folder / "kernel.o")
        self.assertIn("unused", text)
        self.bad(self.tool("ncc"), "-Wall", "-Werror=unused-variable", "-c", file, "-o",
                 self.folder / "kernel.o")

    def test_undeclared_functions_are_no_error(self):
        # An undeclared function would return an int, and lose half of the pointer.
        file = self.write("kernel.c", "#include <stdint.h>\n"
                          "int count();\n"
                          "uint64_t kernel(uint64_t address) { count(1, 2); usleep(1);\n"
                          "return (uint64_t)veo_get_hmem_addr((void*)address); }\n"
                          "int count(a, b) int a, b; { return a + b; }\n"
                          "int* number(void) { int n = 5; int* p = n; return p; }\n"
                          "implicit(void) { return 1; }\n")
        for compiler in "gcc", "clang-19":
            with self.subTest(compiler=compiler):
                if toolchain.missing(compiler):
                    self.skipTest(f"{compiler} is not installed")
                library = self.folder / f"lib{compiler}.so"
                text = self.good(self.tool("ncc"), "-shared", file, "-o", library, "-lveohmem",
                                 FARCALL_CC=compiler)
                self.assertIn("usleep", text)  # still a warning
                kernel = ctypes.CDLL(str(library)).kernel
                kernel.restype = ctypes.c_uint64
                tagged = 0x8000000000000000 | 0x600012345678
                self.assertEqual(kernel(ctypes.c_uint64(tagged)), 0x600012345678)

    def test_feature_macros_still_work(self):
        # veo_hmem.h is included first, and must not include headers that depend on _GNU_SOURCE.
        file = self.write("kernel.c", "#define _GNU_SOURCE\n#include <sched.h>\n"
                          "int kernel(void) { return sched_getcpu(); }\n")
        self.quiet(self.tool("ncc"), "-std=c11", "-Werror=implicit-function-declaration", "-c",
                   file, "-o", self.folder / "kernel.o")

    def test_headers_of_the_program_come_first(self):
        self.write("include/libvhcall.h", "#define MINE 1\n")
        file = self.write("kernel.c", "#include <libvhcall.h>\n#include <veo_ve.h>\nint a = MINE;\n")
        self.quiet(self.tool("ncc"), "-I", self.folder / "include", "-fsyntax-only", file)
        self.write("include/libvhcall.h", "")
        self.bad(self.tool("ncc"), "-I", self.folder / "include", "-fsyntax-only", file)

    def test_assembler(self):
        file = self.write("data.S", ".data\n.globl number\nnumber: .quad 5\n"
                          '.section .note.GNU-stack,"",%progbits\n')
        self.quiet(self.tool("ncc"), "-c", file, "-o", self.folder / "data.o")
        self.assertIn("number", self.good(self.tool("nnm"), self.folder / "data.o"))

    def test_standards(self):
        file = self.write("kernel.c", "long version = __STDC_VERSION__;\n")
        self.assertIn("201112L", self.good(self.tool("ncc"), "-E", file))
        self.assertIn("201710L", self.good(self.tool("ncc"), "-std=gnu17", "-E", file))

    def test_openmp(self):
        file = self.write("kernel.c", "#include <omp.h>\nint kernel(void) { int sum = 0;\n"
                          "#pragma omp parallel num_threads(3) reduction(+:sum)\n"
                          "sum += omp_get_thread_num() + 1;\nreturn sum; }\n")
        library = self.folder / "libkernel.so"
        self.quiet(self.tool("ncc"), "-fopenmp", "-mparallel", "-shared", file, "-o", library)
        self.assertEqual(ctypes.CDLL(str(library)).kernel(), 1 + 2 + 3)

    def test_programs_can_be_made_and_run(self):
        file = self.write("main.cpp", "#include <iostream>\n"
                          'int main() { std::cout << "from " << VALUE << "\\n"; }\n')
        program = self.folder / "program"
        self.quiet(self.tool("nc++"), "-DVALUE=3", file, "-o", program)
        self.assertEqual(self.good(program), "from 3\n")

    def test_kernels_find_their_libraries_when_they_are_loaded(self):
        file = self.write("kernel.c", "#include <libvhcall.h>\n#include <veo_ve.h>\n"
                          "int kernel(void) { uint64_t v; return veo_prev_req_result(0, &v) +\n"
                          "veo_get_max_proc_identifier() + (vhcall_find(0, 0) == -1); }\n")
        library = self.folder / "libkernel.so"
        # Without -lsysve, which is linked by default.
        self.quiet(self.tool("ncc"), "-shared", "-Wl,-zdefs", file, "-o", library, "-lveohmem",
                   "-laveoVE", "-lveftrace", "-lveftrace_t", "-lveftrace_p")
        self.assertEqual(ctypes.CDLL(str(library)).kernel(), -1 + 16 + 1)
        for name in "vhcall", "veio", "sysve":
            self.quiet(self.tool("ncc"), "-shared", "-Wl,-zdefs", file, "-o", library, f"-l{name}",
                       "-lveohmem", "-laveoVE")

    def test_kernels_need_only_libraries_that_they_use(self):
        file = self.write("kernel.c", KERNEL)
        library = self.folder / "libkernel.so"
        self.quiet(self.tool("ncc"), "-shared", file, "-o", library)
        self.assertNotIn("sysve", self.good("readelf", "-d", library).split("NEEDED", 1)[-1]
                         .split("RUNPATH")[0])

    def test_relocatable_objects(self):
        file = self.write("kernel.c", KERNEL)
        self.quiet(self.tool("ncc"), "-c", file, "-o", self.folder / "kernel.o")
        self.quiet(self.tool("ncc"), "-r", self.folder / "kernel.o", "-o", self.folder / "all.o")
        self.assertIn("kernel", self.good(self.tool("nnm"), self.folder / "all.o"))

    def test_archives(self):
        file = self.write("kernel.c", KERNEL)
        archive = self.folder / "libkernel.a"
        self.quiet(self.tool("ncc"), "-c", file, "-o", self.folder / "kernel.o")
        self.quiet(self.tool("nar"), "rcs", archive, self.folder / "kernel.o")
        self.quiet(self.tool("nranlib"), archive)
        self.assertRegex(self.good(self.tool("nnm"), archive), r"T kernel")


class translating(toolchain.test_case):
    """The table of options: the compiler's command line does not show dropped options."""

    def translate(self, command, *options):
        script = f"""
            set -eu
            veo_command={command} tool=(gcc) ftrace= default_double=
            . '{self.tool("ncc").resolve().parent}/options.bash'
            for option; do translate "$option"; echo "$option => ${{words[*]}}"; done"""
        text = self.good("bash", "-c", script, "bash", *options)
        return dict(line.split(" => ") for line in text.splitlines())

    def expect(self, command, **pairs):
        pairs = pairs["pairs"]
        self.assertEqual(self.translate(command, *pairs), pairs)

    def test_known_to_both(self):
        for command in "ncc", "nc++", "nfort":
            self.expect(command, pairs={option: option for option in (
                "-O0", "-O3", "-Ofast", "-g", "-fopenmp", "-fpic", "-finline", "-finline-functions",
                "-fno-inline-functions", "-ffast-math", "-fno-fast-math", "-fstrict-aliasing",
                "-march=native", "-mavx2", "-Wl,-zdefs", "-Wall", "-shared", "-std=f2008", "-pthread",
                "-Dvalue", "-I.", "-L.", "-lm", "-fno-associative-math", "-freciprocal-math",
                "-fdiagnostics-color=never", "-mtune=generic", "-static")})

    def test_left_out(self):
        for command in "ncc", "nc++", "nfort":
            kept = {"-ffast-math", "-fstrict-aliasing", "-finline", "-finline-functions", "-fpic",
                    "-fPIC", "-pthread", "-fno-associative-math", "-minit-stack=zero",
                    "-fbounds-check"}
            self.expect(command, pairs={option: "" for option in VECTOR_ENGINE_OPTIONS
                                        if option not in kept})

    def test_under_another_name(self):
        self.expect("ncc", pairs={"-O4": "-O3", "-Wunknown-pragma": "-Wunknown-pragmas",
                                  "-minit-stack=zero": "-ftrivial-auto-var-init=zero"
                                  if self.accepts("-ftrivial-auto-var-init=zero") else "",
                                  "-fbounds-check": "", "-fpp": "-fpp", "-module": "-module"})

    def accepts(self, option):
        return toolchain.run("gcc", option, "-E", "-x", "c", "/dev/null")[0] == 0

    def test_fortran_under_another_name(self):
        self.expect("nfort", pairs={
            "-fpp": "-cpp", "-module": "-J", "-save": "-fno-automatic", "-cxxlib": "-lstdc++",
            "-fextend-source": "-ffixed-line-length-132", "-fdefault-real=8": "-fdefault-real-8",
            "-fdefault-real=4": "", "-fdefault-integer=8": "-fdefault-integer-8",
            "-fdefault-double=16": "", "-fdefault-double=8": "", "-bss": "", "-fpp-name=cpp": "",
            "-fmax-continuation-lines=500": "", "-fcheck=all": "-fcheck=all",
            "-fcheck=bounds,dangling,do": "-fcheck=bounds,do", "-fcheck=alias": "",
            "-fbounds-check": "-fbounds-check", "-ffree-form": "-ffree-form"})


class talking(toolchain.test_case):
    def test_commands_say_what_they_are(self):
        for name in "ncc", "nc++", "nar", "nranlib", "nnm":
            first = self.good(self.tool(name), "--version").splitlines()[0]
            self.assertTrue(first.startswith(f"{name} (farcall "), first)
            self.assertIn(name, self.good(self.tool(name), "--help"))
        self.assertIn("-ftrace", self.good(self.tool("ncc"), "--help"))

    def test_versions_are_where_build_files_look(self):
        for name in "ncc", "nc++":
            done = subprocess.run([self.tool(name), "--version"], capture_output=True, text=True,
                                  check=True)
            self.assertRegex(done.stderr, r"[0-9]+\.[0-9]+\.[0-9]+")
            self.assertNotEqual(done.stdout, "")

    def test_programs_run_here(self):
        ve_exec = self.tool("ve_exec")
        text = self.good(ve_exec, "-N", "2", "--core=3", "--", "env")
        self.assertIn("VE_NODE_NUMBER=2\n", text)
        self.assertIn("VE_CORE_NUMBER=3\n", text)
        self.assertEqual(self.good(ve_exec, "echo", "-N", "1"), "-N 1\n")
        self.assertEqual(toolchain.run(ve_exec, "sh", "-c", "exit 5")[0], 5)
        self.assertIn("--nothing", self.bad(ve_exec, "--nothing", "true"))
        self.bad(ve_exec)
        self.assertIn("usage", self.good(ve_exec, "--help"))

    def test_the_debugger_is_the_systems(self):
        fake = self.write("gdb", "#!/bin/sh\necho the real gdb: $*\n")
        fake.chmod(0o755)
        path = f"{toolchain.root / 'bin'}:{self.folder}:/bin:/usr/bin"
        for name in "gdb", "ve-gdb":
            self.assertEqual(self.good(self.tool(name), "--args", "x", PATH=path),
                             "the real gdb: --args x\n")

    def test_questions_to_the_compiler(self):
        version = self.good("gcc", "-dumpversion")
        self.assertEqual(self.good(self.tool("ncc"), "-dumpversion"), version)
        self.assertIn("libc.so", self.good(self.tool("ncc"), "-print-file-name=libc.so"))

    def test_a_missing_compiler_is_named(self):
        text = self.bad(self.tool("ncc"), "-c", "a.c", FARCALL_CC="no-such-compiler")
        self.assertRegex(text, "ncc: 'no-such-compiler' not found.*FARCALL_CC")

    def test_another_name_and_a_link_from_elsewhere(self):
        file = self.write("kernel.c", KERNEL)
        link = self.folder / "farcall-ncc"
        link.symlink_to(self.tool("ncc"))
        self.quiet(link, "-O4", "-shared", file, "-o", self.folder / "libkernel.so")
        text = self.bad(link, "-c", "a.c", FARCALL_CC="no-such-compiler")
        self.assertTrue(text.startswith("farcall-ncc:"), text)

    def test_the_script_itself_is_no_command(self):
        script = self.tool("ncc").resolve()
        self.assertIn("ncc, nc++ and nfort", self.bad(script, "-c", "a.c"))

    def test_old_scripts_get_a_symbol_table_to_compile(self):
        text = self.good(self.tool("gen_veorun_static_symtable"), "nm", "a.o")
        file = self.write("table.c", text)
        self.quiet(self.tool("ncc"), "-pedantic", "-Wall", "-c", file, "-o",
                   self.folder / "table.o")


class relinking(toolchain.test_case):
    """mk_veorun_static with a test archive, whose main() calls the functions in its arguments."""

    def setUp(self):
        super().setUp()
        self.quiet(self.tool("ncc"), "-c", toolchain.PROGRAMS / "static_main.c", "-o",
                   self.folder / "main.o")
        self.quiet("ar", "rcs", self.folder / "libaveorun.a", self.folder / "main.o")
        # A library that the archive needs, beside it.
        helper = self.write("helper.c", "int helper_of_main(void) { return 0; }\n")
        self.quiet("gcc", "-c", helper, "-o", self.folder / "helper.o")
        self.quiet("ar", "rcs", self.folder / "libneeded.a", self.folder / "helper.o")
        self.write("aveorun.link", "-lneeded -ldl\n")
        for name in "one", "two", "three":
            file = self.write(f"{name}.c", f"int {name}(void) {{ return 1{len(name)}; }}\n"
                              f"int also_{name}(void) {{ return 2{len(name)}; }}\n")
            self.quiet(self.tool("ncc"), "-c", file, "-o", self.folder / f"{name}.o")
        self.quiet("ar", "rcs", self.folder / "libtwo.a", self.folder / "two.o")
        self.quiet("ar", "rcs", self.folder / "libthree.a", self.folder / "three.o")

    def relink(self, *arguments, tool="mk_veorun_static", **changes):
        return self.good(self.tool(tool), *arguments, cwd=self.folder,
                         FARCALL_AVEORUN_ARCHIVE=str(self.folder / "libaveorun.a"), **changes)

    def expect_kernels(self, program):
        text = self.good(self.folder / program, "one", "two", "also_one", "also_two")
        self.assertEqual(text, "one 13\ntwo 13\nalso_one 23\nalso_two 23\n")

    def test_objects_and_archives_in_all_forms(self):
        for tool in ("mk_veorun_static", "relink_aveorun", "mk_veorun_static_ve1",
                     "relink_aveorun_ve3"):
            text = self.relink("-o", f"a_{tool}", "one.o", "libtwo.a", tool=tool)
            self.assertEqual(text, f"{tool}: made a_{tool}\n")
            self.expect_kernels(f"a_{tool}")
            self.relink(f"b_{tool}", "one.o", "libtwo.a", "-pthread", "-ldl", tool=tool)
            self.expect_kernels(f"b_{tool}")

    def test_options(self):
        text = self.relink("-v", "-fopenmp", "-traceback=verbose", "-report-all", "-L.",
                           "-Wl,--no-undefined", "-o", "program", "one.o", "libtwo.a", "-lm",
                           CFLAGS="-g -march=ve1", LDFLAGS="-no-proginf")
        self.assertIn("-fopenmp", text)
        self.assertIn("--no-undefined", text)
        for left_out in "-traceback", "-report-all", "-march=ve1", "-no-proginf":
            self.assertNotIn(left_out, text)
        self.expect_kernels("program")

    def test_objects_with_openmp_need_no_option(self):
        file = self.write("threads.c", "int threads(void) { int n = 0;\n"
                          "#pragma omp parallel num_threads(3) reduction(+:n)\nn += 1;\nreturn n; }\n")
        self.quiet(self.tool("ncc"), "-fopenmp", "-c", file, "-o", self.folder / "threads.o")
        self.relink("-o", "program", "threads.o")
        self.assertEqual(self.good(self.folder / "program", "threads"), "threads 3\n")

    def test_files_without_symbols(self):
        caller = self.write("caller.c", "int three(void);\nint caller(void) { return three(); }\n")
        self.quiet(self.tool("ncc"), "-c", caller, "-o", self.folder / "caller.o")
        self.relink("program", "one.o", "--link-nosym=libtwo.a,libthree.a", "caller.o")
        status, text = toolchain.run(self.folder / "program", "one", "caller", "two")
        # `two` is not linked, because it is not used.
        self.assertEqual((status, text), (1, "one 13\ncaller 15\ntwo is missing\n"))

    def test_several_lists_of_files_without_symbols(self):
        text = self.relink("program", "one.o", "--link-nosym=libtwo.a", "-v",
                           "--link-nosym=libthree.a")
        self.assertIn("--no-whole-archive libtwo.a libthree.a", text)

    def test_function_traces(self):
        source = self.write("traced.c", "int traced(void) { return 4; }\n")
        self.quiet(self.tool("ncc"), "-ftrace", "-c", source, "-o", self.folder / "traced.o")
        self.relink("-ftrace", "-o", "program", "traced.o")
        output = self.folder / "trace"
        self.good(self.folder / "program", "traced", VE_FTRACE_OUT_NAME=str(output))
        self.assertRegex(output.read_text(), r"\n +1 .* traced\n")

    def test_mistakes(self):
        for arguments, message in (
                ([], "--help"), (["one"], "--help"), (["-o"], "-o wants"),
                (["program", "no_such.o"], "cannot read 'no_such.o'")):
            text = self.bad(self.tool("mk_veorun_static"), *arguments, cwd=self.folder)
            self.assertIn(message, text)
        text = self.bad(self.tool("mk_veorun_static"), "program", "one.o", cwd=self.folder,
                        FARCALL_AVEORUN_ARCHIVE="elsewhere/libaveorun.a")
        self.assertRegex(text, "no 'elsewhere/libaveorun.a'.*FARCALL_AVEORUN_ARCHIVE")
        (self.folder / "aveorun.link").unlink()
        text = self.bad(self.tool("mk_veorun_static"), "program", "one.o", cwd=self.folder,
                        FARCALL_AVEORUN_ARCHIVE=str(self.folder / "libaveorun.a"))
        self.assertIn("aveorun.link", text)

    def test_help_and_version(self):
        self.assertIn("--link-nosym", self.good(self.tool("relink_aveorun"), "--help"))
        self.assertRegex(self.good(self.tool("mk_veorun_static_ve1"), "--version"),
                         r"^mk_veorun_static \(farcall \d")


if __name__ == "__main__":
    toolchain.main()
