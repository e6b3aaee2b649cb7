// SPDX-License-Identifier: Apache-2.0
#include "published.hpp"
#include "unregistered.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(published, has_a_figure_for_each_scanned_length) {
  EXPECT_EQ(published_mib_per_second(direction::to_target, pages::small, 32 * kib), 138);
  EXPECT_EQ(published_mib_per_second(direction::to_target, pages::small, gib), 5654);
  EXPECT_EQ(published_mib_per_second(direction::to_target, pages::huge, mib), 2673);
  EXPECT_EQ(published_mib_per_second(direction::from_target, pages::small, 64 * mib), 5328);
  EXPECT_EQ(published_mib_per_second(direction::from_target, pages::hugetlb, gib), 10872);
}

TEST(published, has_no_figure_for_other_lengths) {
  for (const std::size_t bytes : {16 * kib, 48 * kib, 2 * gib})
    EXPECT_EQ(published_mib_per_second(direction::to_target, pages::small, bytes), std::nullopt);
}

TEST(unregistered_sizes, double_from_32_kib_on) {
  bandwidth_options options;
  EXPECT_EQ(unregistered_sizes(options).size(), 16U);
  EXPECT_EQ(unregistered_sizes(options).back(), gib);
  options.quick = true;
  EXPECT_EQ(unregistered_sizes(options).back(), 16 * mib);
  options.max_bytes = 100 * kib;
  EXPECT_EQ(unregistered_sizes(options), (std::vector<std::size_t>{32 * kib, 64 * kib}));
}

TEST(unregistered_sizes, refuse_conflicting_options) {
  bandwidth_options options;
  options.max_bytes = kib;
  EXPECT_THROW((void)unregistered_sizes(options), usage_problem);
  options.max_bytes = 0;
  options.transport = "tcp";
  EXPECT_THROW((void)unregistered_sizes(options), usage_problem);
}

TEST(why_not_measured, bare_copies_need_another_block) {
  EXPECT_EQ(why_not_measured(gib, pages::small, 1, 5 * gib), "");
  EXPECT_THAT(why_not_measured(gib, pages::small, 1, 4 * gib),
              HasSubstr("1 GiB on small pages by 1 thread: needs 4 blocks of it"));
  EXPECT_THAT(why_not_measured(gib, pages::huge, 2, 4 * gib),
              HasSubstr("by 2 threads: needs 6 blocks of it"));
}

TEST(why_not_measured, blocks_of_the_pool_take_whole_pages) {
  EXPECT_EQ(why_not_measured(32 * kib, pages::hugetlb, 1, 8 * mib), "");
  EXPECT_THAT(why_not_measured(32 * kib, pages::hugetlb, 1, 6 * mib),
              HasSubstr("needs 8 MiB of the pool, and 6 MiB are free"));
}

unregistered_row row_of(pages kind, std::size_t threads) {
  return {.bytes = mib,
          .kind = kind,
          .threads = threads,
          .copy = summarize({100'000}),
          .put = summarize({50'000}),
          .get = summarize({200'000})};
}

TEST(unregistered_tables, there_is_one_for_each_kind_of_pages) {
  const std::string text = unregistered_tables({row_of(pages::small, 1), row_of(pages::huge, 1)});
  EXPECT_THAT(text, HasSubstr("sides, small pages"));
  EXPECT_THAT(text, HasSubstr("sides, transparent huge pages"));
  EXPECT_THAT(text, Not(HasSubstr("hugetlb")));
  // 1 MiB in 50 µs, against a published 1755 MiB/s.
  EXPECT_THAT(text, HasSubstr("20.97"));
  EXPECT_THAT(text, HasSubstr("2.00 x"));
  EXPECT_THAT(text, HasSubstr("1.84"));
}

TEST(unregistered_json, several_threads_copy_together_and_have_no_published_figure) {
  const std::string alone = unregistered_json({row_of(pages::huge, 1)}).dump();
  EXPECT_THAT(alone, HasSubstr(R"("threads":1,)"));
  EXPECT_THAT(alone, HasSubstr(R"("put_gb_s":20.97,)"));
  EXPECT_THAT(alone, HasSubstr(R"("get_to_memcpy":0.5,)"));
  EXPECT_THAT(alone, HasSubstr(R"("published_get_mib_s":2949)"));
  const std::string two = unregistered_json({row_of(pages::huge, 2)}).dump();
  EXPECT_THAT(two, HasSubstr(R"("put_gb_s":41.94,)"));
  EXPECT_THAT(two, HasSubstr(R"("published_get_mib_s":null)"));
}

} // namespace
} // namespace farcall::tool
