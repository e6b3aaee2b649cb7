// SPDX-License-Identifier: Apache-2.0
#include "serve_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;

// Time 2026-01-02 03:04:05.006 UTC.
constexpr std::chrono::system_clock::time_point moment{std::chrono::milliseconds(1767323045006)};

TEST(serve_log, lines_of_text_begin_with_the_time_in_utc) {
  const server_event event{log::level::info, "target_started", "target 7 started", {{"pid", 7}}};
  EXPECT_EQ(log_line(log_format::text, event, moment), "2026-01-02T03:04:05.006Z farcall[" +
                                                           std::to_string(::getpid()) +
                                                           "] info: target 7 started");
}

TEST(serve_log, lines_of_json_have_the_facts) {
  const server_event event{log::level::warning,
                           "connection_refused",
                           "connection from x refused: \"y\"",
                           {{"address", "x"}, {"node", 3}}};
  EXPECT_EQ(log_line(log_format::json, event, moment),
            R"({"time":"2026-01-02T03:04:05.006Z","level":"warning","event":"connection_refused",)"
            R"("text":"connection from x refused: \"y\"","address":"x","node":3})");
}

TEST(serve_log, other_lines_of_the_process_are_events_too) {
  EXPECT_THAT(log_line(log_format::json, {log::level::error, "", "no memory", {}}, moment),
              HasSubstr(R"("event":"log","text":"no memory"})"));
}

/// Collects a server's events in order.
class server_events_test : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const server_event& e : seen_)
      all.emplace_back(e.name);
    return all;
  }

  std::vector<server_event> seen_;
  server_events events_{[this](const server_event& e) { seen_.push_back(e); }};
};

TEST_F(server_events_test, a_host_is_present_while_it_has_targets) {
  const server_client one{{std::byte{1}}, "192.0.2.1:4000", "ada"};
  const server_client two{{std::byte{2}}, "192.0.2.1:4001", ""};
  events_.target_started(one, 1, 10, false);
  events_.target_started(one, 2, 11, true);
  events_.target_started(two, 1, 12, false);
  EXPECT_EQ(events_.hosts(), 2U);
  events_.target_ended(one, 1, 10, "exited with status 0");
  events_.target_ended(one, 2, 11, "exited with status 0");
  EXPECT_EQ(events_.hosts(), 1U);
  EXPECT_EQ(events_.targets_started(), 3U);
  EXPECT_THAT(names(), testing::ElementsAre("host_connected", "target_started", "sampler_started",
                                            "host_connected", "target_started", "target_ended",
                                            "target_ended", "host_disconnected"));
  EXPECT_EQ(seen_[0].text, "host ada at 192.0.2.1:4000 came, with job 01" + std::string(30, '0'));
  EXPECT_EQ(log_line(log_format::json, seen_[1], moment),
            R"({"time":"2026-01-02T03:04:05.006Z","level":"info","event":"target_started",)"
            R"("text":"target 10 started for ada at 192.0.2.1:4000",)"
            R"("address":"192.0.2.1:4000","client":"ada","job":"01)" +
                std::string(30, '0') + R"(","node":1,"pid":10})");
}

TEST_F(server_events_test, texts_from_peers_are_escaped) {
  const std::string forged = "x\n2026-01-02T03:04:05.006Z farcall[1] info: \x1B[2Jall is well\x9B";
  events_.refused("192.0.2.1:1", tcp::refusal_cause::authentication, forged);
  events_.host_lost({{}, "192.0.2.1:1", forged}, forged);
  ASSERT_EQ(seen_.size(), 2U);
  for (const server_event& e : seen_) {
    for (const log_format f : {log_format::text, log_format::json}) {
      for (const char c : log_line(f, e, moment))
        EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != '\x7F') << int{c};
      EXPECT_THAT(log_line(f, e, moment), HasSubstr("all is well\uFFFD"));
    }
  }
}

TEST_F(server_events_test, a_flood_of_refusals_is_counted_and_not_written) {
  for (int i = 0; i < 1000; ++i)
    events_.refused("192.0.2.1:1", tcp::refusal_cause::protocol, "junk");
  EXPECT_EQ(events_.refusals().at(static_cast<std::size_t>(tcp::refusal_cause::protocol)), 1000U);
  // Ten lines in each second; the test may take more than one.
  EXPECT_LT(seen_.size(), 500U);
  EXPECT_GE(seen_.size(), log::limited_log::max_lines);
  EXPECT_EQ(log_line(log_format::json, seen_[0], moment),
            R"({"time":"2026-01-02T03:04:05.006Z","level":"warning","event":"connection_refused",)"
            R"("text":"connection from 192.0.2.1:1 refused: junk","address":"192.0.2.1:1",)"
            R"("cause":"protocol","reason":"junk"})");
}

} // namespace
} // namespace farcall::tool
