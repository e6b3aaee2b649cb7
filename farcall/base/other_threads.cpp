// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/other_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::chrono::milliseconds max_stop{50};
/// Time for which the stopping thread only waits for confirmations. Most threads stop within it.
/// Afterwards the stopping thread also reads from the system which threads block the signal, which
/// is slow.
constexpr std::chrono::microseconds usual_stop{300};
/// Maximum number of passes over the list of threads. Each pass finds threads that were made since
/// the previous pass.
constexpr int max_passes = 4;

constinit std::atomic<pid_t> stopper{0}; ///< 0 if there is none
constinit std::atomic<std::size_t> confirmations{0};
/// Number of threads that have confirmed the signal, but are exempt from the stop.
constinit std::atomic<std::size_t> gone_on{0};
constinit thread_local bool goes_on = false;

/// Layout of getdents64's results.
struct directory_entry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t bytes;
  std::uint8_t type;
  char name[1];
};

pid_t own_thread() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

template <class F>
void for_each_thread(const F& f) noexcept {
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(directory_entry) static std::array<char, 8192> entries;
  for (;;) {
    const long got = ::syscall(SYS_getdents64, folder, entries.data(), entries.size());
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const char* const entry = entries.data() + at;
      std::uint16_t bytes = 0;
      std::memcpy(&bytes, entry + offsetof(directory_entry, bytes), sizeof bytes);
      const char* const name = entry + offsetof(directory_entry, name);
      pid_t thread = 0;
      std::from_chars(name, name + std::strlen(name), thread);
      if (thread > 0) f(thread);
      at += bytes;
    }
  }
  ::close(folder);
}

/// True if the thread blocks the signal or has ended, so that it need not be waited for.
bool will_not_stop(pid_t thread, int signal) noexcept {
  std::array<char, 40> path{"/proc/self/task/"};
  char* const end = path.data() + path.size();
  char* const after = std::to_chars(path.data() + std::strlen(path.data()), end, thread).ptr;
  std::memcpy(after, "/status", sizeof "/status");
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  static std::array<char, 4096> status;
  const ssize_t got = ::read(file, status.data(), status.size());
  ::close(file);
  if (got <= 0) return true;
  const std::string_view text(status.data(), static_cast<std::size_t>(got));
  constexpr std::string_view key = "SigBlk:\t";
  const auto at = text.find(key);
  if (at == std::string_view::npos) return false;
  std::uint64_t blocked = 0;
  const char* const digits = text.data() + at + key.size();
  std::from_chars(digits, text.data() + text.size(), blocked, 16);
  return (blocked >> (signal - 1) & 1) != 0;
}

/// Threads to which the signal was sent.
struct asked_threads {
  std::array<pid_t, 4096> all;
  std::size_t size = 0;

  [[nodiscard]] bool has(pid_t thread) const noexcept {
    return std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size), thread) !=
           all.begin() + static_cast<std::ptrdiff_t>(size);
  }
};

asked_threads asked;

/// Sends the signal to each thread that has not got it yet. Returns false if there is no such
/// thread.
bool ask_more(pid_t self, int signal) noexcept {
  const std::size_t before = asked.size;
  for_each_thread([&](pid_t thread) {
    if (thread == self || asked.size == asked.all.size() || asked.has(thread)) return;
    asked.all[asked.size++] = thread;
    if (::syscall(SYS_tgkill, ::getpid(), thread, signal) != 0) confirmations.fetch_add(1);
  });
  return asked.size != before;
}

/// True if no thread is left for which it makes sense to wait. Threads that block the signal are
/// not waited for. A thread that has stopped blocks the signal, too, because it is in the signal's
/// handler. Only exempt threads, which gone_on counts, do not block the signal after they have
/// confirmed it.
bool has_nobody_to_stop(int signal) noexcept {
  const std::size_t went_on = gone_on.load(std::memory_order_acquire);
  std::size_t waiting = 0;
  for (std::size_t i = 0; i != asked.size; ++i) {
    if (!will_not_stop(asked.all[i], signal)) ++waiting;
  }
  return waiting <= went_on;
}

void pause_shortly() noexcept {
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000};
  ::nanosleep(&pause, nullptr);
}

} // namespace

void go_on_when_others_stop() noexcept { goes_on = true; }

void stop_other_threads(int signal) noexcept {
  const pid_t self = own_thread();
  stopper.store(self, std::memory_order_release);
  const time_point begun = clock::now();
  // Acquire, paired with the release addition in stop_if_asked().
  const auto have_all_confirmed = [] {
    return confirmations.load(std::memory_order_acquire) >= asked.size;
  };
  for (int pass = 0; pass != max_passes && ask_more(self, signal); ++pass) {
    while (!have_all_confirmed() && clock::now() < begun + usual_stop)
      pause_shortly();
  }
  while (!have_all_confirmed() && clock::now() < begun + max_stop) {
    if (has_nobody_to_stop(signal)) return;
    pause_shortly();
  }
}

bool stop_if_asked(int sent_by) noexcept {
  const pid_t by = stopper.load(std::memory_order_acquire);
  if (by == 0 || sent_by != ::getpid() || by == own_thread()) return false;
  if (goes_on) gone_on.fetch_add(1, std::memory_order_release);
  confirmations.fetch_add(1, std::memory_order_release);
  while (!goes_on)
    (void)::pause();
  return true;
}

} // namespace farcall
