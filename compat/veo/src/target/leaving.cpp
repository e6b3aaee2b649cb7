// SPDX-License-Identifier: Apache-2.0
#include "leaving.hpp"

#include <farcall/base/library_thread.hpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>

#include <dlfcn.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

/// Ends the process like _exit(), by a system call. The _exit() of ThreadSanitizer is not used,
/// because it flushes standard output, which another thread may have locked.
[[noreturn]] void end_process(int status) noexcept {
  for (;;)
    (void)::syscall(SYS_exit_group, status);
}

using table_writer = int (*)();
std::atomic<table_writer> write_table{nullptr};

void write_table_if_any() noexcept {
  // Acquire pairs with the release store in look_for_table_writer(). The call is safe, because the
  // library with the function is never unloaded.
  if (const table_writer write = write_table.load(std::memory_order_acquire)) (void)write();
}

void flush_streams() { (void)std::fflush(nullptr); }

/// Flushes the output buffers of Fortran's runtime library if a kernel has loaded that library.
void flush_fortran() {
  if (void* flush = ::dlsym(RTLD_DEFAULT, "_gfortran_flush_i4")) {
    reinterpret_cast<void (*)(const std::int32_t*)>(flush)(nullptr); // all units
  }
}

/// A thread that sleeps until wake() is called, and then runs one function. The object is never
/// destroyed, because the thread may sleep until the process ends.
class sleeper {
 public:
  template <class F>
  void start(F then) {
    (void)::sem_init(&wakes_, 0, 0);
    (void)::sem_init(&is_done_, 0, 0);
    library_thread("farcall-service", [this, then] {
      wait_for(wakes_);
      then();
      (void)::sem_post(&is_done_);
    }).release();
  }
  void wake() noexcept { (void)::sem_post(&wakes_); }
  void await() noexcept { wait_for(is_done_); }

 private:
  static void wait_for(sem_t& s) noexcept {
    while (::sem_wait(&s) != 0) {
    }
  }

  sem_t wakes_;
  sem_t is_done_;
};

sleeper limit;
sleeper streams;
sleeper fortran;
std::atomic<int> status_at_limit{0};
pid_t process_of_threads = 0;

/// Starts the time limit for the end of the process: from now on the process ends even if the
/// calling thread blocks.
void begin_leaving(int status) noexcept {
  // The store is relaxed, because posting the semaphore makes the status visible to the thread that
  // reads it.
  status_at_limit.store(status, std::memory_order_relaxed);
  limit.wake();
}

/// Flushes a stream unless another thread has locked it. The call is needed for streams that the
/// calling thread itself has locked, because the thread `streams` cannot flush these.
void flush_unless_locked(std::FILE* stream) noexcept {
  if (::ftrylockfile(stream) != 0) return;
  (void)::fflush_unlocked(stream);
  ::funlockfile(stream);
}

} // namespace

void prepare_leaving() {
  process_of_threads = ::getpid();
  look_for_table_writer();
  limit.start([] {
    std::this_thread::sleep_for(max_leaving);
    end_process(status_at_limit.load(std::memory_order_relaxed));
  });
  streams.start(&flush_streams);
  fortran.start(&flush_fortran);
}

void look_for_table_writer() noexcept {
  if (write_table.load(std::memory_order_acquire) != nullptr) return;
  write_table.store(
      reinterpret_cast<table_writer>(::dlsym(RTLD_DEFAULT, "farcall_veo_ftrace_write")),
      std::memory_order_release);
}

void leave_with_exit_reason(int status) noexcept {
  if (::getpid() != process_of_threads) {
    // Flush on this thread: in a child process that a kernel has forked, no other thread exists.
    flush_fortran();
    flush_streams();
    end_process(status);
  }
  begin_leaving(status);
  flush_unless_locked(stdout);
  flush_unless_locked(stderr);
  // Write the table on this thread, so that the table counts the time of this thread's functions up
  // to this point.
  write_table_if_any();
  // Flush the streams of Fortran and of C in parallel, because one flush may block on a lock that
  // the other one does not need.
  fortran.wake();
  streams.wake();
  fortran.await();
  streams.await();
  end_process(status);
}

void leave_after_crash(int status) noexcept {
  begin_leaving(status);
  write_table_if_any();
  end_process(status);
}

} // namespace farcall::veo
