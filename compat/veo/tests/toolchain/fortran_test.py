#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nfort: options of NEC's compiler, and kernels that can be called.

Run as: fortran_test.py <folder with bin, include and lib>. Exits with 77 without a Fortran compiler.
"""

import ctypes

import toolchain

KERNELS = """
! Longer than a line may be in standard Fortran, which NEC's compiler does not mind: ---------------------------------------------------------------
SUBROUTINE SUB1(x, ret)
  implicit none
  INTEGER, INTENT(IN) :: x
  INTEGER, INTENT(OUT) :: ret
  !NEC$ ivdep
  ret = x + 1 + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x + 0*x
END SUBROUTINE SUB1

INTEGER FUNCTION FUNC1(x, y)
  implicit none
  INTEGER, VALUE :: x, y
  FUNC1 = x + y
END FUNCTION FUNC1
"""


class fortran(toolchain.test_case):
    def test_options_of_the_vector_engine(self):
        file = self.write("kernels.f90", KERNELS)
        library = self.folder / "libkernels.so"
        text = self.good(
            self.tool("nfort"), "-O4", "-report-all", "-report-format", "-fdiag-vector=2",
            "-fdiag-parallel=0", "-march=ve3", "-traceback", "-finline-functions",
            "-finline-max-depth=5", "-fassume-contiguous", "-fno-matrix-multiply", "-msched-block",
            "-mno-vector-fma", "-fno-outerloop-unroll", "-minit-stack=zero", "-mstack-arrays",
            "-fcopyin-intent-out", "-ffast-formatted-io", "-fmax-continuation-lines=500", "-shared",
            "-fpic", file, "-o", library)
        self.assertEqual(text, "")
        self.assertTrue(self.has_debug_information(library, "func1"))
        self.assertLessEqual({"sub1_", "func1_"}, self.functions_of(library))
        kernels = ctypes.CDLL(str(library))
        result = ctypes.c_int(0)
        kernels.sub1_(ctypes.byref(ctypes.c_int(41)), ctypes.byref(result))
        self.assertEqual(result.value, 42)
        self.assertEqual(kernels.func1_(1, 2), 3)

    def size_of(self, variable, *options):
        file = self.write("size.F90", "integer function size_of()\n real :: r\n integer :: i\n"
                          f" double precision :: d\n size_of = storage_size({variable}) / 8\nend\n")
        library = self.folder / f"lib{variable}{len(options)}.so"
        self.quiet(self.tool("nfort"), *options, "-shared", file, "-o", library)
        return ctypes.CDLL(str(library)).size_of_()

    def test_sizes_of_numbers(self):
        self.assertEqual(self.size_of("r"), 4)
        self.assertEqual(self.size_of("r", "-fdefault-real=4"), 4)
        self.assertEqual(self.size_of("d", "-fdefault-double=8"), 8)
        self.assertEqual(self.size_of("r", "-fdefault-real=8", "-fdefault-double=8"), 8)
        self.assertEqual(self.size_of("d", "-fdefault-real=8", "-fdefault-double=8"), 8)
        self.assertEqual(self.size_of("i", "-fdefault-integer=8"), 8)

    def test_preprocessor_and_modules(self):
        modules = self.folder / "modules"
        modules.mkdir()
        module = self.write("numbers.f90", "module numbers\n integer, parameter :: five = 5\n"
                            "#ifndef __ve__\n#error\n#endif\n"
                            "end module\n")
        self.quiet(self.tool("nfort"), "-fpp", "-module", modules, "-c", module, "-o",
                   self.folder / "numbers.o")
        self.assertTrue((modules / "numbers.mod").exists())
        user = self.write("user.f90", "integer function kernel()\n use numbers\n kernel = five\nend\n")
        library = self.folder / "libuser.so"
        self.quiet(self.tool("nfort"), "-module", modules, "-shared", user, "-o", library)
        self.assertEqual(ctypes.CDLL(str(library)).kernel_(), 5)

    def test_unsigned_kinds_of_iso_c_binding(self):
        file = self.write("kinds.f90", "! it's no comment of C: /*\n"
                          "integer(c_int64_t) function kernel(n) bind(c)\n"
                          " use, intrinsic :: iso_c_binding, only : c_int64_t, C_UINT64_T, c_uint8_t\n"
                          " integer(C_UInt64_T), value :: n\n integer(c_uint8_t) :: small\n"
                          " kernel = n + kind(small) + len('a/*b')\nend\n")
        library = self.folder / "libkinds.so"
        self.quiet(self.tool("nfort"), "-shared", file, "-o", library)
        self.assertEqual(ctypes.CDLL(str(library)).kernel(ctypes.c_int64(5)), 10)

    def test_unsigned_kinds_of_the_program_itself(self):
        file = self.write("own.f90", "module own\n use iso_c_binding\n"
                          " integer, parameter :: c_uint64_t = c_int32_t\nend module\n"
                          "integer function kernel()\n use own, only : c_uint64_t\n"
                          " kernel = c_uint64_t\nend\n")
        library = self.folder / "libown.so"
        self.quiet(self.tool("nfort"), "-module", self.folder, "-shared", file, "-o", library)
        self.assertEqual(ctypes.CDLL(str(library)).kernel_(), 4)

    def test_modules_of_the_command_line_are_refused(self):
        file = self.write("kernel.f90", "integer function kernel()\n kernel = 1\nend\n")
        self.assertRegex(self.bad(self.tool("nfort"), "-use", "numbers", "-c", file, "-o",
                                  self.folder / "kernel.o"), "nfort: .* no option -use: write the USE")

    def test_fixed_form_with_long_lines(self):
        file = self.write("old.f", "      INTEGER FUNCTION KERNEL()\n      KERNEL = 1" + " " * 60 +
                          "+ 1\n      END\n")
        values = []
        for options in [], ["-fextend-source"]:
            library = self.folder / f"libold{len(options)}.so"
            self.good(self.tool("nfort"), *options, "-shared", file, "-o", library)
            values.append(ctypes.CDLL(str(library)).kernel_())
        self.assertEqual(values, [1, 2])

    def test_arguments_that_do_not_match_are_no_error(self):
        file = self.write("calls.f", "      SUBROUTINE KERNEL\n      INTEGER I\n      REAL R\n"
                          "      CALL OTHER(I)\n      CALL OTHER(R)\n      END\n")
        self.good(self.tool("nfort"), "-c", file, "-o", self.folder / "calls.o")

    def test_openmp(self):
        file = self.write("kernel.f90", "integer function kernel()\n integer :: i\n kernel = 0\n"
                          " !$omp parallel do reduction(+:kernel) num_threads(3)\n do i = 1, 100\n"
                          "  kernel = kernel + i\n end do\nend\n")
        library = self.folder / "libkernel.so"
        self.quiet(self.tool("nfort"), "-fopenmp", "-mparallel", "-shared", file, "-o", library)
        self.assertEqual(ctypes.CDLL(str(library)).kernel_(), 5050)

    def test_target_programs_with_fortran_in_them(self):
        self.quiet(self.tool("ncc"), "-Dhelper_of_main=unused", "-c",
                   toolchain.PROGRAMS / "static_main.c", "-o", self.folder / "main.o")
        helper = self.write("helper.c", "int unused(void) { return 0; }\n")
        self.quiet("gcc", "-c", helper, "-o", self.folder / "helper.o")
        self.quiet("ar", "rcs", self.folder / "libaveorun.a", self.folder / "main.o",
                   self.folder / "helper.o")
        self.write("aveorun.link", "-ldl\n")
        file = self.write("kernel.f90", "integer function kernel()\n write(*, *) 'hello'\n"
                          " kernel = 4\nend\n")
        self.quiet(self.tool("nfort"), "-c", file, "-o", self.folder / "kernel.o")
        program = self.folder / "program"
        self.good(self.tool("mk_veorun_static"), "-o", program, self.folder / "kernel.o",
                  FARCALL_AVEORUN_ARCHIVE=str(self.folder / "libaveorun.a"))
        text = self.good(program, "kernel_")
        self.assertEqual(sorted(text.splitlines()), [" hello", "kernel_ 4"])

    def test_calls_are_counted(self):
        file = self.write("kernels.f90", KERNELS)
        self.quiet(self.tool("nfort"), "-ftrace", "-c", file, "-o", self.folder / "kernels.o")
        self.assertIn("__cyg_profile_func_enter", self.good("nm", self.folder / "kernels.o"))

    def test_version_names_the_command(self):
        self.assertRegex(self.good(self.tool("nfort"), "--version"), r"^nfort \(farcall ")
        self.assertIn("Fortran kernels", self.good(self.tool("nfort"), "--help"))


if __name__ == "__main__":
    if toolchain.missing("gfortran"):
        toolchain.skip("gfortran is not installed")
    toolchain.main()
