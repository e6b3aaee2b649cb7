// SPDX-License-Identifier: Apache-2.0
#include "watchdog.hpp"

#include <farcall/base/library_thread.hpp>

#include <cstdio>
#include <exception>
#include <utility>

#include <unistd.h>

namespace farcall::bench {
namespace {

using clock = std::chrono::steady_clock;

/// Time that a diagnosis may take.
constexpr std::chrono::seconds diagnosis_time{3};

void print(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
  (void)std::fflush(stderr);
}

} // namespace

watchdog::watchdog(std::chrono::nanoseconds timeout)
    : timeout_(timeout), current_timeout_(timeout), thread_("farcall-tool", [this] { watch(); }) {}

watchdog::~watchdog() {
  {
    const std::lock_guard guard(mutex_);
    is_ending_ = true;
    ending_.notify_one();
  }
  thread_.join();
}

void watchdog::expect(const std::string& what, std::chrono::nanoseconds timeout) {
  const std::lock_guard guard(mutex_);
  expected_ = what;
  current_timeout_ = timeout;
  tick();
}

void watchdog::ask(diagnosis who) {
  const std::lock_guard guard(mutex_);
  diagnosis_ = std::move(who);
}

void watchdog::watch() {
  // Seldom, since this may interrupt the measuring thread.
  constexpr std::chrono::nanoseconds interval = std::chrono::milliseconds(500);
  std::uint64_t seen = ticks_.load(std::memory_order_relaxed);
  clock::time_point since = clock::now();
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval, [this] { return is_ending_; })) {
    const std::uint64_t now = ticks_.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      since = clock::now();
    } else if (clock::now() - since >= current_timeout_) {
      bark();
    }
  }
}

/// Called with the mutex held, so that the object that diagnosis_ uses stays.
void watchdog::bark() {
  library_thread("farcall-tool", [] {
    std::this_thread::sleep_for(diagnosis_time);
    print("the diagnosis takes too long");
    ::_exit(exit_status);
  }).release();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(current_timeout_);
  print("no progress for " + std::to_string(seconds.count()) + " s; waiting for: " + expected_);
  try {
    if (diagnosis_) diagnosis_(print);
  } catch (const std::exception& e) {
    print(e.what());
  }
  ::_exit(exit_status);
}

} // namespace farcall::bench
