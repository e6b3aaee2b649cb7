// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace farcall::veo {

/// Records which thread has created a thread. The program defines pthread_create(), so that kernel
/// libraries and the runtime of OpenMP call this definition. Each new thread inherits the record of
/// the thread that creates it.

/// Makes the calling thread the recorded creator of all threads that it starts from now on,
/// directly or by way of other threads.
void become_thread_creator() noexcept;

/// Returns the thread id of the nearest creator that has called become_thread_creator(), which may
/// be the calling thread itself. Returns 0 if there is none. Also returns 0 if the C library has
/// started the thread without pthread_create(), as thrd_create() does. Safe in signal handlers.
pid_t creator_of_this_thread() noexcept;

} // namespace farcall::veo
