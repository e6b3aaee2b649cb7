! SPDX-License-Identifier: Apache-2.0

! Kernels in Fortran: with Fortran's calling conventions, and with C's.

! Arguments by reference, and a name with an underscore at its end.
integer(8) function scale_array(x, n, factor)
  implicit none
  integer(8), intent(in) :: n
  real(8), intent(inout) :: x(n)
  real(8), intent(in) :: factor
  x = x * factor
  scale_array = n
end function scale_array

subroutine add_arrays(a, b, c, n)
  implicit none
  integer(4), intent(in) :: n
  real(4), intent(in) :: a(n), b(n)
  real(4), intent(out) :: c(n)
  c = a + b
end subroutine add_arrays

module veo_test_values
  use, intrinsic :: iso_c_binding
  implicit none
contains
  integer(c_int64_t) function weighted(a, x, b, y) bind(c, name="weighted")
    integer(c_int32_t), value :: a
    real(c_double), value :: x
    integer(c_int64_t), value :: b
    real(c_float), value :: y
    weighted = a + 10 * int(x, c_int64_t) + 100 * b + 1000 * int(y, c_int64_t)
  end function weighted

  real(c_double) function dot(a, b, n) bind(c, name="dot")
    integer(c_int64_t), value :: n
    real(c_double), intent(in) :: a(n), b(n)
    dot = dot_product(a, b)
  end function dot

  ! The text stays in a buffer if standard output is a file.
  subroutine print_and_stop() bind(c, name="print_and_stop")
    print '(a)', "last output"
    stop 3
  end subroutine print_and_stop

  ! Ends the program by exit(), within the library's own code.
  subroutine print_and_read_nothing() bind(c, name="print_and_read_nothing")
    integer :: value
    print '(a)', "last output"
    open (unit=10, file="/dev/null", status="old")
    read (10, *) value
  end subroutine print_and_read_nothing
end module veo_test_values
