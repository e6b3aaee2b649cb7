// SPDX-License-Identifier: Apache-2.0

// Many small programs, each a tree of calls between four nodes that follows from a seed. The test
// computes a program's result from the seed without any call; a watchdog ends a program that hangs.
//
// FARCALL_TEST_SEED=N runs the program of one seed only, with and without the death of a target.

#include <farcall/farcall.hpp>
#include <tests/stress.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

using word = std::uint64_t;
using nodes = std::vector<node>;
using std::chrono::microseconds;

/// Kind of a step of a program.
enum class step_kind : unsigned {
  compute,
  call,
  two_calls,
  call_then,
  when_all_of_two,
  deadline,
  post,
  own_lane,
  promise
};
constexpr unsigned step_kinds = 9;

struct step {
  step_kind kind;
  word number; ///< result of a computation, or another random parameter of the step
  word first;  ///< seeds of the programs that the step calls
  word second;
};

std::vector<step> steps_of(word seed) {
  std::vector<step> all(1 + scrambled(seed) % 3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const word r = scrambled(seed + 4 * i + 1);
    all[i] = {static_cast<step_kind>(r % step_kinds), scrambled(r), scrambled(r + 1),
              scrambled(r + 2)};
  }
  return all;
}

/// Returns the result of a program, computed without calls.
word expected(word seed, unsigned depth) {
  if (depth == 0) return scrambled(seed);
  word sum = 0;
  for (const step& s : steps_of(seed)) {
    switch (s.kind) {
    case step_kind::compute:
    case step_kind::deadline:
    case step_kind::post:
    case step_kind::promise:
      sum += s.number;
      break;
    case step_kind::call:
    case step_kind::own_lane:
      sum += expected(s.first, depth - 1);
      break;
    case step_kind::call_then:
      sum += 3 * expected(s.first, depth - 1);
      break;
    case step_kind::two_calls:
    case step_kind::when_all_of_two:
      sum += expected(s.first, depth - 1) + expected(s.second, depth - 1);
      break;
    }
  }
  return sum;
}

word run(const nodes& all, word seed, unsigned depth);
future<word> run_later(const nodes& all, word seed, unsigned depth);
task<word> run_as_task(nodes all, word seed, unsigned depth);
void run_with_reply(reply<word> to, const nodes& all, word seed, unsigned depth);
void nothing(word /*number*/) {}

const node& some_node(const nodes& all, word number) { return all[number % all.size()]; }

/// Calls a program on a node. The seed selects one of four kinds of handlers.
template <class Place>
future<word> start(const Place& where, const nodes& all, word seed, unsigned depth) {
  switch (scrambled(~seed) % 4) {
  case 0:
    return async(where, run_later, all, seed, depth);
  case 1:
    return async(where, run_as_task, all, seed, depth);
  case 2:
    return async(where, run_with_reply, all, seed, depth);
  default:
    return async(where, run, all, seed, depth);
  }
}

future<word> start(const nodes& all, word seed, unsigned depth) {
  return start(some_node(all, scrambled(seed + 7)), all, seed, depth);
}

word run_step(const step& s, const nodes& all, unsigned depth) {
  switch (s.kind) {
  case step_kind::compute:
    return s.number;
  case step_kind::call:
    return start(all, s.first, depth).get();
  case step_kind::two_calls: {
    future<word> one = start(all, s.first, depth);
    future<word> two = start(all, s.second, depth);
    const word later = two.get();
    return later + one.get();
  }
  case step_kind::call_then:
    return start(all, s.first, depth).then([](future<word> f) { return 3 * f.get(); }).get();
  case step_kind::when_all_of_two: {
    auto [one, two] = when_all(start(all, s.first, depth), start(all, s.second, depth)).get();
    return one.get() + two.get();
  }
  case step_kind::deadline:
    try {
      const node& where = some_node(all, s.number);
      (void)start(where.within(microseconds(s.number % 50)), all, s.first, depth).get();
    } catch (const timeout&) {
      // The deadline may pass before the reply arrives, or after that.
    }
    return s.number;
  case step_kind::post:
    post(some_node(all, s.number), nothing, s.number);
    return s.number;
  case step_kind::own_lane: {
    const lane own(some_node(all, s.number));
    return start(own, all, s.first, depth).get();
  }
  case step_kind::promise: {
    promise<word> p;
    future<word> f = p.get_future().then([](future<word> ready) { return ready.get() - 1; });
    p.set_value(s.number + 1);
    return f.get();
  }
  }
  return 0;
}

word run(const nodes& all, word seed, unsigned depth) {
  if (depth == 0) return scrambled(seed);
  word sum = 0;
  for (const step& s : steps_of(seed))
    sum += run_step(s, all, depth - 1);
  return sum;
}

/// Runs the steps on another node. This handler returns before they end.
future<word> run_later(const nodes& all, word seed, unsigned depth) {
  if (depth == 0) return make_ready_future(scrambled(seed));
  return async(some_node(all, scrambled(seed + 9)), run, all, seed, depth).then([](future<word> f) {
    return f.get();
  });
}

task<word> run_as_task(nodes all, word seed, unsigned depth) {
  if (depth == 0) co_return scrambled(seed);
  co_return co_await async(some_node(all, scrambled(seed + 11)), run, all, seed, depth);
}

void run_with_reply(reply<word> to, const nodes& all, word seed, unsigned depth) {
  if (depth == 0) return to.set_value(scrambled(seed));
  future<word> inner;
  try {
    inner = async(some_node(all, scrambled(seed + 13)), run, all, seed, depth);
  } catch (const node_failed&) {
    return to.set_exception(std::current_exception());
  }
  (void)std::move(inner).then([to = std::move(to)](future<word> f) mutable {
    try {
      to.set_value(f.get());
    } catch (const error&) {
      to.set_exception(std::current_exception());
    }
  });
}

/// Aborts the process and prints the seed if a program takes longer than wait_limit.
class watchdog {
 public:
  watchdog()
      : thread_([this] {
          word last = 0;
          time_point since = clock::now();
          while (!ending_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const word now = count_;
            if (now != std::exchange(last, now)) since = clock::now();
            if (clock::now() - since < wait_limit) continue;
            std::fprintf(stderr, "the program of seed %llu does not end; FARCALL_TEST_SEED=%llu\n",
                         static_cast<unsigned long long>(seed_),
                         static_cast<unsigned long long>(seed_));
            std::abort();
          }
        }) {}
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog() {
    ending_ = true;
    thread_.join();
  }

  void next(word seed) {
    seed_ = seed;
    ++count_;
  }

 private:
  std::atomic<word> seed_{0};
  std::atomic<word> count_{1};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

nodes nodes_of(const job& j) {
  nodes all{j.host()};
  all.insert(all.end(), j.targets().begin(), j.targets().end());
  return all;
}

job_options three_targets() {
  job_options o;
  o.targets = "shm:3";
  return o;
}

unsigned depth_of(word seed) { return 1 + static_cast<unsigned>(scrambled(seed + 3) % 3); }

std::optional<word> only_seed() {
  const char* const text = std::getenv("FARCALL_TEST_SEED");
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

TEST(random_programs, give_what_their_seeds_say) {
  const word count = stress_rounds(100'000, 1'000);
  watchdog watch;
  const job j(three_targets());
  const nodes all = nodes_of(j);
  const word first = only_seed().value_or(1);
  for (word seed = first; seed < first + (only_seed() ? 1 : count); ++seed) {
    watch.next(seed);
    ASSERT_EQ(run(all, seed, depth_of(seed)), expected(seed, depth_of(seed)))
        << "FARCALL_TEST_SEED=" << seed;
  }
}

TEST(random_programs, end_when_a_target_dies_meanwhile) {
  const word count = stress_rounds(300, 30);
  watchdog watch;
  const word first = only_seed().value_or(1);
  for (word seed = first; seed < first + (only_seed() ? 1 : count); ++seed) {
    watch.next(seed);
    const job j(three_targets());
    const nodes all = nodes_of(j);
    const node& victim = j.targets()[scrambled(seed + 5) % 3];
    const int pid = sync(victim, ::getpid);
    std::thread killer([&] {
      std::this_thread::sleep_for(microseconds(scrambled(seed + 6) % 2'000));
      ::kill(pid, SIGKILL);
    });
    // Several programs, until the death takes effect; each ends with its value or the failure.
    for (word n = 0; n < 50; ++n) {
      try {
        const word own = scrambled(seed * 64 + n);
        EXPECT_EQ(run(all, own, 3), expected(own, 3)) << "FARCALL_TEST_SEED=" << seed;
      } catch (const node_failed&) {
      } catch (const remote_error& e) {
        // The error comes from the dead target, or from a node that called it.
        EXPECT_NE(std::string(e.what()).find("farcall::node_failed"), std::string::npos)
            << e.what() << ", FARCALL_TEST_SEED=" << seed;
      }
    }
    killer.join();
    for (const node& n : j.targets()) {
      if (n.id() == victim.id()) continue;
      EXPECT_EQ(sync(n, [] { return 3; }), 3);
    }
  }
}

} // namespace
} // namespace farcall::test
