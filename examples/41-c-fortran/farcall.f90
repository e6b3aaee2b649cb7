! SPDX-License-Identifier: Apache-2.0

! farcall's C interface, as far as this example needs it.
module farcall
  use iso_c_binding
  implicit none

  integer(c_int), parameter :: fc_ok = 0

  ! fc_node of farcall.h
  type, bind(c) :: fc_node
    type(c_ptr) :: job = c_null_ptr
    type(c_ptr) :: lane = c_null_ptr
    integer(c_int64_t) :: deadline = 0
    integer(c_int32_t) :: id = 0
    integer(c_int32_t) :: flags = 0
  end type fc_node

  interface
    integer(c_int) function fc_register(name, run, user) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr), value :: run
      type(c_ptr), value :: user
    end function fc_register

    integer(c_int) function fc_job_start(argc, argv, options, job) bind(c)
      import
      type(c_ptr), value :: argc, argv, options
      type(c_ptr), intent(out) :: job
    end function fc_job_start

    subroutine fc_job_end(job) bind(c)
      import
      type(c_ptr), value :: job
    end subroutine fc_job_end

    integer(c_int32_t) function fc_job_size(job) bind(c)
      import
      type(c_ptr), value :: job
    end function fc_job_size

    integer(c_int) function fc_node_at(job, id, node) bind(c)
      import
      type(c_ptr), value :: job
      integer(c_int32_t), value :: id
      type(fc_node), intent(out) :: node
    end function fc_node_at

    integer(c_int64_t) function fc_named(name) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*)
    end function fc_named

    integer(c_int) function fc_call(where, function, bytes, length, result, capacity, result_size) &
        bind(c)
      import
      type(fc_node), value :: where
      integer(c_int64_t), value :: function
      type(c_ptr), value :: bytes, result
      integer(c_size_t), value :: length, capacity
      integer(c_size_t), intent(out) :: result_size
    end function fc_call

    integer(c_int) function fc_reply_bytes(reply, bytes, length) bind(c)
      import
      type(c_ptr), value :: reply, bytes
      integer(c_size_t), value :: length
    end function fc_reply_bytes

    type(c_ptr) function fc_error_text() bind(c)
      import
    end function fc_error_text
  end interface

contains

  ! Ends the program with an error message, unless the call succeeded.
  subroutine need(status)
    integer(c_int), intent(in) :: status
    interface
      integer(c_int) function puts(text) bind(c)
        import
        type(c_ptr), value :: text
      end function puts
    end interface
    if (status == fc_ok) return
    if (puts(fc_error_text()) >= 0) error stop
  end subroutine need
end module farcall
