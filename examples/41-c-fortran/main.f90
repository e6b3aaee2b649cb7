! SPDX-License-Identifier: Apache-2.0

! Calls a Fortran function in other processes.
!
!   example-41-c-fortran                         one target process
!   FARCALL_TARGETS=shm:3 example-41-c-fortran   three of them
module handlers
  use iso_c_binding
  use farcall
  implicit none

contains

  ! Runs on the target: the mean of the values that arrive.
  subroutine mean(reply, bytes, length, user) bind(c)
    type(c_ptr), value :: reply, bytes, user
    integer(c_size_t), value :: length
    real(c_double), pointer :: values(:)
    real(c_double), target :: result
    integer(c_int) :: status

    call c_f_pointer(bytes, values, [length / 8])
    result = sum(values) / real(size(values), c_double)
    status = fc_reply_bytes(reply, c_loc(result), 8_c_size_t)
    if (status /= fc_ok .or. c_associated(user)) error stop
  end subroutine mean
end module handlers

program main
  use iso_c_binding
  use farcall
  use handlers
  implicit none

  integer, parameter :: n = 101
  type(c_ptr) :: job
  type(fc_node) :: node
  real(c_double), target :: values(n), result
  integer(c_size_t) :: result_size
  integer(c_int32_t) :: id
  integer :: i

  ! In a target, fc_job_start() serves calls and does not return: register first.
  call need(fc_register("mean" // c_null_char, c_funloc(mean), c_null_ptr))
  call need(fc_job_start(c_null_ptr, c_null_ptr, c_null_ptr, job))

  values = [(real(i, c_double), i = 0, n - 1)]
  do id = 1, fc_job_size(job) - 1
    call need(fc_node_at(job, id, node))
    result = 0
    call need(fc_call(node, fc_named("mean" // c_null_char), c_loc(values), &
                      int(8 * n, c_size_t), c_loc(result), 8_c_size_t, result_size))
    print '(a, i0, a, f6.2)', "mean, computed by node ", id, ":", result
    if (result_size /= 8 .or. abs(result - 50) > 0) error stop
  end do
  call fc_job_end(job)
end program main
