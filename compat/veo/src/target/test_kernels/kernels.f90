! SPDX-License-Identifier: Apache-2.0

! By reference, as Fortran does it.
real(8) function fortran_dot(n, a, b)
  integer, intent(in) :: n
  real(8), intent(in) :: a(n), b(n)
  fortran_dot = sum(a * b)
end function

real(8) function fortran_ninth(a, b, c, d, e, f, g, h, i)
  real(8), intent(in) :: a, b, c, d, e, f, g, h, i
  fortran_ninth = i + 0 * (a + b + c + d + e + f + g + h)
end function

subroutine fortran_scale(x, k)
  real(4), intent(inout) :: x
  integer(2), intent(in) :: k
  x = x * k
end subroutine

module kernels
  use iso_c_binding
contains
  ! By value, and on the stack as well as in registers.
  real(c_double) function fortran_values(a, b, c, d, e, f, g, h, i, j, k) &
      bind(c, name='fortran_values')
    real(c_double), value :: a
    integer(c_int), value :: b
    real(c_float), value :: c
    integer(c_int64_t), value :: d, e, f, g, h, i, j
    integer(c_int16_t), value :: k
    fortran_values = a + b + c + d + e + f + g + h + i + j + k
  end function

  subroutine fortran_address(p, x) bind(c, name='fortran_address')
    type(c_ptr), value :: p
    real(c_double), intent(out) :: x
    real(c_double), pointer :: to
    call c_f_pointer(p, to)
    x = to
  end subroutine
end module
