// SPDX-License-Identifier: Apache-2.0
#include "tests/invariants/allocations.hpp"
#include "tests/invariants/tracer.hpp"

#include <farcall/farcall.h>
#include <farcall/farcall.hpp>
#include <tests/threads.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

/// Tests of the hot path's invariants: in the steady state, an offload makes no system call and no
/// heap allocation, on either side.
namespace farcall::test {
namespace {

constexpr const char* traced_variable = "FARCALL_LAW_TRACED";

constexpr int warm_up = 3000;
constexpr int counted = 2000;

void nothing() {}
double add(double a, double b) { return a + b; }

/// Options with which threads spin for longer than the test takes: a sleep would be a system call.
job_options patient() {
  job_options options;
  options.targets = "shm";
  options.waiting = {std::chrono::seconds(60), std::chrono::seconds(60)};
  return options;
}

/// Waits until all threads of both processes sleep, except for the caller and the worker. A job's
/// own threads may take long to fall asleep while two spinning threads have all CPUs.
void settle(const node& target) {
  while (!others_sleep() || !sync(target, others_sleep)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void empty_calls(const node& target, int n) {
  for (int i = 0; i < n; ++i)
    sync(target, nothing);
}

void calls_with_numbers(const node& target, int n) {
  for (int i = 0; i < n; ++i) {
    if (sync(target, fn<&add>, 1.0, i) != 1.0 + i) std::abort();
  }
}

void calls_with_captures(const node& target, int n) {
  for (int i = 0; i < n; ++i) {
    if (sync(target, [i](int v) { return v + i; }, 1) != 1 + i) std::abort();
  }
}

void pipelined_calls(const node& target, int n) {
  std::array<future<double>, 64> window;
  for (int i = 0; i < n; i += static_cast<int>(window.size())) {
    for (auto& f : window)
      f = async(target, add, 1.0, 2.0);
    for (auto& f : window) {
      if (f.get() != 3.0) std::abort();
    }
  }
}

void posts(const node& target, int n) {
  for (int i = 0; i < n; i += 64) {
    for (int k = 0; k < 64; ++k)
      post(target, nothing);
    sync(target, nothing);
  }
}

void dropped_futures(const node& target, int n) {
  for (int i = 0; i < n; i += 64) {
    for (int k = 0; k < 64; ++k)
      (void)async(target, add, 1.0, 2.0);
    sync(target, nothing);
  }
}

void small_copies(const node& target, int n) {
  static const buffer<double> memory = target.allocate<double>(8);
  std::array<double, 8> words{1, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < n; ++i) {
    put(words, memory).get();
    get(memory, words).get();
  }
}

void add_for_c(fc_reply* reply, const void* bytes, std::size_t size, void* /*user*/) {
  std::array<double, 2> numbers{};
  if (size == sizeof numbers) std::memcpy(numbers.data(), bytes, size);
  const double sum = numbers[0] + numbers[1];
  fc_reply_bytes(reply, &sum, sizeof sum);
}

/// Registers the handler before main(), and so in both processes.
const fc_status registered = fc_register("add", &add_for_c, nullptr);

fc_node node_for_c(const node& target) {
  fc_node n{};
  if (registered != FC_OK || fc_node_at(nullptr, target.id(), &n) != FC_OK) std::abort();
  return n;
}

void calls_from_c(const node& target, int n) {
  const fc_node there = node_for_c(target);
  for (int i = 0; i < n; ++i) {
    const std::array<double, 2> numbers{1, static_cast<double>(i)};
    double sum = 0;
    if (fc_call(there, fc_named("add"), numbers.data(), sizeof numbers, &sum, sizeof sum,
                nullptr) != FC_OK ||
        sum != 1.0 + i) {
      std::abort();
    }
  }
}

void pipelined_calls_from_c(const node& target, int n) {
  const fc_node there = node_for_c(target);
  const fc_function f = fc_named("add");
  const std::array<double, 2> numbers{1, 2};
  std::array<fc_future*, 64> window{};
  for (int i = 0; i < n; i += static_cast<int>(window.size())) {
    for (auto& w : window) {
      if (fc_call_async(there, f, numbers.data(), sizeof numbers, &w) != FC_OK) std::abort();
    }
    for (auto* w : window) {
      if (fc_future_get(w, nullptr, nullptr) != FC_OK) std::abort();
      fc_future_drop(w);
    }
  }
}

struct kind {
  const char* name;
  void (*run)(const node& target, int n);
};

constexpr kind kinds[] = {
    {"empty calls", &empty_calls},
    {"calls with numbers", &calls_with_numbers},
    {"calls with captures", &calls_with_captures},
    {"pipelined calls", &pipelined_calls},
    {"posts", &posts},
    {"dropped futures", &dropped_futures},
    {"calls from C", &calls_from_c},
    {"pipelined calls from C", &pipelined_calls_from_c},
};
constexpr unsigned long control_window = 1000;
constexpr unsigned long copy_window = 1001;

/// The traced program: makes each kind of call in its own window, after a warm-up.
int traced_program() {
  const job j(patient());
  const node& target = j.targets()[0];
  settle(target);
  for (unsigned long i = 0; i < std::size(kinds); ++i) {
    kinds[i].run(target, warm_up);
    mark(mark_kind::begin, i);
    kinds[i].run(target, counted);
    mark(mark_kind::end, i);
  }
  small_copies(target, warm_up);
  mark(mark_kind::begin, copy_window);
  small_copies(target, counted);
  mark(mark_kind::end, copy_window);

  // Control: the tracer must see these system calls, three on the host and four on the target.
  mark(mark_kind::begin, control_window);
  for (int i = 0; i < 3; ++i)
    ::syscall(SYS_getppid);
  sync(target, [] {
    for (int i = 0; i < 4; ++i)
      ::syscall(SYS_getppid);
  });
  mark(mark_kind::end, control_window);
  // Skip destructors: the static buffer of small_copies() must not outlive the job.
  std::_Exit(0);
}

TEST(hot_path_invariants, calls_make_no_system_calls) {
  const trace_result traced = trace_self(traced_variable);
  if (!traced.was_allowed) GTEST_SKIP() << "this system does not let a process trace its children";
  ASSERT_EQ(traced.status, 0);

  int seen = 0;
  for (const traced_call& c : traced.calls.at(control_window))
    seen += c.number == SYS_getppid;
  ASSERT_EQ(seen, 7) << "the tracer misses system calls, so that what follows proves nothing";

  for (unsigned long i = 0; i < std::size(kinds); ++i) {
    const auto& calls = traced.calls.at(i);
    EXPECT_TRUE(calls.empty()) << kinds[i].name << ", " << counted
                               << " of them: " << text_of(calls);
  }
  const auto& copies = traced.calls.at(copy_window);
  EXPECT_TRUE(copies.empty()) << "small copies: " << text_of(copies);
}

TEST(hot_path_invariants, calls_do_not_allocate) {
  {
    const std::uint64_t before = allocations();
    auto one = std::make_unique<int>(1);
    void* volatile two = std::malloc(10);
    std::free(two);
    ASSERT_EQ(allocations(), before + 2) << "allocations are not counted";
  }
  const job j(patient());
  const node& target = j.targets()[0];
  settle(target);
  for (const kind& k : kinds) {
    k.run(target, warm_up);
    (void)sync(target, allocations);
    const std::uint64_t here = allocations();
    const std::uint64_t there = sync(target, allocations);
    k.run(target, counted);
    const std::uint64_t there_after = sync(target, allocations);
    EXPECT_EQ(allocations(), here) << k.name << ", on the host";
    EXPECT_EQ(there_after, there) << k.name << ", on the target";
  }
}

TEST(hot_path_invariants, views_and_small_results_do_not_allocate) {
  const job j(patient());
  const node& target = j.targets()[0];
  settle(target);
  const std::array<double, 50> numbers{1, 2, 3};
  const auto sum = [](std::span<const double> v) {
    double s = 0;
    for (const double d : v)
      s += d;
    return s;
  };
  const auto run = [&] {
    for (int i = 0; i < counted; ++i) {
      if (sync(target, sum, std::span<const double>(numbers)) != 6) std::abort();
    }
  };
  run();
  (void)sync(target, allocations);
  const std::uint64_t here = allocations();
  const std::uint64_t there = sync(target, allocations);
  run();
  EXPECT_EQ(sync(target, allocations), there) << "on the target";
  EXPECT_EQ(allocations(), here) << "on the host";
}

} // namespace
} // namespace farcall::test

int main(int argc, char** argv) {
  farcall::serve_if_target();
  if (std::getenv(farcall::test::traced_variable) != nullptr)
    return farcall::test::traced_program();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
