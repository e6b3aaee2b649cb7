// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/requester.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace farcall::test::requester_test {
namespace {

using namespace am;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr handler_key some_key = 20;
constexpr std::uint64_t ring_size = 64U << 10;

int destroyed = 0;

/// Copies the bytes of a reply to the pending call's storage, as many as fit.
void read_bytes(pending_call& slot, reply_action action, reply_view what) {
  if (action == reply_action::destroy) {
    ++destroyed;
    return;
  }
  std::memcpy(slot.storage(), what.data, std::min<std::size_t>(what.bytes, call_storage));
}

void throw_when_read(pending_call& /*slot*/, reply_action action, reply_view /*what*/) {
  if (action == reply_action::read) throw std::runtime_error("it cannot be read");
}

std::string text_in(pending_call& slot, std::size_t bytes) {
  return {reinterpret_cast<const char*>(slot.storage()), bytes};
}

std::string error_body(std::uint32_t type_bytes, std::uint32_t text_bytes,
                       const std::string& texts) {
  return bytes_of(type_bytes) + bytes_of(text_bytes) + texts;
}

class counting final : public continuation {
 public:
  void run() noexcept override { ++runs; }
  int runs = 0;
};

/// A lane whose peer is the test, which reads requests_ and writes replies_.
class requesters : public ::testing::Test {
 protected:
  requesters()
      : lane_(std::make_unique<requester>(*engine_, opener(), engine_.doorbell_of(0))),
        requests_(rings_.server().in), replies_(rings_.server().out) {
    destroyed = 0;
  }

  endpoint opener() {
    endpoint c = rings_.opener();
    c.driver = &driver_;
    return c;
  }

  /// Sends a call, which is then pending.
  pending_call& call(const std::string& arguments = {}, reply_reader read = &read_bytes) {
    lane_->guard().lock();
    pending_call& slot = lane_->take_call(read);
    const auto bytes = static_cast<std::uint32_t>(arguments.size());
    std::byte* to = lane_->try_reserve_request(bytes);
    EXPECT_NE(to, nullptr);
    std::memcpy(to, arguments.data(), bytes);
    lane_->commit_request(to, bytes, some_key, &slot);
    lane_->guard().unlock();
    return slot;
  }

  std::size_t pump() {
    lane_->guard().lock();
    const std::size_t taken = lane_->pump();
    const continuation_list due = lane_->take_due();
    lane_->guard().unlock();
    run_continuations(due);
    return taken;
  }

  /// Sends a reply of that kind and body to a new call; returns the call's failure.
  std::exception_ptr failure_by(record_kind kind, const std::string& body) {
    pending_call& slot = call();
    EXPECT_TRUE(send_record(replies_, kind, slot.index(), body));
    EXPECT_EQ(pump(), 1U);
    EXPECT_TRUE(slot.ready());
    const std::exception_ptr failure = slot.failure();
    lane_->free_call(slot);
    return failure;
  }

  record_view next_request() {
    const record_view record = peek(requests_);
    if (record) release(requests_, record);
    return record;
  }

  idle_engine engine_;
  fake_driver driver_;
  ring_pair rings_{ring_size};
  std::unique_ptr<requester> lane_;
  inbox requests_;
  outbox replies_;
};

// ---- requests -----------------------------------------------------------------------------------

TEST_F(requesters, send_requests_as_the_wire_format_says) {
  const pending_call& slot = call("arguments");
  const record_view record = peek(requests_);
  ASSERT_EQ(record.kind, record_kind::request);
  EXPECT_EQ(record.bytes, request_body + 9);
  EXPECT_EQ(slot_of(record), slot.index());
  EXPECT_EQ(body_of(record),
            bytes_of(some_key) + bytes_of(std::uint32_t{0}) + std::string("arguments"));
}

TEST_F(requesters, send_requests_that_want_no_reply) {
  std::byte* to = lane_->try_reserve_request(4);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, "post", 4);
  lane_->commit_request(to, 4, some_key, nullptr, 4711, record_kind::request_rendezvous);
  const record_view record = peek(requests_);
  ASSERT_EQ(record.kind, record_kind::request_rendezvous);
  EXPECT_EQ(slot_of(record), no_slot);
  EXPECT_EQ(body_of(record), bytes_of(some_key) + bytes_of(std::uint32_t{4711}) + "post");
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, are_quiet_without_requests_in_flight) {
  EXPECT_TRUE(lane_->is_quiet());
  pending_call& first = call();
  pending_call& second = call();
  EXPECT_FALSE(lane_->is_quiet());
  ASSERT_TRUE(send_record(replies_, record_kind::reply, first.index(), "one"));
  EXPECT_EQ(pump(), 1U);
  EXPECT_FALSE(lane_->is_quiet());
  ASSERT_TRUE(send_record(replies_, record_kind::reply, second.index(), "two"));
  EXPECT_EQ(pump(), 1U);
  EXPECT_TRUE(lane_->is_quiet());
  lane_->free_call(first);
  lane_->free_call(second);
  EXPECT_TRUE(lane_->is_quiet());
  lane_->commit_request(lane_->try_reserve_request(0), 0, some_key, nullptr);
  EXPECT_FALSE(lane_->is_quiet()) << "nobody knows when a posted call has ended";
}

TEST_F(requesters, take_arguments_up_to_a_quarter_of_the_ring) {
  const std::uint32_t most = lane_->max_arguments();
  EXPECT_EQ(most, ring_size / 4 - request_body);
  std::byte* to = lane_->try_reserve_request(most);
  ASSERT_NE(to, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(to) % 16, 0U);
  lane_->commit_request(to, most, some_key, nullptr);
  EXPECT_EQ(peek(requests_).bytes, ring_size / 4);
}

TEST_F(requesters, have_no_space_until_the_peer_has_read) {
  int sent = 0;
  while (std::byte* to = lane_->try_reserve_request(1000)) {
    lane_->commit_request(to, 1000, some_key, nullptr);
    ASSERT_LT(++sent, 1000);
  }
  EXPECT_GT(sent, 10);
  while (next_request()) {
  }
  EXPECT_NE(lane_->try_reserve_request(1000), nullptr);
}

// ---- replies ------------------------------------------------------------------------------------

TEST_F(requesters, read_replies_into_their_slots) {
  pending_call& first = call();
  pending_call& second = call();
  EXPECT_NE(first.index(), second.index());
  EXPECT_FALSE(lane_->has_reply());
  ASSERT_TRUE(send_record(replies_, record_kind::reply, second.index(), "two"));
  EXPECT_TRUE(lane_->has_reply());
  EXPECT_EQ(pump(), 1U);
  EXPECT_FALSE(lane_->has_reply());
  EXPECT_FALSE(first.ready());
  ASSERT_TRUE(second.ready());
  EXPECT_EQ(text_in(second, 3), "two");
  EXPECT_EQ(lane_->taken(), 2U);
  lane_->free_call(second);
  EXPECT_EQ(lane_->taken(), 1U);
}

TEST_F(requesters, find_the_slot_of_each_of_many_calls) {
  constexpr std::uint32_t calls = 1000; // several chunks of pending calls
  std::vector<pending_call*> slots;
  for (std::uint32_t i = 0; i < calls; ++i)
    slots.push_back(&call());
  for (std::uint32_t i = calls; i-- > 0;)
    ASSERT_TRUE(send_record(replies_, record_kind::reply, slots[i]->index(), bytes_of(i)));
  std::size_t taken = 0;
  while (const std::size_t n = pump()) {
    EXPECT_LE(n, 256U) << "one stream of replies must not keep the guard from others";
    taken += n;
  }
  EXPECT_EQ(taken, calls);
  for (std::uint32_t i = 0; i < calls; ++i) {
    ASSERT_TRUE(slots[i]->ready());
    ASSERT_EQ(text_in(*slots[i], 4), bytes_of(i));
    lane_->free_call(*slots[i]);
  }
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, use_slots_again) {
  pending_call& slot = call();
  ASSERT_TRUE(send_record(replies_, record_kind::reply_unknown, slot.index()));
  EXPECT_EQ(pump(), 1U);
  EXPECT_TRUE(slot.failure());
  lane_->free_call(slot);
  pending_call& again = call();
  EXPECT_EQ(&again, &slot);
  EXPECT_FALSE(again.ready());
  EXPECT_FALSE(again.failure());
}

TEST_F(requesters, ignore_replies_to_calls_that_were_not_made) {
  pending_call& slot = call();
  for (const std::uint32_t index : {slot.index() + 1, 255U, 256U, 1'000'000U, no_slot})
    ASSERT_TRUE(send_record(replies_, record_kind::reply, index, "forged"));
  EXPECT_EQ(pump(), 5U);
  EXPECT_FALSE(slot.ready());
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index(), "first"));
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index(), "again"));
  EXPECT_EQ(pump(), 2U);
  EXPECT_EQ(text_in(slot, 5), "first");
}

TEST_F(requesters, fail_after_too_many_stray_replies) {
  pending_call& slot = call();
  for (int i = 0; i < 200 && !slot.ready(); ++i) {
    ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index() + 1, "forged"));
    (void)pump();
  }
  ASSERT_TRUE(slot.ready());
  EXPECT_THROW(std::rethrow_exception(slot.failure()), node_failed);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index() + 1, "forged"));
  EXPECT_EQ(pump(), 0U);
}

TEST_F(requesters, run_continuations_after_the_reply) {
  pending_call& slot = call();
  counting then;
  slot.attach(&then);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index()));
  lane_->guard().lock();
  EXPECT_EQ(lane_->pump(), 1U);
  EXPECT_EQ(then.runs, 0) << "the guard is held";
  const continuation_list due = lane_->take_due();
  EXPECT_TRUE(lane_->take_due().is_empty());
  lane_->guard().unlock();
  run_continuations(due);
  EXPECT_EQ(then.runs, 1);
}

// ---- replies that are failures ------------------------------------------------------------------

TEST_F(requesters, pass_errors_of_handlers_on) {
  try {
    std::rethrow_exception(failure_by(record_kind::reply_error, error_body(4, 5, "typetext!")));
  } catch (const remote_error& e) {
    EXPECT_EQ(e.node(), peer_id);
    EXPECT_EQ(e.type_name(), "type");
    EXPECT_THAT(e.what(), HasSubstr("text!"));
  }
}

TEST_F(requesters, report_that_the_peer_was_out_of_memory) {
  const std::string type = "farcall::out_of_memory";
  EXPECT_THROW(std::rethrow_exception(failure_by(
                   record_kind::reply_error,
                   error_body(static_cast<std::uint32_t>(type.size()), 4, type + "full"))),
               out_of_memory);
}

TEST_F(requesters, refuse_errors_that_are_cut_short) {
  for (const std::string& body :
       {std::string(), std::string("1234567"), error_body(1, 0, ""), error_body(0, 1, ""),
        error_body(2, 2, "abc"), error_body(UINT32_MAX, 1, "abc"), error_body(1, UINT32_MAX, "abc"),
        error_body(UINT32_MAX, UINT32_MAX, "abc")}) {
    EXPECT_THROW(std::rethrow_exception(failure_by(record_kind::reply_error, body)),
                 malformed_message);
  }
}

TEST_F(requesters, tell_that_the_peer_lacks_the_function) {
  EXPECT_THROW(std::rethrow_exception(failure_by(record_kind::reply_unknown, "")),
               unknown_function);
}

TEST_F(requesters, refuse_records_that_are_no_replies) {
  EXPECT_THROW(std::rethrow_exception(failure_by(record_kind::request, "12345678")),
               malformed_message);
}

TEST_F(requesters, keep_what_reading_a_reply_has_thrown) {
  pending_call& slot = call({}, &throw_when_read);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index(), "x"));
  EXPECT_EQ(pump(), 1U);
  ASSERT_TRUE(slot.ready());
  EXPECT_THROW(std::rethrow_exception(slot.failure()), std::runtime_error);
}

TEST(reading_from_peers, that_have_died_says_so) {
  idle_engine engine;
  engine.via.memory.maps = false;
  engine.via.memory.works = false;
  EXPECT_THROW((void)engine->peers().read_remote(peer_id, rendezvous_alignment, 8),
               malformed_message);
  engine->fail(peer_id, "it has died");
  EXPECT_THROW((void)engine->peers().read_remote(peer_id, rendezvous_alignment, 8), node_failed);
}

// ---- rendezvous replies -------------------------------------------------------------------------

/// Returns the rest of a rendezvous reply after the 8 bytes of the header: 8 unused bytes, address,
/// size.
std::string long_reply(const void* address, std::uint64_t bytes) {
  return std::string(8, '\0') +
         bytes_of(rendezvous_body{reinterpret_cast<std::uintptr_t>(address), bytes});
}

TEST_F(requesters, read_long_replies_where_they_lie_and_say_so) {
  alignas(16) const char text[] = "a long result";
  pending_call& slot = call();
  (void)next_request();
  ASSERT_TRUE(send_record(replies_, record_kind::reply_rendezvous, slot.index(),
                          long_reply(text, sizeof text)));
  EXPECT_EQ(pump(), 1U);
  EXPECT_FALSE(slot.failure());
  EXPECT_EQ(text_in(slot, sizeof text), std::string(text, sizeof text));
  const record_view record = next_request();
  ASSERT_EQ(record.kind, record_kind::request);
  EXPECT_EQ(slot_of(record), no_slot);
  EXPECT_EQ(body_of(record), bytes_of(release_reply_key) + bytes_of(std::uint32_t{0}) +
                                 bytes_of(reinterpret_cast<std::uintptr_t>(&text)));
  EXPECT_FALSE(next_request());
}

TEST_F(requesters, copy_long_replies_that_are_not_shared) {
  alignas(16) const char text[] = "a long result";
  engine_.via.memory.maps = false;
  pending_call& slot = call();
  ASSERT_TRUE(send_record(replies_, record_kind::reply_rendezvous, slot.index(),
                          long_reply(text, sizeof text)));
  EXPECT_EQ(pump(), 1U);
  EXPECT_FALSE(slot.failure());
  EXPECT_EQ(text_in(slot, sizeof text), std::string(text, sizeof text));
}

TEST_F(requesters, release_long_replies_that_cannot_be_read) {
  alignas(16) const char text[] = "a long result";
  engine_.via.memory.maps = false;
  engine_.via.memory.works = false;
  pending_call& slot = call();
  (void)next_request();
  ASSERT_TRUE(send_record(replies_, record_kind::reply_rendezvous, slot.index(),
                          long_reply(text, sizeof text)));
  EXPECT_EQ(pump(), 1U);
  EXPECT_THROW(std::rethrow_exception(slot.failure()), malformed_message);
  EXPECT_TRUE(next_request()) << "the peer keeps it otherwise";
}

TEST_F(requesters, refuse_long_replies_that_make_no_sense) {
  alignas(16) const char text[] = "a long result";
  EXPECT_THROW(
      std::rethrow_exception(failure_by(record_kind::reply_rendezvous, long_reply(text + 1, 4))),
      malformed_message);
  const std::string good = long_reply(text, sizeof text);
  EXPECT_THROW(std::rethrow_exception(
                   failure_by(record_kind::reply_rendezvous, good.substr(0, good.size() - 1))),
               malformed_message);
  EXPECT_THROW(std::rethrow_exception(failure_by(record_kind::reply_rendezvous, good + "x")),
               malformed_message);
}

TEST_F(requesters, release_long_replies_once_there_is_space) {
  alignas(16) const char text[] = "a long result";
  pending_call& slot = call();
  while (std::byte* to = lane_->try_reserve_request(0))
    lane_->commit_request(to, 0, some_key, nullptr);
  ASSERT_TRUE(send_record(replies_, record_kind::reply_rendezvous, slot.index(),
                          long_reply(text, sizeof text)));
  EXPECT_EQ(pump(), 1U);
  EXPECT_TRUE(slot.ready()) << "the reply need not wait";
  record_view last;
  while (const record_view record = next_request())
    last = record;
  EXPECT_EQ(last.bytes, request_body) << "nothing but the calls";
  EXPECT_EQ(pump(), 0U);
  const record_view released = next_request();
  EXPECT_EQ(released.bytes, request_body + sizeof(std::uint64_t));
}

// ---- memory of pending calls --------------------------------------------------------------------

TEST_F(requesters, refuse_replies_to_calls_whose_memory_was_given_back) {
  std::vector<pending_call*> many;
  for (int i = 0; i < 512; ++i)
    many.push_back(&lane_->take_call(&read_bytes));
  const std::uint32_t last = many.back()->index();
  for (pending_call* slot : many)
    lane_->return_call(*slot);
  const time_point start = clock::now();
  lane_->calls().trim(start);
  lane_->calls().trim(start + std::chrono::seconds(2));
  ASSERT_EQ(lane_->calls().capacity(), 256U);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, last));
  EXPECT_EQ(pump(), 1U);
  EXPECT_EQ(lane_->taken(), 0U);
  // The replies do not complete other calls, either.
  pending_call& other = call();
  ASSERT_LT(other.index(), 256U);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, other.index() + 256));
  EXPECT_EQ(pump(), 1U);
  EXPECT_FALSE(other.ready());
  ASSERT_TRUE(send_record(replies_, record_kind::reply, other.index()));
  EXPECT_EQ(pump(), 1U);
  EXPECT_TRUE(other.ready());
  lane_->free_call(other);
}

// ---- memory of arguments ------------------------------------------------------------------------

TEST_F(requesters, keep_the_block_of_arguments_until_the_reply) {
  const std::uint64_t before = engine_->heap().bytes_in_use();
  pending_call& slot = call();
  lane_->attach_block(slot, engine_->allocate_block(100));
  EXPECT_GT(engine_->heap().bytes_in_use(), before);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index()));
  EXPECT_EQ(pump(), 1U);
  EXPECT_EQ(engine_->heap().bytes_in_use(), before);
}

// ---- pending calls that nobody wants any more ---------------------------------------------------

TEST_F(requesters, drop_replies_to_abandoned_slots) {
  pending_call& slot = call();
  lane_->abandon(slot);
  EXPECT_EQ(lane_->taken(), 1U) << "the reply will come";
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index(), "late"));
  EXPECT_EQ(pump(), 1U);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, destroy_the_result_of_an_abandoned_ready_call) {
  pending_call& slot = call();
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index(), "soon"));
  EXPECT_EQ(pump(), 1U);
  EXPECT_EQ(destroyed, 0);
  lane_->abandon(slot);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, destroy_no_result_where_there_is_a_failure) {
  pending_call& early = call();
  lane_->abandon(early);
  ASSERT_TRUE(send_record(replies_, record_kind::reply_unknown, early.index()));
  EXPECT_EQ(pump(), 1U);
  pending_call& late = call();
  ASSERT_TRUE(send_record(replies_, record_kind::reply_unknown, late.index()));
  EXPECT_EQ(pump(), 1U);
  lane_->abandon(late);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, end_slots_that_were_not_sent) {
  lane_->guard().lock();
  pending_call& slot = lane_->take_call(&read_bytes);
  lane_->fail_call(slot, std::make_exception_ptr(error("never sent")));
  lane_->guard().unlock();
  ASSERT_TRUE(slot.ready());
  EXPECT_THROW(std::rethrow_exception(slot.failure()), error);
  lane_->free_call(slot);
  EXPECT_EQ(lane_->taken(), 0U);
}

TEST_F(requesters, count_the_slots_that_outlive_the_engine) {
  pending_call& slot = call();
  (void)call();
  EXPECT_EQ(slot.owner(), &*engine_);
  EXPECT_EQ(lane_->leave_engine(), 2U);
  EXPECT_EQ(slot.owner(), nullptr);
}

// ---- the end of a lane --------------------------------------------------------------------------

TEST_F(requesters, end_all_calls_when_they_fail) {
  pending_call& first = call();
  pending_call& second = call();
  counting then;
  second.attach(&then);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, first.index(), "came before"));
  EXPECT_EQ(pump(), 1U);
  lane_->guard().lock();
  lane_->fail(std::make_exception_ptr(node_failed("gone", peer_id)));
  lane_->fail(std::make_exception_ptr(error("another reason")));
  const continuation_list due = lane_->take_due();
  lane_->guard().unlock();
  run_continuations(due);
  EXPECT_EQ(then.runs, 1);
  EXPECT_FALSE(first.failure());
  EXPECT_THROW(std::rethrow_exception(second.failure()), node_failed);
  EXPECT_THROW(std::rethrow_exception(lane_->failure()), node_failed) << "the first reason counts";
  EXPECT_EQ(lane_->try_reserve_request(0), nullptr);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, second.index(), "too late"));
  EXPECT_EQ(pump(), 0U);
}

TEST_F(requesters, fail_when_the_peer_sends_garbage) {
  pending_call& slot = call();
  rings_.forge_reply(commit_word(3, record_kind::reply));
  EXPECT_TRUE(lane_->has_reply());
  EXPECT_EQ(pump(), 0U);
  EXPECT_FALSE(lane_->has_reply()) << "who waits for a reply of any lane would never sleep";
  ASSERT_TRUE(slot.ready());
  try {
    std::rethrow_exception(slot.failure());
  } catch (const node_failed& e) {
    EXPECT_EQ(e.node(), peer_id);
    EXPECT_THAT(e.what(), HasSubstr("no message"));
  }
  EXPECT_FALSE(lane_->is_lost());
}

TEST_F(requesters, fail_with_the_reason_of_a_refusal) {
  pending_call& slot = call();
  ASSERT_TRUE(send_record(replies_, record_kind::refusal, 0, "its process has no memory\x1b"));
  pump();
  ASSERT_TRUE(slot.ready());
  try {
    std::rethrow_exception(slot.failure());
  } catch (const node_failed& e) {
    EXPECT_EQ(e.node(), peer_id);
    EXPECT_THAT(e.what(), HasSubstr("has refused this lane: its process has no memory"));
    EXPECT_THAT(e.what(), Not(HasSubstr("\x1b"))) << "it may be a terminal's";
  }
  EXPECT_TRUE(lane_->is_lost()) << "the next call gets a lane of its own";
}

TEST_F(requesters, are_lost_when_their_connection_ends) {
  pending_call& slot = call();
  EXPECT_FALSE(lane_->is_lost());
  rings_.forge_reply(commit_word(0, record_kind::lost));
  EXPECT_TRUE(lane_->has_reply());
  EXPECT_EQ(pump(), 0U);
  EXPECT_TRUE(lane_->is_lost());
  EXPECT_FALSE(lane_->has_reply()) << "who waits for a reply of any lane would never sleep";
  EXPECT_THROW(std::rethrow_exception(slot.failure()), node_failed);
}

// ---- bytes that do not move by themselves -------------------------------------------------------

TEST_F(requesters, have_their_driver_move_bytes) {
  pending_call& slot = call();
  EXPECT_EQ(pump(), 0U);
  EXPECT_EQ(driver_.progressed, 1);
  ASSERT_TRUE(send_record(replies_, record_kind::reply, slot.index()));
  EXPECT_EQ(pump(), 1U);
  EXPECT_EQ(driver_.progressed, 1) << "there was a reply to take";
  lane_->arm();
  EXPECT_EQ(driver_.armed, 1);
}

} // namespace
} // namespace farcall::test::requester_test
