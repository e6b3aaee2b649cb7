// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>
#include <farcall/memory/process_counters.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

/// If TEST_OWN_MACHINES is set, replaces farcall::machine_identity(), by the linker, so that
/// transports take each process for another machine, and nodes use TCP.
std::string own_machine() asm("__wrap__ZN7farcall16machine_identityB5cxx11Ev");
std::string own_machine() {
  static const bool is_own = std::getenv("TEST_OWN_MACHINES") != nullptr;
  return is_own ? "machine " + std::to_string(::getpid()) : "machine";
}

/// A program whose nodes combine values. The first argument selects the test. Exits with 0 if all
/// checks pass; else prints the check that failed.
namespace farcall::test {
namespace {

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    const bool holds = (condition);                                                                \
    if (!holds) {                                                                                  \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                         \
      return 9;                                                                                    \
    }                                                                                              \
  } while (false)

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

/// Numbers of values around the limits at which algorithms and the pieces of messages change.
constexpr std::size_t counts[] = {0, 1, 3, 2047, 2048, 8193, 131072, 100003};

// ---- results ------------------------------------------------------------------------------------

/// A range of nodes. Its operation is associative, but not commutative.
struct nodes_from_to {
  std::int32_t first;
  std::int32_t last;
  friend bool operator==(const nodes_from_to&, const nodes_from_to&) = default;
};
constexpr nodes_from_to wrong{-1, -1};

nodes_from_to join(const nodes_from_to& left, const nodes_from_to& right) {
  if (left == wrong || right == wrong || left.last + 1 != right.first) return wrong;
  return {left.first, right.last};
}

int order_is_kept(job& j) {
  const auto self = static_cast<std::int32_t>(j.rank());
  const nodes_from_to everyone{0, static_cast<std::int32_t>(j.size()) - 1};
  for (const std::size_t count : counts) {
    const std::vector<nodes_from_to> mine(count, {self, self});
    std::vector<nodes_from_to> values = mine;
    j.all_reduce(std::span(values), join);
    CHECK(std::ranges::count(values, everyone) == static_cast<std::ptrdiff_t>(count));
    for (node_id root = 0; root < j.size(); ++root) {
      values = mine;
      j.reduce(std::span(values), join, root);
      const nodes_from_to expected = j.rank() == root ? everyone : nodes_from_to{self, self};
      CHECK(std::ranges::count(values, expected) == static_cast<std::ptrdiff_t>(count));
    }
    values = mine;
    j.scan(std::span(values), join);
    CHECK(std::ranges::count(values, nodes_from_to{0, self}) == static_cast<std::ptrdiff_t>(count));
  }
  return 0;
}

/// A number that differs in each node and element, and whose sums are rounded.
double number_of(std::size_t node, std::size_t i) {
  return 1.0 / static_cast<double>(3 + 7 * node + i % 1009);
}

/// Checks that sums of all sizes, of reduce() and all_reduce(), and on all nodes, have equal bits.
int sums_are_reproducible(job& j) {
  constexpr std::size_t most = 20000;
  std::vector<double> numbers(most);
  for (std::size_t i = 0; i < most; ++i)
    numbers[i] = number_of(j.rank(), i);
  std::vector<double> sums = numbers;
  j.all_reduce(std::span(sums), sum());
  for (const std::size_t i : {std::size_t{0}, most / 2, most - 1}) {
    const double alone = j.all_reduce(numbers[i], sum());
    CHECK(std::bit_cast<std::uint64_t>(alone) == std::bit_cast<std::uint64_t>(sums[i]));
    for (const double other : j.all_gather(sums[i]))
      CHECK(std::bit_cast<std::uint64_t>(other) == std::bit_cast<std::uint64_t>(sums[i]));
    const node_id root = static_cast<node_id>(i % j.size());
    const double reduced = j.reduce(numbers[i], sum(), root);
    CHECK(j.rank() != root || reduced == sums[i]);
  }
  std::vector<double> reduced = numbers;
  const auto last = static_cast<node_id>(j.size() - 1);
  j.reduce(std::span(reduced), sum(), last);
  CHECK(reduced == (j.rank() == last ? sums : numbers));
  return 0;
}

template <class T>
int operations_on(job& j) {
  const T self = static_cast<T>(j.rank() + 1);
  const T all = static_cast<T>(j.size());
  CHECK(j.all_reduce(self, sum()) == static_cast<T>(all * (all + 1) / 2));
  CHECK(j.all_reduce(self, minimum()) == 1);
  CHECK(j.all_reduce(self, maximum()) == all);
  CHECK(j.all_reduce(static_cast<T>(j.rank() < 2 ? 3 : 1), product()) == (j.size() == 1 ? 3 : 9));
  CHECK(j.all_reduce(static_cast<T>(j.rank()), logical_and()) == 0);
  CHECK(j.all_reduce(self, logical_and()) == 1);
  CHECK(j.all_reduce(static_cast<T>(0), logical_or()) == 0);
  CHECK(j.scan(self, sum()) == static_cast<T>(self * (self + 1) / 2));
  if constexpr (std::is_integral_v<T>) {
    const T bit = static_cast<T>(1U << (j.rank() % 6));
    CHECK(j.all_reduce(bit, bit_and()) == (j.size() == 1 ? 1 : 0));
    CHECK(j.all_reduce(bit, bit_or()) ==
          static_cast<T>((1U << std::min<std::size_t>(j.size(), 6)) - 1));
    CHECK(j.all_reduce(self, bit_xor()) == [&] {
      T x = 0;
      for (T i = 1; i <= all; ++i)
        x = static_cast<T>(x ^ i);
      return x;
    }());
  }
  return 0;
}

struct place_of_minimum {
  double value;
  node_id node;
};

int own_operations(job& j) {
  const place_of_minimum mine{j.rank() == 1 ? -2.0 : 1.0 * j.rank(), j.rank()};
  const auto lower = [](const place_of_minimum& a, const place_of_minimum& b) {
    return b.value < a.value ? b : a;
  };
  const place_of_minimum least = j.all_reduce(mine, lower);
  CHECK(least.node == (j.size() > 1 ? 1U : 0U));
  // A type whose alignment exceeds the alignment of messages, and one longer than a message.
  CHECK(j.all_reduce(1.0L, sum()) == static_cast<long double>(j.size()));
  struct large {
    int numbers[50000];
  };
  std::vector<large> values(2);
  values[1].numbers[49999] = static_cast<int>(j.rank());
  j.all_reduce(std::span(values), [](const large& a, const large& b) {
    large added = a;
    added.numbers[49999] += b.numbers[49999];
    return added;
  });
  const int nodes = static_cast<int>(j.size());
  CHECK(values[1].numbers[49999] == nodes * (nodes - 1) / 2);
  return 0;
}

int works(job& j) {
  for (int (*const each)(job&) : {order_is_kept, sums_are_reproducible, operations_on<std::int8_t>,
                                  operations_on<std::uint64_t>, operations_on<int>,
                                  operations_on<float>, operations_on<double>, own_operations}) {
    if (const int status = each(j); status != 0) return status;
  }
  j.close();
  say("works on " + std::to_string(j.rank()));
  return 0;
}

/// Prints the transport to the next node, to show that the test uses it.
int transport(job& j) {
  const node next = j.node_at(static_cast<node_id>((j.rank() + 1) % j.size()));
  say("by " + next.description().transport);
  return works(j);
}

// ---- messages -----------------------------------------------------------------------------------

/// Returns how many messages all nodes send while `f` runs.
template <class F>
std::uint64_t messages_of(job& j, const F& f) {
  const auto sent = [&] {
    std::uint64_t all = 0;
    for (const process_counters::caller& c : j.counters().callers)
      all += c.calls + c.posts;
    return all;
  };
  const std::uint64_t before = sent();
  f();
  const std::uint64_t here = sent() - before;
  return j.all_reduce(here, sum());
}

int counted(job& j) {
  CHECK(j.size() == 4);
  std::vector<double> values(131072);
  const auto all = [&](std::size_t count) {
    return messages_of(j, [&] { j.all_reduce(std::span(values).first(count), sum()); });
  };
  const auto one = [&](std::size_t count, node_id root = 0) {
    return messages_of(j, [&] { j.reduce(std::span(values).first(count), sum(), root); });
  };
  const auto before = [&](std::size_t count) {
    return messages_of(j, [&] { j.scan(std::span(values).first(count), sum()); });
  };
  CHECK(all(1) == 4 * 2);
  CHECK(one(1) == 3);
  CHECK(one(1, 2) == 3 + 1);
  CHECK(before(1) == 3);
  // In pieces of 64 KiB: each node sends a half, a quarter, a quarter and a half of 16 pieces.
  CHECK(all(131072) == 4 * (8 + 4 + 4 + 8));
  // The halves and quarters as before; then two nodes send a quarter, and one sends a half.
  CHECK(one(131072, 2) == 4 * (8 + 4) + 2 * 4 + 8);
  CHECK(before(131072) == 3 * 16);
  say("counted");
  return 0;
}

// ---- failures -----------------------------------------------------------------------------------

std::size_t ended = 0; ///< nodes that have told the host of their error
bool may_end = false;

/// Waits until all nodes have called this function, without a collective.
void wait_for_all(job& j) {
  post(j.host(), [] { ++ended; });
  if (j.rank() == 0) {
    j.wait_until([&] { return ended == j.size(); });
    for (node_id to = 0; to < j.size(); ++to)
      post(j.node_at(to), [] { may_end = true; });
  }
  j.wait_until([] { return may_end; });
}

/// Calls `f` on all nodes, prints its error, and returns the exit status 5.
template <class F>
int caught(job& j, const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    say(std::string("error: ") + e.what());
    // The end of the first node ends all others.
    wait_for_all(j);
    return 5;
  }
  return 0;
}

/// The node 1 gives more values than the others.
template <std::size_t Count>
int sizes(job& j) {
  return caught(j, [&] {
    std::vector<int> values(Count + (j.rank() == 1 ? 10000 : 0));
    j.all_reduce(std::span(values), sum());
    j.barrier();
  });
}
/// The node 1 gives no values, and would otherwise send and expect no message.
template <bool IsScan>
int no_values(job& j) {
  return caught(j, [&] {
    std::vector<int> values(j.rank() == 1 ? 0 : 10);
    if constexpr (IsScan) {
      j.scan(std::span(values), sum());
    } else {
      j.all_reduce(std::span(values), sum());
    }
    j.barrier();
  });
}
/// The node 1 gives as many bytes as the others, as values of another size. Long values are sent in
/// pieces, which would divide values of the other nodes.
template <std::size_t Bytes>
int value_sizes(job& j) {
  struct three {
    int numbers[3];
  };
  return caught(j, [&] {
    if (j.rank() == 1) {
      std::vector<three> values(Bytes / sizeof(three));
      j.all_reduce(std::span(values), [](const three& a, const three& /*b*/) { return a; });
    } else {
      struct two {
        int numbers[2];
      };
      std::vector<two> values(Bytes / sizeof(two));
      j.all_reduce(std::span(values), [](const two& a, const two& /*b*/) { return a; });
    }
    j.barrier();
  });
}
int types(job& j) {
  return caught(j, [&] {
    if (j.rank() == 1) {
      (void)j.all_reduce(1.0F, sum());
    } else {
      (void)j.all_reduce(1, sum());
    }
    j.barrier();
  });
}
int operations(job& j) {
  return caught(j, [&] {
    if (j.rank() == 1) {
      (void)j.scan(1, sum());
    } else {
      (void)j.scan(1, maximum());
    }
    j.barrier();
  });
}
/// The last of three nodes waits for the node 0 in another collective than the others. The node
/// 1 waits for neither, and goes on.
int kinds(job& j) {
  return caught(j, [&] {
    if (j.rank() == 2) {
      std::vector<std::byte> bytes(sizeof(int));
      j.broadcast(bytes, 0);
    } else {
      (void)j.reduce(1, sum(), 0);
    }
    (void)j.all_gather(1);
  });
}
int roots(job& j) {
  return caught(j, [&] {
    (void)j.reduce(1, sum(), j.rank() == 1 ? 1 : 0);
    j.barrier();
  });
}
int no_root(job& j) {
  return caught(j, [&] { (void)j.reduce(1, sum(), static_cast<node_id>(j.size())); });
}

/// The operation fails on one node.
int throws(job& j) {
  return caught(j, [&] {
    const auto fails = [&](int a, int b) {
      if (j.rank() == 2) throw std::runtime_error("no such sum");
      return a + b;
    };
    std::vector<int> values(10000);
    j.all_reduce(std::span(values), fails);
    j.barrier();
  });
}

/// The operation throws a number on one node.
int throws_number(job& j) {
  return caught(j, [&] {
    const auto fails = [&](int a, int b) {
      if (j.rank() == 2) throw 7;
      return a + b;
    };
    std::vector<int> values(10000);
    try {
      j.all_reduce(std::span(values), fails);
    } catch (int) {
      throw std::runtime_error("a number");
    }
    j.barrier();
  });
}

/// Each node waits for the node before it.
int circle(job& j) {
  return caught(j, [&] {
    int value = 0;
    j.broadcast(std::as_writable_bytes(std::span(&value, 1)),
                static_cast<node_id>((j.rank() + 1) % j.size()));
  });
}
/// The nodes 0 and 1 wait for each other in different collectives.
int broadcast_in_reduce(job& j) {
  return caught(j, [&] {
    int value = 0;
    if (j.rank() == 1) {
      j.broadcast(std::as_writable_bytes(std::span(&value, 1)), 2);
    } else {
      (void)j.reduce(value, sum(), 0);
    }
    j.barrier();
  });
}
/// Node 1 calls the collective after the other nodes have waited so long that they compare their
/// collectives.
int compared(job& j) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1500);
  };
  if (j.rank() == 1) {
    while (!is_over())
      ::usleep(1000);
  }
  CHECK(j.all_reduce(1, sum()) == static_cast<int>(j.size()));
  j.barrier();
  j.close();
  say("compared");
  return 0;
}

/// Calls all_reduce() on node 0 only after the calls of the other nodes have ended by their
/// deadline.
int late(job& j) {
  if (j.rank() == 0) j.wait_until([] { return false; }, std::chrono::hours(1));
  try {
    (void)j.all_reduce(1, sum(), std::chrono::milliseconds(50));
  } catch (const timeout& e) {
    say(e.what());
  }
  return 5;
}

/// The node 1 is killed, and the others go on.
int dies(job& j) {
  j.survive(true);
  try {
    j.barrier();
  } catch (const node_failed& e) {
    // Node 1 has left the barrier, and was killed, before this node left it.
    CHECK(e.node() == 1);
  }
  if (j.rank() == 1) ::raise(SIGKILL);
  std::vector<double> values(131072);
  for (int turn = 0; turn < 2; ++turn) {
    try {
      for (;;)
        j.all_reduce(std::span(values), sum());
    } catch (const node_failed& e) {
      CHECK(e.node() == 1);
    }
  }
  j.close();
  say("survived");
  return 0;
}

const std::map<std::string, int (*)(job&)> modes{{"works", works},
                                                 {"transport", transport},
                                                 {"counted", counted},
                                                 {"sizes", sizes<1>},
                                                 {"long_sizes", sizes<5000>},
                                                 {"no_values", no_values<false>},
                                                 {"no_values_to_scan", no_values<true>},
                                                 {"value_sizes", value_sizes<24>},
                                                 {"long_value_sizes", value_sizes<196608>},
                                                 {"types", types},
                                                 {"operations", operations},
                                                 {"kinds", kinds},
                                                 {"roots", roots},
                                                 {"no_root", no_root},
                                                 {"throws", throws},
                                                 {"throws_number", throws_number},
                                                 {"circle", circle},
                                                 {"broadcast_in_reduce", broadcast_in_reduce},
                                                 {"compared", compared},
                                                 {"late", late},
                                                 {"dies", dies}};

} // namespace
} // namespace farcall::test

int main(int argc, char** argv) {
  const auto mode = farcall::test::modes.find(argc > 1 ? argv[1] : "");
  if (mode == farcall::test::modes.end()) return 99;
  farcall::job job{farcall::spmd, argc, argv};
  return mode->second(job);
}
