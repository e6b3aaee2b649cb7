// SPDX-License-Identifier: Apache-2.0

// A program without HAM_EXPLICIT: a macro renames its main(), which runs on the host only.

#include <ham/misc/options.hpp>
#include <ham/offload.hpp>
#include <ham/util/cpu_affinity.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sched.h>

using namespace ham;

namespace {

int plus_one(int v) { return v + 1; }
double mixed(int a, float b, double c) { return a + static_cast<double>(b) + c; }
void nothing() {}
int quiet(int v) noexcept { return -v; }
template <class T>
T twice(T v) {
  return v + v;
}
template <class A, class B>
A first_of(A a, B /*b*/) {
  return a;
}
int overloaded(int v) { return v; }
[[maybe_unused]] int overloaded(double /*v*/) { return -1; }
struct owner {
  static int member(int v) { return 10 * v; }
};
int sum_of_30(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l,
              int m, int n, int o, int p, int q, int r, int s, int t, int u, int v, int w, int x,
              int y, int z, int aa, int bb, int cc, int dd) {
  return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v + w +
         x + y + z + aa + bb + cc + dd;
}

TEST(offload, calls_functions) {
  EXPECT_EQ(offload::sync(1, f2f(&plus_one, 1)), 2);
  EXPECT_EQ(offload::sync(2, f2f(&mixed, 1, 2.5F, 3.25)), 6.75);
  offload::sync(1, f2f(&nothing));
  offload::future<int> f = offload::async(1, f2f(&plus_one, 41));
  EXPECT_TRUE(f.valid());
  EXPECT_EQ(f.get(), 42);
  EXPECT_FALSE(f.valid());
}

TEST(offload, accepts_f2f_in_every_form) {
  EXPECT_EQ(offload::sync(1, f2f(&owner::member, 4)), 40);
  EXPECT_EQ(offload::sync(1, f2f(&twice<long>, 4L)), 8);
  EXPECT_EQ(offload::sync(1, f2f((&first_of<int, double>), 4, 0.5)), 4);
  EXPECT_EQ(offload::sync(1, f2f(static_cast<int (*)(int)>(&overloaded), 4)), 4);
  EXPECT_EQ(offload::sync(1, f2f(&quiet, 4)), -4);
  EXPECT_EQ(offload::sync(1, f2f([](int a, int b) { return a * b; }, 4, 5)), 20);
  EXPECT_EQ(offload::sync(1, f2f(&sum_of_30, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
            30);
  const std::size_t wide = 7;
  EXPECT_EQ(offload::sync(1, f2f(&plus_one, static_cast<int>(wide))), 8);
}

template <auto Function>
auto call_without_macro(int v) {
  return offload::sync(1, ham::function<decltype(Function), Function>{v});
}

TEST(offload, functions_are_values) {
  EXPECT_EQ(call_without_macro<&plus_one>(5), 6);
  auto f = f2f(&plus_one, 1);
  auto copy = f;
  const auto constant = f;
  EXPECT_EQ(offload::sync(1, copy), 2);
  EXPECT_EQ(offload::sync(1, constant), 2);
  EXPECT_EQ(offload::sync(1, f), 2) << "it was moved from";
  EXPECT_EQ(f(), 2);
  static_assert(std::is_same_v<decltype(f)::result_type, int>);
}

// ---- argument and result kinds ------------------------------------------------------------------

template <class T>
T same(T v) {
  return v;
}

template <class T>
void expect_same(T v) {
  EXPECT_TRUE(offload::sync(1, f2f(&same<T>, v)) == v) << typeid(T).name();
}

TEST(offload, carries_fundamental_types_both_ways) {
  expect_same(true);
  expect_same('a');
  expect_same(static_cast<signed char>(-3));
  expect_same(static_cast<unsigned char>(200));
  expect_same(L'w');
  expect_same(u'u');
  expect_same(U'U');
  expect_same(static_cast<short>(-3));
  expect_same(static_cast<unsigned short>(3));
  expect_same(-3);
  expect_same(3U);
  expect_same(-3L);
  expect_same(3UL);
  expect_same(-3LL);
  expect_same(3ULL);
  expect_same(0.5F);
  expect_same(0.25);
  expect_same(0.125L);
  expect_same(nullptr);
  int here = 0;
  expect_same(std::tuple<void*>(&here)); // sends the address, like HAM
}

struct plain {
  int a;
  double b;
  bool operator==(const plain&) const = default;
};

TEST(offload, carries_types_that_ham_could_not_send) {
  expect_same(plain{1, 2.5});
  expect_same(std::string("text"));
  expect_same(std::string(1'000'000, 'x'));
  expect_same(std::vector<double>(100'000, 1.5));
  expect_same(std::vector<std::string>{"a", "", "b"});
}

class shape {
 public:
  virtual ~shape() = default;
  [[nodiscard]] virtual int corners() const { return 0; }
};
class triangle : public shape {
 public:
  explicit triangle(int extra) : extra_(extra) {}
  [[nodiscard]] int corners() const override { return 3 + extra_; }

 private:
  int extra_;
};
int corners_of(triangle t) {
  const shape& s = t;
  return s.corners();
}

TEST(offload, carries_objects_with_virtual_functions_by_value) {
  EXPECT_EQ(offload::sync(1, f2f(&corners_of, triangle(4))), 7);
}

/// A type with a specialisation of ham::migratable, which sends a fixed-size text.
struct name {
  std::string text;
};

} // namespace

template <>
class ham::migratable<name> {
 public:
  migratable(const name& n) { std::strncpy(text_, n.text.c_str(), sizeof text_ - 1); }
  operator name() const { return {text_}; }

 private:
  char text_[32] = {};
};

namespace {

name greet(name n) { return {"hello " + n.text}; }

TEST(offload, uses_migratable_of_the_program_both_ways) {
  EXPECT_EQ(offload::sync(1, f2f(&greet, name{"you"})).text, "hello you");
}

class counts_up {
 public:
  using result_type = int;
  explicit counts_up(int start) : value_(start) {}
  int operator()() { return ++value_; }

 private:
  int value_;
};

TEST(offload, runs_functors_of_the_program) {
  counts_up f(4);
  EXPECT_EQ(offload::sync(1, f), 5);
  EXPECT_EQ(offload::sync(1, f), 5);
  EXPECT_EQ(offload::sync(1, counts_up(6)), 7);
}

/// Functors that can be moved but not copied: trivially, and by a move constructor.
class only_moved {
 public:
  using result_type = int;
  explicit only_moved(int value) : value_(value) {}
  only_moved(only_moved&&) = default;
  only_moved(const only_moved&) = delete;
  int operator()() { return 2 * value_; }

 private:
  int value_;
};
class only_moved_by_function {
 public:
  using result_type = int;
  explicit only_moved_by_function(int value) : value_(value) {}
  only_moved_by_function(only_moved_by_function&& other) noexcept
      : value_(std::exchange(other.value_, 0)) {}
  only_moved_by_function(const only_moved_by_function&) = delete;
  int operator()() const { return 2 * value_; }

 private:
  int value_;
};

template <class F>
void expect_run_wherever_moved_from() {
  F first(1);
  F second(2);
  EXPECT_EQ(offload::sync(1, first), 2);
  EXPECT_EQ(offload::async(1, second).get(), 4);
  EXPECT_EQ(offload::sync(1, F(3)), 6);
  EXPECT_EQ(offload::async(1, F(4)).get(), 8);
  F fifth(5);
  offload::ping(1, fifth);
  offload::ping(1, F(6));
}

TEST(offload, runs_functors_that_can_only_be_moved) {
  static_assert(std::is_trivially_copyable_v<only_moved>);
  expect_run_wherever_moved_from<only_moved>();
  static_assert(!std::is_trivially_copyable_v<only_moved_by_function>);
  expect_run_wherever_moved_from<only_moved_by_function>();
}

// ---- futures ------------------------------------------------------------------------------------

TEST(offload, futures_are_read_in_any_order) {
  std::vector<offload::future<int>> all;
  for (int i = 0; i < 10; ++i)
    all.push_back(offload::async(1 + i % 2, f2f(&plus_one, i)));
  for (int i = 10; i-- > 0;)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].get(), i + 1);
}

TEST(offload, futures_by_the_hundred_thousand) {
  std::vector<offload::future<int>> all;
  for (int i = 0; i < 100'000; ++i)
    all.push_back(offload::async(1, f2f(&plus_one, i)));
  for (int i = 0; i < 100'000; ++i)
    ASSERT_EQ(all[static_cast<std::size_t>(i)].get(), i + 1);
}

TEST(offload, test_may_be_asked_at_any_time) {
  offload::future<int> f = offload::async(1, f2f(&plus_one, 1));
  while (!f.test()) {
  }
  EXPECT_TRUE(f.test());
  EXPECT_EQ(f.get(), 2);
  offload::future<void> none;
  EXPECT_FALSE(none.valid());
}

int sleep_a_while() {
  struct timespec t = {0, 50'000'000};
  ::nanosleep(&t, nullptr);
  return 1;
}

TEST(offload, futures_that_are_dropped_wait) {
  const auto begin = farcall::clock::now();
  offload::async(1, f2f(&sleep_a_while));
  EXPECT_GE(farcall::clock::now() - begin, std::chrono::milliseconds(50));
  offload::future<int> f = offload::async(1, f2f(&sleep_a_while));
  f = offload::async(1, f2f(&plus_one, 1)); // waits for the first call
  EXPECT_GE(farcall::clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_EQ(f.get(), 2);
}

int fails(int v) { throw std::out_of_range("value " + std::to_string(v)); }

TEST(offload, exceptions_come_back) {
  try {
    offload::sync(1, f2f(&fails, 3));
    FAIL() << "nothing thrown";
  } catch (const farcall::remote_error& e) {
    EXPECT_EQ(e.type_name(), "std::out_of_range");
    EXPECT_EQ(e.text(), "value 3");
  }
  offload::async(1, f2f(&fails, 4)); // future dropped: the exception is only logged
  EXPECT_EQ(offload::sync(1, f2f(&plus_one, 1)), 2);
}

// ---- nodes --------------------------------------------------------------------------------------

node_t node_here() { return offload::this_node(); }
std::size_t nodes_here() { return offload::num_nodes(); }
std::string name_of(node_t node) { return offload::get_node_description(node).name(); }
int plus_one_on(node_t node, int v) { return offload::sync(node, f2f(&plus_one, v)); }

TEST(nodes, know_themselves_and_each_other) {
  EXPECT_EQ(offload::this_node(), 0);
  EXPECT_TRUE(offload::is_host());
  EXPECT_TRUE(offload::is_host(0));
  EXPECT_FALSE(offload::is_host(1));
  ASSERT_EQ(offload::num_nodes(), 3U);
  const auto mine = offload::get_node_description(0);
  EXPECT_NE(std::string(mine.name()), "");
  for (node_t target = 1; target < 3; ++target) {
    EXPECT_EQ(offload::sync(target, f2f(&node_here)), target);
    EXPECT_EQ(offload::sync(target, f2f(&nodes_here)), 3U);
    for (node_t other = 0; other < 3; ++other)
      EXPECT_EQ(offload::sync(target, f2f(&name_of, other)), mine.name());
  }
}

TEST(nodes, offload_to_each_other_and_to_themselves) {
  for (node_t from = 0; from < 3; ++from) {
    for (node_t to = 0; to < 3; ++to)
      EXPECT_EQ(offload::sync(from, f2f(&plus_one_on, to, 5)), 6) << from << " to " << to;
  }
  EXPECT_THROW(offload::sync(7, f2f(&plus_one, 1)), farcall::error);
}

int pings = 0;
void count_ping() { ++pings; }
int pings_seen() { return pings; }

TEST(nodes, are_pinged) {
  for (int i = 0; i < 1000; ++i)
    offload::ping(1, f2f(&count_ping));
  EXPECT_EQ(offload::sync(1, f2f(&pings_seen)), 1000);
}

TEST(macros, are_there) {
  static_assert(HAM_MESSAGE_SIZE == ham::constants::MSG_SIZE);
  static_assert(ham::constants::FLAG_FALSE > ham::constants::NO_BUFFER_INDEX);
  int unused = 0;
  HAM_UNUSED_VAR(unused);
#ifdef HAM_DEBUG_ON
  constexpr int times = 2;
#else
  constexpr int times = 0;
#endif
  int done = 0;
  HAM_DEBUG(++done, ++done;)
  EXPECT_EQ(done, times);
}

void log_a_line(int value) { HAM_LOG << "value " << value << '\n'; }
std::string line_of_log(int value) {
  testing::internal::CaptureStdout();
  log_a_line(value);
  return testing::internal::GetCapturedStdout();
}

TEST(macros, name_the_type_of_a_function) {
  const F2F_TEMPLATE(&plus_one) f(1);
  EXPECT_EQ(offload::sync(1, f), 2);
  EXPECT_EQ(offload::sync(1, F2F_N_ARGS(&plus_one, 2)), 3);
  EXPECT_EQ(offload::sync(1, F2F_N_ARGS((&first_of<int, double>), 4, 0.5)), 4);
  offload::sync(1, F2F_ZERO_ARGS(&nothing));
}

template <class T>
concept is_said_to_be_bitwise = is_bitwise_copyable<T>::value;

TEST(traits, have_the_values_of_ham) {
  static_assert(is_bitwise_copyable<int, double>::value);
  static_assert(!is_bitwise_copyable<int, std::string>::value);
  static_assert(is_said_to_be_bitwise<migratable<int>>);
  static_assert(!is_said_to_be_bitwise<migratable<std::string>>);
  static_assert(is_said_to_be_bitwise<F2F_TEMPLATE(&mixed)>);
  static_assert(is_said_to_be_bitwise<F2F_TEMPLATE(&quiet)>);
  static_assert(is_said_to_be_bitwise<F2F_TEMPLATE(&nothing)>);
  static_assert(!is_said_to_be_bitwise<F2F_TEMPLATE(&corners_of)>);
  static_assert(is_said_to_be_bitwise<decltype(f2f([](int v) { return v; }, 1))>);
  static_assert(is_blocking<int>::value && is_blocking<int, F2F_TEMPLATE(&mixed)>::value);
}

bool is_aborted_here() { return offload::runtime::instance().abort(); }

TEST(runtime, abort_sets_a_flag) {
  EXPECT_FALSE(is_aborted_here());
  EXPECT_TRUE(is_aborted_here());
  EXPECT_FALSE(offload::sync(2, f2f(&is_aborted_here))) << "it is each node's own";
  offload::ping(1, offload::runtime::terminate_functor());
  EXPECT_TRUE(offload::sync(1, f2f(&is_aborted_here)));
}

// ---- options, affinity, messages and pointers ---------------------------------------------------

TEST(options, are_read_from_the_command_line) {
  std::string words[] = {"program", "--ham-cpu-affinity", "3", "--ham-process-count=5", "--other"};
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  int argc = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  char** argv = pointers.data();
  ham::detail::options options(&argc, &argv);
  EXPECT_EQ(options.cpu_affinity(), -1);
  options.parse();
  EXPECT_EQ(options.cpu_affinity(), 3);
  EXPECT_EQ(options.process_count(), 5U);
  EXPECT_FALSE(options.help());
  EXPECT_EQ(*options.argc_ptr(), 5);
  EXPECT_EQ((*options.argv_ptr())[2], words[2]);
  EXPECT_THAT(ham::detail::split("a__b_", '_'), ::testing::ElementsAre("a", "", "b"));
}

cpu_set_t cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}
int cpus_after_pinning(int core) {
  util::set_cpu_affinity(core);
  const cpu_set_t set = cpus();
  return CPU_ISSET(static_cast<unsigned>(core), &set) ? CPU_COUNT(&set) : -1;
}
int first_cpu() {
  const cpu_set_t set = cpus();
  unsigned cpu = 0;
  while (!CPU_ISSET(cpu, &set))
    ++cpu;
  return static_cast<int>(cpu);
}

TEST(affinity, is_set_where_it_can_be) {
  EXPECT_EQ(offload::sync(2, f2f(&cpus_after_pinning, offload::sync(2, f2f(&first_cpu)))), 1);
  const cpu_set_t before = cpus();
  testing::internal::CaptureStderr();
  util::set_cpu_affinity(CPU_SETSIZE);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), ::testing::HasSubstr("processor 1024"));
  const cpu_set_t after = cpus();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

/// A message type; ham/offload.hpp includes the message layer.
class sets_value : public msg::active_msg<sets_value> {
 public:
  explicit sets_value(int* value) : value_(value) {}
  void operator()() const { *value_ = 5; }

 private:
  int* value_;
};

TEST(messages, can_be_used_beside_offloads) {
  int value = 0;
  sets_value message(&value);
  auto* const arrived = static_cast<msg::active_msg_base*>(&message);
  (*arrived)(&message);
  EXPECT_EQ(value, 5);
}

int first_value(int* values) { return values[0]; }

struct holds_pointer {
  using result_type = int;
  int operator()() const { return *value; }
  int* value;
};

TEST(functors, hold_pointers_of_the_target) {
  const auto there = offload::allocate<int>(2, 1);
  int seven = 7;
  offload::put_sync(&seven, there, 1);
  EXPECT_EQ(offload::sync(2, f2f(&first_value, there.get())), 7);
  EXPECT_EQ(offload::sync(2, holds_pointer{there.get()}), 7);
  offload::free(there);
}

TEST(macros, log_begins_with_the_node) {
  EXPECT_EQ(line_of_log(5), "0:\tvalue 5\n");
  EXPECT_EQ(offload::sync(2, f2f(&line_of_log, 6)), "2:\tvalue 6\n");
}

} // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
