// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included first in the checked sources, of this program and of the library. The macros below
// replace atomics, fences, mutexes and system calls by functions and types of the explorer.

// Headers that the sources include must use the real ones, so include them before the macros.
#include <farcall/base/bytes.hpp>
#include <farcall/base/clock.hpp>
#include <tests/model/checked_atomic.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

// NOLINTBEGIN(cert-dcl58-cpp): the names have to be found where the library looks for them
namespace std {
template <class T>
using checked_atomic = farcall::check::atomic<T>;
template <class T>
using checked_atomic_ref = farcall::check::atomic_ref<T>;
using checked_mutex = farcall::check::mutex;
using farcall::check::signal_fence;
using farcall::check::thread_fence;
namespace this_thread {
using farcall::check::pause_here;
} // namespace this_thread
} // namespace std
// NOLINTEND(cert-dcl58-cpp)
namespace farcall {
using check::pause_here;
}
using farcall::check::system_call;

#define atomic checked_atomic
#define atomic_ref checked_atomic_ref
#define mutex checked_mutex
#define atomic_thread_fence thread_fence
#define atomic_signal_fence signal_fence
#define yield pause_here
#define spin_pause pause_here
#define syscall(...) system_call(std::source_location::current(), __VA_ARGS__)
#define FARCALL_THIS_THREAD_MARK ::farcall::check::thread_mark()
