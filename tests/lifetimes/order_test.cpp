// SPDX-License-Identifier: Apache-2.0

// Jobs, and objects that belong to them, end in any order, with calls outstanding. Each combination
// runs in its own process.

#include <farcall/farcall.hpp>
#include <tests/child.hpp>
#include <tests/sanitizer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

/// Storage of an object: a static variable that exists before main(), a function's static variable
/// that first use creates, a thread-local variable, or the heap, where it is never destroyed.
enum class place { early, late, of_thread, leaked };

template <class T>
std::optional<T> early_object;

template <class T>
std::optional<T>& object_at(place where) {
  if (where == place::early) return early_object<T>;
  if (where == place::late) {
    static std::optional<T> late;
    return late;
  }
  if (where == place::of_thread) {
    static thread_local std::optional<T> of_thread;
    return of_thread;
  }
  static auto* const leaked = new std::optional<T>;
  return *leaked;
}

int twice(int v) { return 2 * v; }

int slowly(int v) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return v;
}

/// Exit status of a process in which a destructor's call returned a wrong result.
constexpr int wrong_result = 7;

future<int> coroutine(node where) {
  const std::string local(100, 'x');
  const int first = co_await async(where, slowly, 1);
  co_return first + static_cast<int>(local.size());
}

/// An object of each kind that belongs to a job. The destructor makes calls if the job still
/// exists.
struct belongings {
  explicit belongings(const job& whole)
      : where(whole.targets()[0]), memory(where.allocate<int>(10)),
        own_memory(whole.host().allocate<int>(10)), stream(where), used_stream(where) {
    ready = async(where, [](std::string s) { return s; }, std::string(100, 'x'));
    ready.wait();
    (void)sync(used_stream, twice, 1);
    pending = async(where, slowly, 1);
    dropped_text = async(used_stream, [](std::string s) { return s; }, std::string(1000, 'y'));
    chained = async(where, slowly, 2).then([](future<int> f) { return f.get() + 1; });
    awaited = coroutine(where);
    for (int i = 0; i < 5; ++i)
      post(where, slowly, i);
  }
  belongings(belongings&&) = default;
  belongings& operator=(belongings&&) = default;
  ~belongings() {
    if (!where.has_job()) return;
    if (sync(where, twice, 4) != 8) ::_exit(wrong_result);
    const auto more = where.allocate<int>(1);
  }

  node where;
  buffer<int> memory;
  buffer<int> own_memory;
  lane stream;
  lane used_stream;
  future<std::string> ready;
  future<int> pending;
  future<std::string> dropped_text;
  future<int> chained;
  future<int> awaited;
};

enum class way_out {
  by_return,
  by_thread,
  by_handler_of_waiter,
  by_handler_of_service,
  at_thread_end
};

job_options options() {
  job_options o;
  o.targets = "shm";
  // Short, since a handler that exits leaves its caller without a reply.
  o.stop_timeout = std::chrono::milliseconds(30);
  return o;
}

struct combination {
  place of_job;
  place of_belongings;
  bool belongings_first;
};

void make(const combination& c) {
  // Objects are destroyed in the reverse order of their first use here.
  if (c.belongings_first) (void)object_at<belongings>(c.of_belongings);
  auto& whole = object_at<job>(c.of_job);
  whole.emplace(options());
  object_at<belongings>(c.of_belongings).emplace(*whole);
}

void exit_here() { std::exit(0); }
int exit_on_host(int v) {
  sync(farcall::host(), exit_here);
  return v;
}

/// Used on the host: true once a call of the main thread has reached the target.
std::atomic<bool> is_served{false};
void note_served() { is_served.store(true); }
int slowly_and_noted(int v) {
  sync(farcall::host(), note_served);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return v;
}

[[noreturn]] void wait_for_ever() {
  for (;;)
    ::pause();
}

/// Makes calls until one fails. The process exits meanwhile, on this thread or on another one.
[[noreturn]] void wait_in(const node& where, int (*f)(int)) {
  try {
    for (;;)
      (void)sync(where, f, 1);
  } catch (const node_failed&) {
  }
  wait_for_ever();
}

/// Exits with status 0 if the test passes.
int run(const combination& c, way_out end) {
  if (end == way_out::at_thread_end) {
    std::thread([&] {
      make(c);
      // Another thread has its own thread-local variable, which is empty.
      std::thread([&] { (void)object_at<belongings>(place::of_thread); }).join();
    }).join();
    std::exit(0);
  }
  make(c);
  const node where = object_at<job>(c.of_job)->targets()[0];
  switch (end) {
  case way_out::by_thread:
    // Exit while main() waits for the reply: a thread must not begin a call on a destroyed job.
    std::thread([] {
      while (!is_served.load())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::exit(0);
    }).detach();
    try {
      (void)sync(where, slowly_and_noted, 1);
    } catch (const node_failed&) {
    }
    wait_for_ever();
  case way_out::by_handler_of_waiter:
    wait_in(where, exit_on_host);
  case way_out::by_handler_of_service:
    post(where, exit_on_host, 1);
    wait_for_ever();
  default:
    std::exit(0);
  }
}

class lifetimes : public ::testing::TestWithParam<std::tuple<place, place>> {};

TEST_P(lifetimes, end_in_any_order) {
  const auto [of_job, of_belongings] = GetParam();
  for (const bool belongings_first : {false, true}) {
    for (const way_out end : {way_out::by_return, way_out::by_thread, way_out::by_handler_of_waiter,
                              way_out::by_handler_of_service, way_out::at_thread_end}) {
      // main() reaches this handler through another process. ThreadSanitizer does not see that
      // order, and takes the handler's exit() for a race.
      if (under_thread_sanitizer &&
          (end == way_out::by_handler_of_waiter || end == way_out::by_handler_of_service)) {
        continue;
      }
      const combination c{of_job, of_belongings, belongings_first};
      EXPECT_EQ(forked_child([&] { return run(c, end); }).wait(), 0)
          << (belongings_first ? "belongings" : "job") << " first, way out "
          << static_cast<int>(end);
    }
  }
}

std::string name_of(place p) {
  constexpr const char* names[] = {"early", "late", "of_thread", "leaked"};
  return names[static_cast<int>(p)];
}

INSTANTIATE_TEST_SUITE_P(all, lifetimes,
                         ::testing::Combine(::testing::Values(place::early, place::late,
                                                              place::of_thread, place::leaked),
                                            ::testing::Values(place::early, place::late,
                                                              place::of_thread, place::leaked)),
                         [](const auto& info) {
                           return "job_" + name_of(std::get<0>(info.param)) + "_belongings_" +
                                  name_of(std::get<1>(info.param));
                         });

// ---- exit() while other threads use the job
// --------------------------------------------------------

constexpr int status_of_exit = 3;

/// A function that uses a job in one way. Threads call the function until it throws.
using use = void (*)(const node& where, const buffer<int>& memory);

void make_async_calls(const node& where, const buffer<int>& /*memory*/) {
  (void)async(where, twice, 1);
}
void make_calls(const node& where, const buffer<int>& /*memory*/) { (void)sync(where, twice, 1); }
void put_values(const node& /*where*/, const buffer<int>& memory) {
  put_sync(std::vector<int>(memory.size(), 1), memory);
}
void get_values(const node& /*where*/, const buffer<int>& memory) {
  std::vector<int> values(memory.size());
  get_sync(memory, values);
}
void map_values(const node& /*where*/, const buffer<int>& memory) { map(memory)[0] = 1; }
void allocate_memory(const node& where, const buffer<int>& /*memory*/) {
  (void)where.allocate<int>(10);
}

[[noreturn]] void exit_while_used(job& whole, use what, int round) {
  constexpr int threads = 3;
  static std::atomic<int> ready{0};
  const node where = whole.targets()[0];
  for (int i = 0; i < threads; ++i) {
    std::thread([where, what] {
      try {
        const auto memory = where.allocate<int>(1000);
        what(where, memory);
        ready.fetch_add(1);
        for (;;)
          what(where, memory);
      } catch (const error&) {
      }
      wait_for_ever();
    }).detach();
  }
  while (ready.load() < threads)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(137 * round));
  std::exit(status_of_exit);
}

enum class static_job { in_an_object, itself };

int run_until_exit(static_job kind, use what, int round) {
  if (kind == static_job::in_an_object) {
    early_object<job>.emplace(options());
    exit_while_used(*early_object<job>, what, round);
  }
  static job whole{options()};
  exit_while_used(whole, what, round);
}

class exits : public ::testing::TestWithParam<std::pair<const char*, use>> {};

TEST_P(exits, keep_their_status_while_threads_use_a_static_job) {
  constexpr int rounds = 8;
  for (int round = 0; round < rounds; ++round) {
    for (const static_job kind : {static_job::in_an_object, static_job::itself}) {
      EXPECT_EQ(forked_child([&] { return run_until_exit(kind, GetParam().second, round); }).wait(),
                status_of_exit)
          << "round " << round << ", kind " << static_cast<int>(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    during, exits,
    ::testing::Values(std::pair{"async_calls", &make_async_calls}, std::pair{"calls", &make_calls},
                      std::pair{"puts", &put_values}, std::pair{"gets", &get_values},
                      std::pair{"maps", &map_values}, std::pair{"allocations", &allocate_memory}),
    [](const auto& info) { return std::string(info.param.first); });

} // namespace
} // namespace farcall::test
