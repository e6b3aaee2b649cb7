#include "watchdog.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include <unistd.h>

namespace farcall::bench {
namespace {

using clock = std::chrono::steady_clock;

/// So long may those who know more take.
constexpr std::chrono::seconds diagnosis_time{3};

void print(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
  (void)std::fflush(stderr);
}

} // namespace

watchdog::watchdog(std::chrono::nanoseconds patience)
    : patience_(patience), current_patience_(patience), thread_([this] { watch(); }) {}

watchdog::~watchdog() {
  {
    const std::lock_guard guard(mutex_);
    is_ending_ = true;
    ending_.notify_one();
  }
  thread_.join();
}

void watchdog::expect(const std::string& what, std::chrono::nanoseconds patience) {
  const std::lock_guard guard(mutex_);
  expected_ = what;
  current_patience_ = patience;
  tick();
}

void watchdog::ask(diagnosis who) {
  const std::lock_guard guard(mutex_);
  diagnosis_ = std::move(who);
}

void watchdog::watch() {
  // Seldom, since the measuring thread may be interrupted by it.
  constexpr std::chrono::nanoseconds interval = std::chrono::milliseconds(500);
  std::uint64_t seen = ticks_.load(std::memory_order_relaxed);
  clock::time_point since = clock::now();
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval, [this] { return is_ending_; })) {
    const std::uint64_t now = ticks_.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      since = clock::now();
    } else if (clock::now() - since >= current_patience_) {
      bark();
    }
  }
}

/// With the mutex, so that whom diagnosis_ asks stays.
void watchdog::bark() {
  std::thread([] {
    std::this_thread::sleep_for(diagnosis_time);
    print("no more is to be learnt");
    ::_exit(exit_status);
  }).detach();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(current_patience_);
  print("nothing has gone on for " + std::to_string(seconds.count()) +
        " s; waiting for: " + expected_);
  try {
    if (diagnosis_) diagnosis_(print);
  } catch (const std::exception& e) {
    print(e.what());
  }
  ::_exit(exit_status);
}

} // namespace farcall::bench
