// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/call/signature.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/in_order.hpp>
#include <farcall/copy/transfer.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall::test::buffer_test {
namespace {

using ::testing::HasSubstr;

class buffers : public two_targets_test {};

static_assert(std::is_nothrow_move_constructible_v<buffer<int>>);
static_assert(std::is_nothrow_move_assignable_v<buffer<int>>);
static_assert(!std::is_copy_constructible_v<buffer<int>>);
static_assert(std::is_trivially_copyable_v<remote_span<double>>);
static_assert(std::is_convertible_v<remote_span<int>, remote_span<const int>>);
static_assert(!std::is_convertible_v<remote_span<const int>, remote_span<int>>);
static_assert(!std::is_convertible_v<remote_span<int>, remote_span<long>>);
static_assert(std::is_convertible_v<buffer<int>, remote_span<const int>>);

int sum(remote_span<const int> s) { return std::accumulate(s.begin(), s.end(), 0); }
void fill(remote_span<int> s, int v) {
  for (int& e : s)
    e = v;
}

TEST_F(buffers, know_where_they_are) {
  const buffer<int> b = target_.allocate<int>(100);
  EXPECT_EQ(b.size(), 100U);
  EXPECT_FALSE(b.empty());
  EXPECT_EQ(b.node(), target_);
  EXPECT_EQ(b.span().node(), target_.id());
  EXPECT_EQ(b.span().size(), 100U);
  EXPECT_EQ(b.span().size_bytes(), 400U);
  EXPECT_EQ(b.span().address() % 64, 0U);
}

TEST_F(buffers, are_used_in_place_on_their_node) {
  const buffer<int> b = target_.allocate<int>(100);
  sync(target_, fill, b.span(), 3);
  EXPECT_EQ(sync(target_, sum, b.span()), 300);
  EXPECT_EQ(sync(target_, sum, b), 300) << "a buffer converts to a view as an argument";
  EXPECT_EQ(sync(
                target_,
                [](remote_span<int> s) {
                  s[1] = 50;
                  return s.data()[1] + s.local()[2] + *(s.end() - 1);
                },
                b.span()),
            56);
}

TEST_F(buffers, views_of_parts) {
  const buffer<int> b = target_.allocate<int>(10);
  std::vector<int> v(10);
  std::iota(v.begin(), v.end(), 0);
  put_sync(v, b);
  EXPECT_EQ(sync(target_, sum, b.subspan(2, 3)), 9);
  EXPECT_EQ(sync(target_, sum, b.span().subspan(7)), 24);
  EXPECT_EQ(sync(target_, sum, b.span().first(4)), 6);
  EXPECT_EQ(sync(target_, sum, b.span().last(2)), 17);
  EXPECT_EQ(sync(target_, sum, b.span().subspan(1, 8).subspan(1, 2)), 5);
  EXPECT_TRUE(b.span().subspan(10, 0).empty());
}

TEST_F(buffers, views_outside_are_refused) {
  const buffer<int> b = target_.allocate<int>(10);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)b.subspan(5, 6); }), HasSubstr("10"));
  EXPECT_THROW((void)b.span().subspan(11), error);
  EXPECT_THROW((void)b.span().subspan(11, 0), error);
  EXPECT_THROW((void)b.span().first(11), error);
  EXPECT_THROW((void)b.span().last(11), error);
  EXPECT_THROW((void)b.span().subspan(1, SIZE_MAX), error);
}

TEST_F(buffers, on_the_wrong_node) {
  const buffer<int> b = target_.allocate<int>(10);
  const auto e = thrown_by<wrong_node>([&] { (void)b.span().data(); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  EXPECT_THAT(e->what(), HasSubstr("fc::get"));
  EXPECT_THROW((void)b.data(), wrong_node);
  EXPECT_THROW((void)b.span()[0], wrong_node);
  EXPECT_THROW((void)b.span().begin(), wrong_node);
  EXPECT_THROW((void)b.span().end(), wrong_node);
  EXPECT_THROW((void)b.span().local(), wrong_node);

  const auto there = thrown_by<remote_error>([&] { (void)sync(other_, sum, b.span()); });
  ASSERT_TRUE(there);
  EXPECT_EQ(there->type_name(), "farcall::wrong_node");
  EXPECT_THAT(there->text(), HasSubstr("node 1"));
  EXPECT_THAT(there->text(), HasSubstr("node 2"));
}

int read_by_get(remote_span<const int> s) {
  std::vector<int> v(s.size());
  get_sync(s, v);
  return v[0];
}

TEST_F(buffers, that_belong_to_another_job_are_refused) {
  const job second(with_targets("shm:2"));
  const node& there = second.targets()[0];
  // `there` and `target_` both have number 1, and an address in one heap may be valid in the other.
  const buffer<int> theirs = there.allocate<int>(10);
  const buffer<int> ours = target_.allocate<int>(10);
  std::vector<int> v(10);
  const auto is_refused = [](const auto& use) {
    EXPECT_THAT(text_thrown_by<error>(use), HasSubstr("of another job"));
  };
  is_refused([&] { copy(theirs.span(), ours).get(); });
  is_refused([&] { copy(ours, theirs.span()).get(); });
  is_refused([&] { put(v, in_order(theirs.subspan(0, 10).first(10), target_)).get(); });
  is_refused([&] { get(in_order(remote_span<const int>(theirs), target_), v).get(); });
  is_refused([&] { (void)buffer<int>::adopt(target_, theirs); });
  is_refused([&] { (void)sync(target_, sum, theirs.span()); });
  is_refused([&] { sync(target_, fill, theirs.span(), 1); });
  is_refused([&] { (void)sync(target_, read_by_get, theirs.span()); });
  is_refused([&] { (void)sync(other_, read_by_get, theirs.span()); });
  // All nodes of the second job can use the memory of that job.
  put_sync(std::vector<int>(10, 7), theirs);
  EXPECT_EQ(sync(there, sum, theirs.span()), 70);
  EXPECT_EQ(sync(second.targets()[1], read_by_get, theirs.span()), 7);
  const buffer<int> here = second.host().allocate<int>(1);
  here.span()[0] = 4;
  EXPECT_EQ(sync(there, read_by_get, here.span()), 4);
}

TEST_F(buffers, that_have_outlived_their_job_are_refused) {
  remote_span<int> left;
  {
    const job first(with_targets("shm"));
    left = first.targets()[0].allocate<int>(10).release();
  }
  std::vector<int> v(10);
  EXPECT_THAT(text_thrown_by<error>([&] { get(left, v).get(); }), HasSubstr("has ended"));
  EXPECT_THAT(text_thrown_by<error>([&] { put_sync(v, left); }), HasSubstr("has ended"));
  EXPECT_THAT(text_thrown_by<error>([&] { (void)map(left); }), HasSubstr("has ended"));
}

TEST_F(buffers, default_made_views_belong_nowhere) {
  const remote_span<int> nothing;
  EXPECT_TRUE(nothing.empty());
  EXPECT_EQ(nothing.node(), no_node);
  EXPECT_THAT(text_thrown_by<wrong_node>([&] { (void)nothing.data(); }), HasSubstr("is empty"));
  const buffer<int> none;
  EXPECT_TRUE(none.empty());
  EXPECT_THAT(text_thrown_by<error>([&] { (void)map(none); }), HasSubstr("an empty buffer"));
  EXPECT_THAT(text_thrown_by<error>([&] { (void)node_at(no_node); }), HasSubstr("empty"));
}

TEST_F(buffers, on_the_host) {
  const buffer<int> b = job_.host().allocate<int>(5);
  for (std::size_t i = 0; i < 5; ++i)
    b.data()[i] = static_cast<int>(i);
  EXPECT_EQ(sum(b.span()), 10);
  // A target reads this node's memory.
  EXPECT_EQ(sync(
                target_,
                [](remote_span<const int> s) {
                  std::vector<int> v(s.size());
                  get_sync(s, v);
                  return v[4];
                },
                b.span()),
            4);
}

TEST_F(buffers, views_of_ones_own_memory) {
  std::vector<int> mine{1, 2, 3};
  const remote_span<int> s{std::span<int>(mine)};
  EXPECT_EQ(s.node(), host_id);
  EXPECT_EQ(s[1], 2);
  sync(
      target_,
      [](remote_span<int> there) {
        std::vector<int> v(there.size());
        get_sync(there, v);
        for (int& e : v)
          e *= 10;
        put_sync(v, there);
      },
      s);
  EXPECT_EQ(mine, (std::vector<int>{10, 20, 30}));
}

TEST_F(buffers, moves) {
  buffer<int> a = target_.allocate<int>(10);
  const auto address = a.span().address();
  buffer<int> b(std::move(a));
  EXPECT_EQ(b.span().address(), address);
  // Empty after the move, as documented.
  EXPECT_EQ(a.size(), 0U); // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  buffer<int> c = target_.allocate<int>(20);
  c = std::move(b);
  EXPECT_EQ(c.span().address(), address);
  sync(target_, fill, c.span(), 1);
  EXPECT_EQ(sync(target_, sum, c.span()), 10);
  c.reset();
  EXPECT_TRUE(c.empty());
  c.reset();
}

TEST_F(buffers, free_themselves) {
  job_options options = with_targets("shm");
  options.heap_bytes = 128U << 20;
  const job small(options);
  for (int i = 0; i < 200; ++i) {
    const buffer<std::uint64_t> b = small.targets()[0].allocate<std::uint64_t>(8U << 20);
    ASSERT_EQ(b.size(), 8U << 20);
  }
  std::vector<buffer<char>> many;
  for (std::size_t i = 0; i < 5000; ++i)
    many.push_back(target_.allocate<char>(1 + i % 300));
  many.clear();
}

TEST_F(buffers, free_themselves_behind_calls_that_use_them) {
  future<int> f;
  {
    const buffer<int> b = target_.allocate<int>(1000);
    sync(target_, fill, b.span(), 2);
    (void)async(target_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    f = async(target_, sum, b.span());
  }
  const buffer<int> next = target_.allocate<int>(1000);
  EXPECT_EQ(f.get(), 2000);
}

struct alignas(256) wide {
  double v[32];
};

TEST_F(buffers, give_their_memory_up_and_take_it_over) {
  remote_span<int> memory;
  {
    auto b = target_.allocate<int>(100);
    memory = b.release();
    EXPECT_TRUE(b.empty());
    EXPECT_EQ(memory.size(), 100U);
  }
  const std::vector<int> values(100, 7);
  put_sync(values, memory); // the memory is still allocated
  const auto in_use = [&] {
    return sync(target_, [] { return detail::current_copies().engine().heap().bytes_in_use(); });
  };
  const std::uint64_t before = in_use();
  {
    const auto b = buffer<int>::adopt(target_, memory);
    EXPECT_EQ(b.size(), 100U);
    EXPECT_EQ(b.node(), target_);
  }
  EXPECT_LT(in_use(), before);
}

TEST_F(buffers, hold_aligned_types) {
  const buffer<wide> b = target_.allocate<wide>(3);
  EXPECT_EQ(b.span().address() % 256, 0U);
  EXPECT_TRUE(sync(
      target_,
      [](remote_span<wide> s) { return reinterpret_cast<std::uintptr_t>(s.data()) % 256 == 0; },
      b.span()));
}

TEST_F(buffers, may_have_zero_elements) {
  const buffer<int> b = target_.allocate<int>(0);
  EXPECT_EQ(b.size(), 0U);
  EXPECT_EQ(sync(target_, sum, b.span()), 0);
  put_sync(std::vector<int>{}, b);
}

TEST_F(buffers, larger_than_memory_are_refused) {
  const auto e =
      thrown_by<out_of_memory>([&] { (void)target_.allocate<char>(std::size_t{1} << 50); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), HasSubstr("node 1"));
  EXPECT_THROW((void)target_.allocate<double>(SIZE_MAX / 2), out_of_memory);
  EXPECT_THROW((void)target_.allocate<double>(SIZE_MAX / 8), out_of_memory);
  EXPECT_THROW((void)job_.host().allocate<double>(SIZE_MAX / 8), out_of_memory);
  // The node still works.
  const buffer<int> b = target_.allocate<int>(10);
  sync(target_, fill, b.span(), 3);
  EXPECT_EQ(sync(target_, sum, b.span()), 30);
}

TEST_F(buffers, made_by_a_target_on_another) {
  EXPECT_EQ(sync(
                target_,
                [](const node& there) {
                  const buffer<int> b = there.allocate<int>(100);
                  put_sync(std::vector<int>(100, 4), b);
                  return sync(there, sum, b.span());
                },
                other_),
            400);
}

// ---- signature of remote_span -------------------------------------------------------------------

TEST(remote_span, names_the_layout_of_its_elements) {
  // Nodes that give the element type another layout must not be able to call each other with it.
  const auto layout = []<class T>(std::type_identity<T>) {
    const std::string text = signature_text<void(T)>();
    return text.substr(text.find('|') + 1);
  };
  EXPECT_EQ(layout(std::type_identity<remote_span<double>>{}), "-,24:8>8:8");
  EXPECT_EQ(layout(std::type_identity<remote_span<const char>>{}), "-,24:8>1:1");
  EXPECT_EQ(layout(std::type_identity<std::vector<remote_span<short>>>{}), "-,{24:8>2:2}");
  EXPECT_THAT(layout(std::type_identity<remote_span<long double>>{}),
              ::testing::HasSubstr("m" + std::to_string(std::numeric_limits<long double>::digits)));
}

} // namespace
} // namespace farcall::test::buffer_test
