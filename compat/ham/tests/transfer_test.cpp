#include <ham/offload.hpp>

#include <gtest/gtest.h>

#include <numeric>

using namespace ham;

namespace {

double inner_product(offload::buffer_ptr<double> a, offload::buffer_ptr<double> b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

// The program of the paper.
TEST(transfer, inner_product_with_its_buffers_on_a_target) {
  constexpr std::size_t n = 1024;
  std::vector<double> a(n);
  std::vector<double> b(n);
  std::iota(a.begin(), a.end(), 1.0);
  std::iota(b.begin(), b.end(), 2.0);
  auto there_a = offload::allocate<double>(1, n);
  auto there_b = offload::allocate<double>(1, n);
  offload::future<void> kept = offload::put(a.data(), there_a, n);
  offload::put(b.data(), there_b, n); // waits
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

/// Programs derive from buffer_ptr, and make and free buffers by functor.
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

TEST(transfer, by_way_of_functors_and_derived_pointers) {
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

} // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
