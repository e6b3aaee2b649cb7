// SPDX-License-Identifier: Apache-2.0
#include <ham/offload.hpp>
#include <ham/offload/stream.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <new>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace ham;

namespace {

double inner_product(offload::buffer_ptr<double> a, offload::buffer_ptr<double> b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

// The inner product of HAM's paper.
TEST(transfer, inner_product_with_its_buffers_on_a_target) {
  constexpr std::size_t n = 1024;
  std::vector<double> a(n);
  std::vector<double> b(n);
  std::iota(a.begin(), a.end(), 1.0);
  std::iota(b.begin(), b.end(), 2.0);
  auto there_a = offload::allocate<double>(1, n);
  auto there_b = offload::allocate<double>(1, n);
  offload::future<void> kept = offload::put(a.data(), there_a, n);
  offload::put(b.data(), there_b, n); // waits: the future is not kept
  kept.get();
  offload::future<double> product = offload::async(1, f2f(&inner_product, there_a, there_b, n));
  const double here = inner_product(net::buffer_ptr<double>(a.data(), offload::this_node()),
                                    net::buffer_ptr<double>(b.data(), offload::this_node()), n);
  EXPECT_EQ(product.get(), here);
  offload::free(there_a);
  offload::free(there_b);
}

TEST(transfer, round_trip_over_two_targets_and_the_host) {
  constexpr std::size_t n = 3 << 20; // more than a message, and more than one copy at once
  std::vector<int> data(n);
  std::iota(data.begin(), data.end(), 0);
  auto a = offload::allocate<int>(1, n);
  auto b = offload::allocate<int>(2, n);
  std::vector<int> middle(n);
  const net::buffer_ptr<int> host(middle.data(), 0);
  std::vector<int> back(n);
  offload::put(static_cast<const int*>(data.data()), a, n);
  offload::copy_sync(a, b, n);    // target to target
  offload::copy_sync(b, host, n); // target to host
  EXPECT_EQ(middle, data);
  std::fill(back.begin(), back.end(), 0);
  offload::copy_sync(host, a, n); // host to target
  offload::copy(a, a + 0, n).get();
  offload::get(a + 1, back.data(), n - 1);
  back.pop_back();
  EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin() + 1));
  offload::get_sync(a, back.data(), 0);
  offload::put_sync(back.data(), a, 0);
  offload::free(a);
  offload::free(b);
}

TEST(transfer, several_at_once) {
  constexpr std::size_t n = 1000;
  auto there = offload::allocate<int>(1, 10 * n);
  std::vector<std::vector<int>> all;
  std::vector<offload::future<void>> puts;
  for (int i = 0; i < 10; ++i) {
    all.emplace_back(n, i);
    puts.push_back(offload::put(all.back().data(), there + static_cast<std::size_t>(i) * n, n));
  }
  for (auto& p : puts)
    p.get();
  std::vector<int> back(10 * n);
  offload::get(there, back.data(), 10 * n).get();
  for (std::size_t i = 0; i < 10 * n; ++i)
    ASSERT_EQ(back[i], static_cast<int>(i / n));
  offload::free(there);
}

TEST(transfer, memory_that_cannot_be_had_is_an_error) {
  EXPECT_THROW((void)offload::allocate<char>(1, std::size_t{1} << 46), farcall::out_of_memory);
  auto none = offload::allocate<int>(1, 0);
  offload::free(none);
}

/// A class derived from buffer_ptr: programs have such, and allocate buffers by functors.
class owned : public offload::buffer_ptr<int> {
 public:
  explicit owned(offload::buffer_ptr<int> memory) : offload::buffer_ptr<int>(memory) {}
};

int sum_of(offload::buffer_ptr<int> memory, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += memory[static_cast<std::size_t>(i)];
  return sum;
}

TEST(transfer, uses_functors_and_derived_pointers) {
  owned memory(offload::sync(2, new_buffer<int>(4, offload::this_node())));
  EXPECT_EQ(memory.node(), 2);
  const int values[] = {1, 2, 3, 4};
  offload::put_sync(values, memory, 4);
  EXPECT_EQ(offload::sync(2, f2f(&sum_of, memory, 4)), 10);
  offload::sync(2, delete_buffer<int>(memory));
  const offload::buffer_ptr<int> null;
  EXPECT_EQ(null.get(), nullptr);
  EXPECT_EQ(null.node(), 0);
}

// ---- order: puts, gets and frees are in order with calls to the node ----

constexpr std::size_t sizes[] = {1'000, std::size_t{1} << 20, std::size_t{1} << 23};

double last_of(offload::buffer_ptr<double> memory, std::size_t n) { return memory[n - 1]; }

void fill(offload::buffer_ptr<double> memory, std::size_t n, double with) {
  for (std::size_t i = n; i-- > 0;)
    memory[i] = with;
}

TEST(order, calls_follow_puts) {
  for (const std::size_t n : sizes) {
    auto there = offload::allocate<double>(1, n);
    for (int round = 1; round < 6; ++round) {
      const std::vector<double> values(n, round);
      auto put = offload::put(values.data(), there, n);
      auto last = offload::async(1, f2f(&last_of, there, n));
      EXPECT_EQ(last.get(), round) << n;
    }
    offload::free(there);
  }
}

TEST(order, gets_follow_calls) {
  for (const std::size_t n : sizes) {
    auto there = offload::allocate<double>(1, n);
    for (int round = 1; round < 6; ++round) {
      std::vector<double> values(n);
      auto filled = offload::async(1, f2f(&fill, there, n, double(round)));
      offload::get(there, values.data(), n).get();
      EXPECT_EQ(values.front(), round) << n;
      offload::ping(1, f2f(&fill, there, n, -double(round)));
      offload::get_sync(there, values.data(), n);
      EXPECT_EQ(values.front(), -round) << n;
    }
    offload::free(there);
  }
}

TEST(order, copies_follow_calls_of_both_nodes) {
  for (const std::size_t n : sizes) {
    auto from = offload::allocate<double>(1, n);
    auto to = offload::allocate<double>(2, n);
    auto filled = offload::async(1, f2f(&fill, from, n, 1.0));
    auto overwritten = offload::async(2, f2f(&fill, to, n, 2.0));
    offload::copy_sync(from, to, n);
    std::vector<double> values(n);
    offload::get_sync(to, values.data(), n);
    EXPECT_EQ(values, std::vector<double>(n, 1)) << n;
    offload::free(from);
    offload::free(to);
  }
}

TEST(order, memory_is_freed_after_earlier_puts) {
  constexpr std::size_t n = std::size_t{8} << 20;
  const std::vector<double> ones(n, 1);
  for (int round = 0; round < 5; ++round) {
    auto first = offload::allocate<double>(1, n);
    auto put = offload::put(ones.data(), first, n);
    offload::free(first);
    auto second = offload::allocate<double>(1, n);
    offload::sync(1, f2f(&fill, second, n, 0.0));
    put.get();
    std::vector<double> values(n, 1);
    offload::get_sync(second, values.data(), n);
    EXPECT_EQ(values, std::vector<double>(n, 0))
        << "at the same address: " << (first.get() == second.get());
    offload::free(second);
  }
}

// ---- memory of any type -------------------------------------------------------------------------

/// A type with its own copy functions, like many types of programs.
class point {
 public:
  point() = default;
  point(double x, double y) : x_(x), y_(y) {}
  // NOLINTBEGIN(modernize-use-equals-default): they must not be trivial
  point(const point& other) : x_(other.x_), y_(other.y_) {}
  point& operator=(const point& other) {
    x_ = other.x_;
    y_ = other.y_;
    return *this;
  }
  // NOLINTEND(modernize-use-equals-default)
  ~point() { x_ = -1; }
  friend bool operator==(const point&, const point&) = default;

 private:
  double x_ = 0;
  double y_ = 0;
};

template <class T>
void expect_round_trip(const std::vector<T>& values) {
  const std::size_t n = values.size();
  auto a = offload::allocate<T>(1, n);
  auto b = offload::allocate<T>(2, n);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % alignof(T), 0U);
  offload::put_sync(values.data(), a, n);
  offload::copy_sync(a, b, n);
  std::vector<T> back(n);
  offload::get_sync(b, back.data(), n);
  EXPECT_EQ(back, values);

  offload::put(values.data(), b + 1, n - 1).get();
  offload::copy(b + 1, a, n - 1).get();
  offload::get(a, back.data(), 1).get();
  EXPECT_EQ(back[0], values[0]);
  offload::free(a);
  offload::free(b);
}

TEST(any_type, is_sent_as_its_bytes) {
  static_assert(!std::is_trivially_copyable_v<std::pair<int, double>>);
  expect_round_trip<std::pair<int, double>>({{1, 0.5}, {2, 1.5}, {3, 2.5}});
  static_assert(!std::is_trivially_destructible_v<point>);
  expect_round_trip<point>({{1, 2}, {3, 4}});
}

std::string joined(offload::buffer_ptr<std::string> memory) {
  for (std::size_t i = 0; i < 3; ++i)
    new (&memory[i]) std::string(20, static_cast<char>('a' + i));
  std::string all;
  for (std::size_t i = 0; i < 3; ++i) {
    all += memory[i];
    memory[i].~basic_string();
  }
  return all;
}

TEST(any_type, can_be_made_on_a_target) {
  const std::string expected = std::string(20, 'a') + std::string(20, 'b') + std::string(20, 'c');
  auto memory = offload::allocate<std::string>(1, 3);
  EXPECT_EQ(offload::sync(1, f2f(&joined, memory)), expected);
  offload::free(memory);
  const auto by_functor = offload::sync(2, new_buffer<std::string>(3));
  EXPECT_EQ(offload::sync(2, f2f(&joined, by_functor)), expected);
  offload::sync(2, delete_buffer<std::string>(by_functor));
}

// ---- streams ------------------------------------------------------------------------------------

offload::stream::stream_proxy doubled(offload::stream::stream_proxy words) {
  offload::stream::istream in(words);
  offload::stream::ostream out(0);
  for (std::string word; in >> word;)
    out << word << word << ' ';
  return out.sync();
}

std::string all_of(offload::stream::stream_proxy proxy) {
  offload::stream::istream in(proxy);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(streams, take_data_to_a_node_and_bring_back_others) {
  offload::stream::ostream out(1, 64);
  out << "one " << 2 << '\n';
  EXPECT_EQ(out.target(), 1);
  EXPECT_EQ(all_of(offload::sync(1, f2f(&doubled, out.sync()))), "oneone 22 ");
}

TEST(streams, are_read_anywhere_and_may_be_empty) {
  offload::stream::ostream out(1);
  EXPECT_EQ(all_of(out.sync()), "");
  out.write("\0\n\xff", 3);
  EXPECT_EQ(offload::sync(2, f2f(&all_of, out.sync())), std::string("\0\n\xff", 3));
  EXPECT_EQ(out.size(), 3U);
}

} // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
