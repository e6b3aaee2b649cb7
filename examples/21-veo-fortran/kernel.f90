! SPDX-License-Identifier: Apache-2.0

! The kernel: runs in a helper process. Fortran passes addresses; the caller puts the values on the
! kernel's stack.
subroutine smooth(values, n, passes) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), intent(in) :: n, passes
  real(c_double), intent(inout) :: values(n)
  integer :: pass

  do pass = 1, passes
    values(2:n - 1) = (values(1:n - 2) + values(2:n - 1) + values(3:n)) / 3
  end do
end subroutine smooth
