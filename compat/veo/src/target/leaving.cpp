#include "leaving.hpp"

#include <farcall/base/signals.hpp>

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

/// As _exit(), of which ThreadSanitizer's flushes standard output, which may be locked.
[[noreturn]] void end_process(int status) noexcept {
  for (;;)
    (void)::syscall(SYS_exit_group, status);
}

using table_writer = int (*)();
std::atomic<table_writer> write_table{nullptr};

void write_table_if_any() noexcept {
  // Acquire: what look_for_table_writer() has stored. The library stays loaded.
  if (const table_writer write = write_table.load(std::memory_order_acquire)) (void)write();
}

void flush_streams() { (void)std::fflush(nullptr); }

/// The run-time library of Fortran, where a kernel has loaded it, keeps what was written in buffers
/// of its own.
void flush_fortran() {
  if (void* flush = ::dlsym(RTLD_DEFAULT, "_gfortran_flush_i4")) {
    reinterpret_cast<void (*)(const std::int32_t*)>(flush)(nullptr); // all units
  }
}

/// A thread that sleeps until it is needed. Never destroyed: it may sleep until the process ends.
class sleeper {
 public:
  template <class F>
  void start(F then) {
    (void)::sem_init(&wakes_, 0, 0);
    (void)::sem_init(&is_done_, 0, 0);
    std::thread([this, then] {
      leave_signals_to_other_threads();
      wait_for(wakes_);
      then();
      (void)::sem_post(&is_done_);
    }).detach();
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

/// From here on the process ends soon, whatever this thread waits for.
void begin_leaving(int status) noexcept {
  // Relaxed: the semaphore orders it.
  status_at_limit.store(status, std::memory_order_relaxed);
  limit.wake();
}

/// What this thread has locked itself the others cannot flush.
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
    std::this_thread::sleep_for(longest_leaving);
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

void leave_with_last_words(int status) noexcept {
  if (::getpid() != process_of_threads) {
    // A child that a kernel has forked has no threads but this one.
    flush_fortran();
    flush_streams();
    end_process(status);
  }
  begin_leaving(status);
  flush_unless_locked(stdout);
  flush_unless_locked(stderr);
  // By this thread, whose functions it counts to here.
  write_table_if_any();
  // Side by side, so that neither waits for a lock that only the other meets.
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
