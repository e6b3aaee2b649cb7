// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/requester_test_support.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace farcall::test::responder_test {
namespace {

using namespace am;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t ring_size = min_ring;

responder* lane_of_handlers = nullptr;
std::vector<std::string> seen;
std::vector<std::byte*> long_blocks;

std::string arguments_of(const request_context& request) {
  return {reinterpret_cast<const char*>(request.arguments()),
          static_cast<std::size_t>(request.bytes())};
}

void reply_text(request_context& request, const std::string& text) {
  std::byte* to = request.reserve_reply(static_cast<std::uint32_t>(text.size()));
  std::memcpy(to, text.data(), text.size());
  request.commit_reply(to, static_cast<std::uint32_t>(text.size()));
}

void echo(request_context& request) noexcept {
  seen.push_back(arguments_of(request));
  request.release();
  reply_text(request, seen.back());
}

void stay_silent(request_context& request) noexcept { seen.push_back(arguments_of(request)); }

void fail_twice(request_context& request) noexcept {
  request.reply_error("type", "text");
  request.reply_error("other type", "only the first counts");
  request.reply_unknown();
}

void fail_at_length(request_context& request) noexcept {
  request.reply_error(std::string(ring_size, 't'), std::string(ring_size, 'x'));
}

void reply_rendezvous(request_context& request) noexcept {
  long_blocks.push_back(request.reserve_rendezvous_reply(10'000));
  request.commit_rendezvous_reply(long_blocks.back(), 10'000);
}

void release_named(request_context& request) noexcept {
  std::uint64_t address = 0;
  std::memcpy(&address, request.arguments(), sizeof address);
  request.release_rendezvous_reply(address);
}

/// Calls serve_one() inside a handler: before the record is released, and after.
void serve_inside(request_context& request) noexcept {
  seen.emplace_back(lane_of_handlers->serve_one() ? "served too early" : "waited");
  request.release();
  seen.emplace_back(lane_of_handlers->serve_one() ? "served inside" : "nothing there");
  reply_text(request, "outer");
}

const int layer_above = 0;
const auto* const some_context = reinterpret_cast<const call_context*>(&layer_above);

void tell_about(request_context& request) noexcept {
  reply_text(request, std::to_string(request.source()) + " " + std::to_string(request.extra()) +
                          " " + (request.in_ring() ? "ring" : "memory") + " " +
                          (request.context() == some_context ? "context" : "no context"));
}

enum key : handler_key {
  echo_key = first_user_key,
  silent_key,
  fail_key,
  long_error_key,
  long_key,
  release_key,
  inside_key,
  tell_key,
  null_key,
};

std::vector<handler_function> handlers() {
  return {&echo,          &stay_silent,  &fail_twice, &fail_at_length, &reply_rendezvous,
          &release_named, &serve_inside, &tell_about, nullptr};
}

/// A lane whose peer is the test, which writes requests_ and reads replies_.
class responders : public ::testing::Test {
 protected:
  responders()
      : engine_(handlers(), some_context), lane_(std::make_unique<responder>(*engine_, server())),
        requests_(rings_.opener().out), replies_(rings_.opener().in) {
    lane_of_handlers = lane_.get();
    seen.clear();
    long_blocks.clear();
  }

  endpoint server() {
    endpoint c = rings_.server();
    c.driver = &driver_;
    return c;
  }

  record_view next_reply() {
    const record_view record = peek(replies_);
    if (record && record.bytes != 0) release(replies_, record);
    return record;
  }

  idle_engine engine_;
  fake_driver driver_;
  ring_pair rings_{ring_size};
  std::unique_ptr<responder> lane_;
  outbox requests_;
  inbox replies_;
};

// ---- requests and replies -----------------------------------------------------------------------

TEST_F(responders, reply_to_requests_one_by_one_and_in_order) {
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_FALSE(lane_->has_request());
  ASSERT_TRUE(send_request(requests_, echo_key, 7, "first"));
  ASSERT_TRUE(send_request(requests_, echo_key, 8, "second"));
  EXPECT_TRUE(lane_->has_request());
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_THAT(seen, ElementsAre("first"));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_FALSE(lane_->has_request());
  for (const auto& [slot, text] : {std::pair{7U, "first"}, std::pair{8U, "second"}}) {
    const record_view reply = next_reply();
    ASSERT_EQ(reply.kind, record_kind::reply);
    EXPECT_EQ(slot_of(reply), slot);
    EXPECT_EQ(body_of(reply), text);
  }
  EXPECT_FALSE(next_reply());
}

// A sender commits a pad before it has written the record behind it.
TEST_F(responders, never_serve_a_pad_as_a_request) {
  constexpr std::uint32_t next = request_body + 400;
  while ((requests_.head & requests_.mask) + next <= ring_size) {
    ASSERT_TRUE(send_request(requests_, silent_key, no_slot, "before"));
    ASSERT_TRUE(lane_->serve_one());
  }
  ASSERT_NE(try_reserve(requests_, next), nullptr);
  EXPECT_TRUE(lane_->has_request());
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_FALSE(lane_->has_request());
  ASSERT_TRUE(send_request(requests_, silent_key, no_slot, std::string(400, 'b')));
  EXPECT_TRUE(lane_->has_request());
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_EQ(seen.back(), std::string(400, 'b'));
}

TEST_F(responders, tell_handlers_about_the_request) {
  std::string body = bytes_of(handler_key{tell_key}) + bytes_of(std::uint32_t{4711});
  ASSERT_TRUE(send_record(requests_, record_kind::request, 0, body));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_EQ(body_of(next_reply()), "1 4711 ring context");
}

TEST_F(responders, drop_replies_that_nobody_wants) {
  for (const handler_key k : {echo_key, silent_key, fail_key, null_key, long_key})
    ASSERT_TRUE(send_request(requests_, k, no_slot, "posted"));
  const std::uint64_t before = engine_->heap().bytes_in_use();
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(lane_->serve_one());
  EXPECT_FALSE(next_reply());
  EXPECT_EQ(engine_->heap().bytes_in_use(), before);
}

TEST_F(responders, reply_for_silent_handlers) {
  ASSERT_TRUE(send_request(requests_, silent_key, 3));
  EXPECT_TRUE(lane_->serve_one());
  const record_view reply = next_reply();
  ASSERT_EQ(reply.kind, record_kind::reply);
  EXPECT_EQ(slot_of(reply), 3U);
  EXPECT_EQ(body_of(reply), "");
}

TEST_F(responders, tell_that_a_key_has_no_handler) {
  for (const handler_key k : {handler_key{null_key}, handler_key{null_key + 1}, UINT32_MAX}) {
    ASSERT_TRUE(send_request(requests_, k, 3));
    EXPECT_TRUE(lane_->serve_one());
    EXPECT_EQ(next_reply().kind, record_kind::reply_unknown);
  }
}

TEST_F(responders, send_the_first_error_of_a_handler) {
  ASSERT_TRUE(send_request(requests_, fail_key, 3));
  EXPECT_TRUE(lane_->serve_one());
  const record_view reply = next_reply();
  ASSERT_EQ(reply.kind, record_kind::reply_error);
  EXPECT_EQ(body_of(reply), bytes_of(std::uint32_t{4}) + bytes_of(std::uint32_t{4}) + "typetext");
  EXPECT_FALSE(next_reply());
}

TEST_F(responders, cut_errors_to_what_fits_a_record) {
  ASSERT_TRUE(send_request(requests_, long_error_key, 3));
  EXPECT_TRUE(lane_->serve_one());
  const record_view reply = next_reply();
  ASSERT_EQ(reply.kind, record_kind::reply_error);
  const std::uint32_t most = record_limit(ring_size) - reply_body;
  EXPECT_EQ(body_of(reply), bytes_of(most / 4) + bytes_of(most / 2) + std::string(most / 4, 't') +
                                std::string(most / 2, 'x'));
}

// ---- replies that find no space -----------------------------------------------------------------

TEST_F(responders, keep_replies_until_there_is_space) {
  std::vector<std::string> sent;
  for (int i = 0; !lane_->blocked(); ++i) {
    ASSERT_LT(i, 1000);
    sent.push_back(std::string(200, static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(send_request(requests_, echo_key, 3, sent.back()));
    ASSERT_TRUE(lane_->serve_one());
  }
  ASSERT_TRUE(send_request(requests_, echo_key, 3, "behind"));
  EXPECT_FALSE(lane_->serve_one()) << "replies stay in order";
  EXPECT_FALSE(lane_->flush());
  EXPECT_EQ(seen.size(), sent.size());

  EXPECT_EQ(body_of(next_reply()), sent.front());
  for (std::size_t i = 1; i + 1 < sent.size(); ++i)
    EXPECT_EQ(body_of(next_reply()), sent[i]);
  EXPECT_FALSE(next_reply()) << "the last one waits";
  EXPECT_TRUE(lane_->flush());
  EXPECT_FALSE(lane_->blocked());
  EXPECT_EQ(body_of(next_reply()), sent.back());
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_EQ(body_of(next_reply()), "behind");
}

TEST_F(responders, drop_kept_replies_when_they_are_abandoned) {
  while (!lane_->blocked()) {
    ASSERT_TRUE(send_request(requests_, echo_key, 3, std::string(200, 'a')));
    ASSERT_TRUE(lane_->serve_one());
  }
  lane_->abandon();
  EXPECT_TRUE(lane_->is_abandoned());
  EXPECT_TRUE(lane_->is_cut());
  EXPECT_TRUE(lane_->flush());
  EXPECT_FALSE(lane_->blocked());
  ASSERT_TRUE(send_request(requests_, echo_key, 3));
  EXPECT_FALSE(lane_->serve_one());
}

// ---- rendezvous requests and replies ------------------------------------------------------------

TEST_F(responders, read_long_arguments_where_they_lie) {
  alignas(16) const char text[] = "long arguments";
  const std::string where =
      bytes_of(rendezvous_body{reinterpret_cast<std::uintptr_t>(text), sizeof text});
  for (const bool is_shared : {true, false}) {
    engine_.via.memory.maps = is_shared;
    ASSERT_TRUE(send_request(requests_, echo_key, 3, where, record_kind::request_rendezvous));
    EXPECT_TRUE(lane_->serve_one());
    EXPECT_EQ(body_of(next_reply()), std::string(text, sizeof text));
  }
  ASSERT_TRUE(send_request(requests_, tell_key, 3, where, record_kind::request_rendezvous));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_EQ(body_of(next_reply()), "1 0 memory context");
}

TEST_F(responders, reply_to_invalid_long_requests_with_an_error) {
  alignas(16) const char text[] = "long arguments";
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  const std::string good = bytes_of(rendezvous_body{address, sizeof text});
  for (const std::string& bad :
       {good.substr(0, 15), good + "x", std::string(), bytes_of(rendezvous_body{address + 1, 4})}) {
    ASSERT_TRUE(send_request(requests_, echo_key, 3, bad, record_kind::request_rendezvous));
    EXPECT_TRUE(lane_->serve_one());
    const record_view reply = next_reply();
    ASSERT_EQ(reply.kind, record_kind::reply_error);
    EXPECT_NE(body_of(reply).find("malformed_message"), std::string::npos);
  }
  EXPECT_THAT(seen, IsEmpty());
  EXPECT_FALSE(lane_->is_cut()) << "the lane goes on";
}

TEST_F(responders, keep_long_replies_until_the_caller_has_read_them) {
  const std::uint64_t before = engine_->heap().bytes_in_use();
  ASSERT_TRUE(send_request(requests_, long_key, 3));
  EXPECT_TRUE(lane_->serve_one());
  const record_view reply = next_reply();
  ASSERT_EQ(reply.kind, record_kind::reply_rendezvous);
  EXPECT_EQ(body_of(reply).substr(8),
            bytes_of(rendezvous_body{reinterpret_cast<std::uintptr_t>(long_blocks[0]), 10'000}));
  const std::uint64_t kept = engine_->heap().bytes_in_use();
  EXPECT_GT(kept, before);

  const auto address = reinterpret_cast<std::uintptr_t>(long_blocks[0]);
  for (const std::uintptr_t wrong : {std::uintptr_t{0}, address + 8, UINTPTR_MAX})
    lane_->release_reply(wrong);
  EXPECT_EQ(engine_->heap().bytes_in_use(), kept) << "no such reply";
  ASSERT_TRUE(send_request(requests_, release_key, no_slot, bytes_of(address)));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_EQ(engine_->heap().bytes_in_use(), before);
  lane_->release_reply(address);
  EXPECT_EQ(engine_->heap().bytes_in_use(), before) << "twice";
}

TEST_F(responders, give_long_replies_back_that_nobody_has_read) {
  const std::uint64_t before = engine_->heap().bytes_in_use();
  ASSERT_TRUE(send_request(requests_, long_key, 3));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_GT(engine_->heap().bytes_in_use(), before);
  lane_.reset();
  EXPECT_EQ(engine_->heap().bytes_in_use(), before);
}

// ---- who serves ---------------------------------------------------------------------------------

TEST_F(responders, serve_inside_a_handler_after_its_release) {
  ASSERT_TRUE(send_request(requests_, inside_key, 1));
  ASSERT_TRUE(send_request(requests_, echo_key, 2, "inner"));
  EXPECT_TRUE(lane_->serve_one());
  EXPECT_THAT(seen, ElementsAre("waited", "inner", "served inside"));
  EXPECT_EQ(body_of(next_reply()), "inner");
  EXPECT_EQ(body_of(next_reply()), "outer");
  EXPECT_FALSE(lane_->serve_one());
}

// ---- the end of a lane --------------------------------------------------------------------------

TEST_F(responders, are_cut_when_the_peer_sends_garbage) {
  rings_.forge_request(commit_word(3, record_kind::request));
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_TRUE(lane_->is_cut());
  EXPECT_FALSE(lane_->is_abandoned()) << "the peer may still write to it";
  EXPECT_EQ(body_of(next_reply()), "it was sent bytes that are no request");
  EXPECT_EQ(next_reply().kind, record_kind::corrupt) << "its calls must end";
}

TEST_F(responders, are_cut_when_the_peer_sends_replies) {
  ASSERT_TRUE(send_record(requests_, record_kind::reply, 0, "12345678"));
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_TRUE(lane_->is_cut());
}

TEST_F(responders, are_cut_when_a_request_has_no_header) {
  ASSERT_TRUE(send_record(requests_, record_kind::request, 0, "1234"));
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_TRUE(lane_->is_cut());
}

TEST_F(responders, stay_when_their_connection_ends) {
  rings_.forge_request(commit_word(0, record_kind::lost));
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_FALSE(lane_->is_cut()) << "the opener closes it";
}

TEST_F(responders, read_nothing_more_once_cut) {
  ASSERT_TRUE(send_request(requests_, echo_key, 3));
  lane_->refuse_more("it is full");
  lane_->refuse_more("it is full");
  EXPECT_FALSE(lane_->serve_one());
  EXPECT_THAT(seen, IsEmpty());
}

// ---- bytes that do not move by themselves -------------------------------------------------------

TEST_F(responders, have_their_driver_move_bytes) {
  lane_->progress();
  EXPECT_EQ(driver_.progressed, 1);
  ASSERT_TRUE(send_request(requests_, echo_key, 3));
  lane_->progress();
  EXPECT_EQ(driver_.progressed, 1) << "there is a request to serve";
  lane_->arm();
  EXPECT_EQ(driver_.armed, 1);
}

} // namespace
} // namespace farcall::test::responder_test
