// A program in HAM's way: main() is renamed, runs on the host only, and all the rest is offloads.

#include <ham/offload.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

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
  const std::size_t wide = 7; // converted here
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
  expect_same(std::tuple<void*>(&here)); // the address, as ever
}

struct plain {
  int a;
  double b;
  bool operator==(const plain&) const = default;
};

TEST(offload, carries_what_hams_messages_could_not) {
  expect_same(plain{1, 2.5});
  expect_same(std::string("text"));
  expect_same(std::string(1'000'000, 'x'));
  expect_same(std::vector<double>(100'000, 1.5));
  expect_same(std::vector<std::string>{"a", "", "b"});
}

// UndefinedBehaviorSanitizer says, rightly, that the copy is made from what is no object.
#ifndef __SANITIZE_ADDRESS__
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
#endif

/// What ham::migratable is specialised for: carries something else than its bytes.
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
  f = offload::async(1, f2f(&plus_one, 1)); // after the first
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
  offload::async(1, f2f(&fails, 4)); // dropped: said on standard error, and no more
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
  int unused = 0;
  HAM_UNUSED_VAR(unused);
  HAM_DEBUG(FAIL());
  HAM_LOG("a line of the log" << '\n');
  static_assert(is_bitwise_copyable<int, double>::value &&
                !is_bitwise_copyable<std::string>::value);
}

} // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
