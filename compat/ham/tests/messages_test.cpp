// SPDX-License-Identifier: Apache-2.0

// Tests of the header-only message layer, without a job and a library. The program defines the
// functions that the headers only declare.

#include <ham/msg/active_msg.hpp>

namespace {
[[maybe_unused]] constexpr ham::node_t of_the_first_header = 0;
}

#include <ham/misc/resource_pool.hpp>
#include <ham/msg/active_msg_base.hpp>
#include <ham/msg/execution_policy.hpp>
#include <ham/net/communicator.hpp>
#include <ham/offload/offload_msg.hpp>
#include <ham/util/at_end_of_scope_do.hpp>
#include <ham/util/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include <unistd.h>

namespace ham::net {
node_t this_node() { return 0; }
bool initialised() { return true; }
} // namespace ham::net

namespace {

using namespace ham::msg;

int sum = 0;

class add : public active_msg<add> {
 public:
  explicit add(int v) : value_(v) {}
  void operator()() const { sum += value_; }

 private:
  int value_;
};
class negate_sum : public active_msg<negate_sum> {
 public:
  void operator()() const { sum = -sum; }
};
template <class Derived>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): as programs write it
struct twice_policy {
  static void handler(void* buffer) {
    (*static_cast<Derived*>(buffer))();
    (*static_cast<Derived*>(buffer))();
  }
};
class add_twice : public active_msg<add_twice, twice_policy> {
 public:
  void operator()() const { sum += 100; }
};

/// Copies a message's bytes, and runs the copy without using its type.
template <class Message>
void send_and_run(const Message& m) {
  alignas(Message) unsigned char channel[sizeof(Message)];
  std::memcpy(channel, static_cast<const void*>(&m), sizeof m);
  auto* arrived = reinterpret_cast<active_msg_base*>(channel);
  (*arrived)(channel);
}

TEST(messages, run_where_they_arrive) {
  msg_handler_registry::init();
  sum = 0;
  send_and_run(add(5));
  EXPECT_EQ(sum, 5);
  send_and_run(negate_sum());
  EXPECT_EQ(sum, -5);
  send_and_run(add_twice());
  EXPECT_EQ(sum, 195);
}

struct adds_thousand {
  void operator()() const { sum += 1000; }
};

TEST(messages, are_made_of_functors) {
  msg_handler_registry::init();
  sum = 0;
  send_and_run(ham::offload::detail::offload_msg<adds_thousand>{adds_thousand()});
  EXPECT_EQ(sum, 1000);
}

TEST(messages, registry_can_be_printed) {
  msg_handler_registry::init();
  std::ostringstream out;
  msg_handler_registry::print_handler_map(out);
  msg_handler_registry::print_handler_vector(out);
  EXPECT_NE(out.str().find("add_twice"), std::string::npos);
  EXPECT_NE(out.str().find("2 -> "), std::string::npos);
  EXPECT_NE(msg_handler_registry::get_handler(0), nullptr);
}

// ---- utilities of the layer ---------------------------------------------------------------------

TEST(resource_pools, lend_the_last_value_first) {
  ham::detail::resource_pool<int> pool;
  pool.add(1);
  pool.add(2);
  EXPECT_EQ(pool.next(), 2);
  EXPECT_EQ(pool.allocate(), 2);
  ham::detail::resource_pool<int> other = std::move(pool);
  EXPECT_EQ(other.allocate(), 1);
  EXPECT_EQ(other.allocate(), 0);
  int value = 7;
  other.free(value);
  other.free(8);
  EXPECT_EQ(other.allocate(), 8);
  EXPECT_EQ(other.allocate(), 7);
}

TEST(at_end_of_scope, runs_once) {
  int runs = 0;
  {
    auto guard = ham::util::at_end_of_scope_do([&] { ++runs; });
    EXPECT_EQ(runs, 0);
  }
  EXPECT_EQ(runs, 1);
}

TEST(time, statistics_describe_the_sample) {
  ham::util::time::statistics times(4, 2);
  for (const double t : {1e9, 1e9, 40.0, 10.0, 30.0, 20.0})
    times.add(t);
  EXPECT_EQ(times.count(), 4U);
  EXPECT_EQ(times.sum().count(), 100);
  EXPECT_EQ(times.average().count(), 25);
  EXPECT_EQ(times.median().count(), 25);
  EXPECT_EQ(times.min().count(), 10);
  EXPECT_EQ(times.max().count(), 40);
  EXPECT_NEAR(times.variance().count(), 500.0 / 3, 1e-9);
  EXPECT_NEAR(times.std_error().count(), std::sqrt(500.0 / 12), 1e-9);
  EXPECT_NEAR(times.relative_std_error().count(), std::sqrt(500.0 / 12) / 25, 1e-9);
  EXPECT_NEAR(times.conf95_error().count(), 1.96 * std::sqrt(500.0 / 12), 1e-9);
  const auto tabs = [](const std::string& line) {
    return std::count(line.begin(), line.end(), '\t');
  };
  EXPECT_EQ(tabs(times.string()), tabs(ham::util::time::statistics::header_string()));
  EXPECT_EQ(times.string().substr(0, 13), "2.500000e+01\t");
}

TEST(time, statistics_of_zero_times_are_zero) {
  const ham::util::time::statistics none;
  EXPECT_EQ(none.average().count(), 0);
  EXPECT_EQ(none.median().count(), 0);
  EXPECT_EQ(none.relative_conf95_error().count(), 0);
}

TEST(time, times_are_written_in_order) {
  const std::string file = testing::TempDir() + "ham_times-" + std::to_string(::getpid());
  ham::util::time::statistics times;
  times.add(3);
  times.add(1);
  times.to_file(file);
  std::ifstream in(file);
  double first = 0;
  double second = 0;
  in >> first >> second;
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 1);
  std::remove(file.c_str());
}

TEST(time, timers_go_forward) {
  const ham::util::time::timer t;
  const auto first = t.elapsed();
  ham::util::time::statistics times;
  times.add(t);
  EXPECT_GE(first, 0);
  EXPECT_GE(times.max().count(), first);
}

} // namespace
