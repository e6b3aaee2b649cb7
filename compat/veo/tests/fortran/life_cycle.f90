! SPDX-License-Identifier: Apache-2.0

! Life cycle of a process of kernels, in a program in Fortran. The interfaces are like
! ve_offload.h; opaque types are pointers here.
module veo
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: veo_intent_in = 0, veo_intent_inout = 1, veo_intent_out = 2
  integer(c_int), parameter :: veo_command_ok = 0

  interface
    function veo_proc_create(node) bind(c)
      import :: c_int, c_ptr
      integer(c_int), value :: node
      type(c_ptr) :: veo_proc_create
    end function
    integer(c_int) function veo_proc_destroy(proc) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: proc
    end function
    integer(c_int64_t) function veo_load_library(proc, name) bind(c)
      import :: c_int64_t, c_ptr, c_char
      type(c_ptr), value :: proc
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int64_t) function veo_get_sym(proc, library, name) bind(c)
      import :: c_int64_t, c_ptr, c_char
      type(c_ptr), value :: proc
      integer(c_int64_t), value :: library
      character(kind=c_char), intent(in) :: name(*)
    end function
    function veo_context_open(proc) bind(c)
      import :: c_ptr
      type(c_ptr), value :: proc
      type(c_ptr) :: veo_context_open
    end function
    integer(c_int) function veo_context_close(context) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function
    function veo_args_alloc() bind(c)
      import :: c_ptr
      type(c_ptr) :: veo_args_alloc
    end function
    subroutine veo_args_clear(args) bind(c)
      import :: c_ptr
      type(c_ptr), value :: args
    end subroutine
    subroutine veo_args_free(args) bind(c)
      import :: c_ptr
      type(c_ptr), value :: args
    end subroutine
    integer(c_int) function veo_args_set_i64(args, number, val) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: args
      integer(c_int), value :: number
      integer(c_int64_t), value :: val
    end function
    integer(c_int) function veo_args_set_double(args, number, val) bind(c)
      import :: c_int, c_double, c_ptr
      type(c_ptr), value :: args
      integer(c_int), value :: number
      real(c_double), value :: val
    end function
    integer(c_int) function veo_args_set_stack(args, intent, number, buffer, length) bind(c)
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), value :: args
      integer(c_int), value :: intent, number
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: length
    end function
    integer(c_int) function veo_call_sync(proc, address, args, res) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: proc, args
      integer(c_int64_t), value :: address
      integer(c_int64_t), intent(out) :: res
    end function
    integer(c_int64_t) function veo_call_async(context, address, args) bind(c)
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: context, args
      integer(c_int64_t), value :: address
    end function
    integer(c_int) function veo_call_wait_result(context, request, res) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      integer(c_int64_t), value :: request
      integer(c_int64_t), intent(out) :: res
    end function
    integer(c_int) function veo_alloc_mem(proc, address, length) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: proc
      integer(c_int64_t), intent(out) :: address
      integer(c_size_t), value :: length
    end function
    integer(c_int) function veo_free_mem(proc, address) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: proc
      integer(c_int64_t), value :: address
    end function
    integer(c_int) function veo_write_mem(proc, to, from, length) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: proc, from
      integer(c_int64_t), value :: to
      integer(c_size_t), value :: length
    end function
    integer(c_int) function veo_read_mem(proc, to, from, length) bind(c)
      import :: c_int, c_int64_t, c_size_t, c_ptr
      type(c_ptr), value :: proc, to
      integer(c_int64_t), value :: from
      integer(c_size_t), value :: length
    end function
  end interface
end module veo

program life_cycle
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use veo
  implicit none

  integer, parameter :: n = 1000
  type(c_ptr) :: proc, context, args
  integer(c_int64_t) :: library, scale, dot, address, request, res
  real(c_double), target :: x(n), y(n), factor
  integer(c_int64_t), target :: length
  integer :: i
  character(len=4096) :: folder

  call get_environment_variable("VEO_TEST_KERNELS", folder)
  proc = veo_proc_create(0)
  call check(c_associated(proc), "veo_proc_create")
  library = veo_load_library(proc, trim(folder)//"/libveo_fortran.so"//c_null_char)
  call check(library /= 0, "veo_load_library")
  scale = veo_get_sym(proc, library, "scale_array_"//c_null_char)
  dot = veo_get_sym(proc, library, "dot"//c_null_char)
  call check(scale /= 0 .and. dot /= 0, "veo_get_sym")

  ! All arguments on the kernel's stack.
  x = [(real(i, c_double), i=1, n)]
  factor = 3
  length = n
  args = veo_args_alloc()
  call check(veo_args_set_stack(args, veo_intent_inout, 0_c_int, c_loc(x), &
    int(8*n, c_size_t)) == 0, "veo_args_set_stack, both ways")
  call check(veo_args_set_stack(args, veo_intent_in, 1_c_int, c_loc(length), 8_c_size_t) == 0, &
    "veo_args_set_stack, in")
  call check(veo_args_set_stack(args, veo_intent_in, 2_c_int, c_loc(factor), 8_c_size_t) == 0, &
    "veo_args_set_stack, in")
  call check(veo_call_sync(proc, scale, args, res) == 0, "veo_call_sync")
  call check(res == n, "the result of scale_array")
  call check(all(x == [(3*real(i, c_double), i=1, n)]), "the scaled array")

  ! Data in memory of the process, asynchronously.
  context = veo_context_open(proc)
  call check(c_associated(context), "veo_context_open")
  call check(veo_alloc_mem(proc, address, int(16*n, c_size_t)) == 0, "veo_alloc_mem")
  y = 2
  call check(veo_write_mem(proc, address, c_loc(x), int(8*n, c_size_t)) == 0, "veo_write_mem")
  call check(veo_write_mem(proc, address + 8*n, c_loc(y), int(8*n, c_size_t)) == 0, "veo_write_mem")
  call veo_args_clear(args)
  call check(veo_args_set_i64(args, 0_c_int, address) == 0, "veo_args_set_i64")
  call check(veo_args_set_i64(args, 1_c_int, address + 8*n) == 0, "veo_args_set_i64")
  call check(veo_args_set_i64(args, 2_c_int, int(n, c_int64_t)) == 0, "veo_args_set_i64")
  request = veo_call_async(context, dot, args)
  call check(veo_call_wait_result(context, request, res) == veo_command_ok, "veo_call_wait_result")
  ! 2 * 3 * (1 + 2 + ... + n), as the bits of a real number.
  call check(transfer(res, 0.0_c_double) == 3.0_c_double*n*(n + 1), "the result of dot")
  x = 0
  call check(veo_read_mem(proc, c_loc(x), address + 8*n, int(8*n, c_size_t)) == 0, "veo_read_mem")
  call check(all(x == 2), "the array that was read")
  call check(veo_free_mem(proc, address) == 0, "veo_free_mem")

  call veo_args_free(args)
  call check(veo_context_close(context) == 0, "veo_context_close")
  call check(veo_proc_destroy(proc) == 0, "veo_proc_destroy")

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    write (error_unit, '(2a)') "failed: ", what
    stop 1
  end subroutine check
end program life_cycle
