// SPDX-License-Identifier: Apache-2.0
#include "thread_creator.hpp"

#include <cerrno>
#include <new>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

// Sanitizers export their own pthread_create() under this name, too; null in other builds.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::weak]] int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*,
                                                          void* (*)(void*), void*) noexcept;

namespace farcall::veo {
namespace {

// The initial-exec model is needed because a signal handler reads the variable; other models may
// allocate memory at the first access.
[[gnu::tls_model("initial-exec")]] constinit thread_local pid_t creator = 0;

struct thread_start {
  void* (*routine)(void*);
  void* argument;
  pid_t creator;
};

extern "C" void* farcall_veo_start_thread(void* given) {
  auto* const allocated = static_cast<thread_start*>(given);
  const thread_start start = *allocated;
  delete allocated; // freed before the routine runs, because the routine may end by pthread_exit()
  creator = start.creator;
  return start.routine(start.argument);
}

using create_function = decltype(&::pthread_create);

create_function next_pthread_create() noexcept {
  if (__interceptor_pthread_create != nullptr) return &__interceptor_pthread_create;
  // dlsym() takes the lock of the loader. At this first call no kernel can hold the lock, because
  // the program starts threads before it loads kernels.
  static const auto next = reinterpret_cast<create_function>(::dlsym(RTLD_NEXT, "pthread_create"));
  return next;
}

} // namespace

void become_thread_creator() noexcept { creator = ::gettid(); }

pid_t creator_of_this_thread() noexcept { return creator; }

} // namespace farcall::veo

/// Replaces pthread_create() of the C library, so that the new thread inherits the record of its
/// creator.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*routine)(void*),
                                                             void* argument) noexcept {
  using namespace farcall::veo;
  auto* const start = new (std::nothrow) thread_start{routine, argument, creator_of_this_thread()};
  if (start == nullptr) return EAGAIN;
  const int error = next_pthread_create()(thread, attributes, &farcall_veo_start_thread, start);
  if (error != 0) delete start;
  return error;
}
