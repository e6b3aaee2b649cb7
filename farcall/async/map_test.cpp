// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/map.hpp>
#include <farcall/async/stop_token.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test::map_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

double halved(double v) { return v / 2; }
std::string twice(const std::string& text) { return text + text; }

std::vector<int>& seen() {
  static std::vector<int> all;
  return all;
}
void see(int v) { seen().push_back(v); }
std::vector<int> what_was_seen() { return std::exchange(seen(), {}); }

int see_until_stopped(int v) {
  see(v);
  while (!stop_token_of_call().stop_requested())
    ::usleep(100);
  return v;
}

int positive(int v) {
  if (v < 0) throw std::out_of_range("below zero: " + std::to_string(v));
  return v;
}

int end_at_seven(int v) {
  if (v == 7) ::_exit(1);
  return v;
}

class maps : public job_test {};

TEST_F(maps, call_once_for_each_element_in_order) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{256},
                                  std::size_t{257}, std::size_t{100'000}}) {
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), 1.0);
    const std::vector<double> got = map(target_, fn<halved>, values).get();
    ASSERT_EQ(got.size(), count);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(got[i], (static_cast<double>(i) + 1) / 2) << i;
  }
}

TEST_F(maps, without_elements_are_ready) {
  future<std::vector<double>> f = map(target_, fn<halved>, std::vector<double>{});
  EXPECT_TRUE(f.test());
  EXPECT_THAT(f.get(), IsEmpty());
}

TEST_F(maps, take_any_range_and_convert_its_elements) {
  EXPECT_THAT(map(target_, fn<halved>, std::list<int>{2, 4}).get(), ElementsAre(1.0, 2.0));
  EXPECT_THAT(map(target_, fn<halved>, std::views::iota(1, 4)).get(), ElementsAre(0.5, 1.0, 1.5));
  EXPECT_THAT(map(target_, fn<twice>, std::vector<const char*>{"a", "bc"}).get(),
              ElementsAre("aa", "bcbc"));
  const std::vector<std::string> many(1'000, "text");
  EXPECT_EQ(map(target_, fn<twice>, many).get(), std::vector<std::string>(1'000, "texttext"));
}

TEST_F(maps, take_lambdas_with_what_they_capture) {
  int factor = 2;
  ++factor;
  EXPECT_THAT(map(
                  target_, [factor](int v) { return factor * v; }, std::views::iota(1, 4))
                  .get(),
              ElementsAre(3, 6, 9));
}

TEST_F(maps, run_functions_without_result_in_order) {
  constexpr int count = 5'000;
  future<void> f = map(target_, fn<see>, std::views::iota(0, count));
  f.get();
  std::vector<int> expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sync(target_, what_was_seen), expected);
}

TEST_F(maps, throw_the_first_exception_and_skip_its_message) {
  std::vector<int> values(3'000, 1);
  values[2'000] = -2;
  values[100] = -1;
  future<std::vector<int>> f = map(target_, fn<positive>, values);
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)f.get(); }), HasSubstr("below zero: -1"));
}

TEST_F(maps, go_by_lanes_and_have_deadlines) {
  const lane own(target_);
  EXPECT_THAT(map(own, fn<halved>, std::vector<double>{4}).get(), ElementsAre(2.0));
  handshake words(job_.host());
  future<std::vector<int>> late = map(
      target_.within(std::chrono::milliseconds(20)),
      [words = words.span()](std::uint32_t at) {
        return handshake::wait(farcall::map(words), at, 1) ? 1 : 0;
      },
      std::vector<std::uint32_t>{0});
  EXPECT_TRUE(late.wait_for(wait_limit));
  EXPECT_THROW((void)late.get(), timeout);
  words.set(0);
}

TEST_F(maps, that_are_stopped_run_no_more_elements) {
  EXPECT_THROW((void)map(target_.within(std::chrono::milliseconds(20)), fn<see_until_stopped>,
                         std::views::iota(0, 100))
                   .get(),
               timeout);
  // The worker runs this call after the message.
  EXPECT_THAT(sync(target_, what_was_seen), ElementsAre(0));
}

TEST_F(maps, fail_with_their_node) {
  EXPECT_THROW((void)map(target_, fn<end_at_seven>, std::views::iota(0, 1'000)).get(), node_failed);
}

} // namespace
} // namespace farcall::test::map_test
