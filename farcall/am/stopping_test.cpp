// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/engine_test_support.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/base/error.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace farcall::test::stopping_test {
namespace {

using namespace am;

std::atomic<bool> gate_is_open{false};
std::atomic<int> runs{0};
std::atomic<int> begun{0};
std::atomic<int> told{0};
std::atomic<bool> may_return{false};
std::optional<deferred_reply> deferred;

/// Listener whose expectations are set in the handler that owns it.
class listening final : public stop_listener {
 public:
  explicit listening(std::function<void()> f) : f_(std::move(f)) {}
  void stop() noexcept override { f_(); }

 private:
  std::function<void()> f_;
};

void count(request_context& request) noexcept {
  request.release();
  ++runs;
}

void hold(request_context& request) noexcept {
  request.release();
  ++begun;
  (void)eventually([] { return gate_is_open.load(); });
}

/// Handler that runs until it is stopped.
void run_on(request_context& request) noexcept {
  request.release();
  const counted_ptr<stop_state> call(this_stack.stop);
  if (!call) return request.reply_error("error", "not to be stopped");
  ++begun;
  if (eventually([&] { return call->stop_requested(); })) ++told;
}

/// Handler like run_on(), with a listener that blocks the thread that calls it.
void run_on_and_keep(request_context& request) noexcept {
  request.release();
  const counted_ptr<stop_state> call(this_stack.stop);
  listening slow([] {
    ++told;
    (void)eventually([] { return may_return.load(); });
  });
  if (!call->add(slow)) return;
  ++begun;
  (void)eventually([] { return gate_is_open.load(); });
  call->remove(slow);
}

void reply_later(request_context& request) noexcept {
  request.release();
  deferred.emplace(request.defer());
  ++begun;
}

void sum(request_context& request) noexcept {
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < request.bytes(); ++i)
    all += static_cast<std::uint64_t>(request.arguments()[i]);
  std::byte* const to = request.reserve_reply(sizeof all);
  std::memcpy(to, &all, sizeof all);
  request.commit_reply(to, sizeof all);
}

enum key : handler_key {
  count_key = first_user_key,
  hold_key,
  run_on_key,
  keep_key,
  later_key,
  sum_key,
};

std::vector<handler_function> handlers() {
  return {&count, &hold, &run_on, &run_on_and_keep, &reply_later, &sum};
}

void read_word(pending_call& slot, reply_action action, reply_view what) {
  if (action == reply_action::destroy) return;
  std::uint64_t v = 0;
  std::memcpy(&v, what.data, std::min<std::size_t>(sizeof v, what.bytes));
  std::memcpy(slot.storage(), &v, sizeof v);
}

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class stopping : public ::testing::Test {
 protected:
  stopping() : engine_(handlers()) {
    gate_is_open = false;
    may_return = false;
    runs = 0;
    begun = 0;
    told = 0;
    engine_->workers().start(0);
  }
  ~stopping() override {
    gate_is_open = true;
    may_return = true;
    deferred.reset();
  }

  requester& lane() { return engine_->lane_to(0); }

  /// Sends a call of that kind, with a prefix if the kind has one.
  pending_call& send(handler_key k, record_kind kind, const void* body = nullptr,
                     std::uint32_t bytes = 0) {
    requester& l = lane();
    const bool is_stoppable =
        kind == record_kind::stoppable_request || kind == record_kind::stoppable_rendezvous;
    const stoppable_prefix prefix{engine_->next_stoppable_id(), 0};
    const std::uint32_t before = is_stoppable ? sizeof prefix : 0;
    l.guard().lock();
    pending_call& slot = l.take_call(&read_word);
    std::byte* to = l.try_reserve_request(before + bytes);
    if (to == nullptr) to = engine_->wait_for_space(l, before + bytes, deadline_after(wait_limit));
    if (is_stoppable) std::memcpy(to, &prefix, sizeof prefix);
    if (bytes != 0) std::memcpy(to + before, body, bytes);
    l.commit_request(to, before + bytes, k, &slot, 0, kind);
    if (is_stoppable) l.make_stoppable(slot, prefix.id);
    l.guard().unlock();
    return slot;
  }
  pending_call& call(handler_key k) { return send(k, record_kind::request); }
  pending_call& stoppable(handler_key k) { return send(k, record_kind::stoppable_request); }

  /// Waits for the call. False if it has failed.
  bool ends(pending_call& slot) {
    EXPECT_TRUE(engine_->wait(slot, deadline_after(wait_limit)));
    const bool is_well = !slot.failure();
    slot.source()->free_call(slot);
    return is_well;
  }

  bool knows(std::size_t n) {
    return eventually([&] { return engine_->stops().calls().size() == n; });
  }
  /// Expects that all replies have arrived, and that no stop is left in the table.
  void expect_nothing_left() {
    EXPECT_TRUE(ends(call(count_key)));
    EXPECT_EQ(lane().taken(), 0U);
    EXPECT_TRUE(knows(0));
  }

  lone_engine engine_;
};

TEST_F(stopping, calls_that_run_as_any_other) {
  EXPECT_TRUE(ends(stoppable(count_key)));
  EXPECT_EQ(runs, 1);
  expect_nothing_left();
}

TEST_F(stopping, calls_that_have_not_begun) {
  pending_call& first = call(hold_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  constexpr int many = 500;
  std::vector<pending_call*> waiting;
  for (int i = 0; i < 50; ++i)
    waiting.push_back(&stoppable(count_key));
  for (pending_call* each : waiting)
    each->source()->stop(*each);
  EXPECT_TRUE(knows(waiting.size()));
  gate_is_open = true;
  EXPECT_TRUE(ends(first));
  expect_nothing_left();
  EXPECT_EQ(runs, 1) << "that of the check itself";
  for (int i = 0; i < many; ++i)
    lane().stop(stoppable(count_key));
  expect_nothing_left();
}

TEST_F(stopping, calls_that_have_begun) {
  pending_call& slot = stoppable(run_on_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  slot.source()->stop(slot);
  EXPECT_TRUE(eventually([] { return told == 1; }));
  expect_nothing_left();
}

TEST_F(stopping, ordinary_calls_cannot_be_stopped) {
  EXPECT_FALSE(ends(call(run_on_key)));
  pending_call& slot = call(hold_key);
  slot.source()->stop(slot);
  gate_is_open = true;
  expect_nothing_left();
}

TEST_F(stopping, calls_that_have_replied) {
  pending_call& slot = stoppable(count_key);
  EXPECT_TRUE(engine_->wait(slot, deadline_after(wait_limit)));
  slot.source()->stop(slot);
  expect_nothing_left();
}

TEST_F(stopping, calls_whose_reply_comes_later) {
  pending_call& slot = stoppable(later_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  EXPECT_TRUE(ends(call(count_key))) << "the handler has returned";
  EXPECT_EQ(engine_->stops().calls().size(), 1U);
  slot.source()->stop(slot);
  deferred.reset();
  expect_nothing_left();
}

TEST_F(stopping, long_calls) {
  const std::vector<std::byte> ones(20'000, std::byte{1});
  const auto send_long = [&] {
    std::byte* const block = engine_->allocate_block(ones.size());
    std::memcpy(block, ones.data(), ones.size());
    const rendezvous_body where{reinterpret_cast<std::uintptr_t>(block), ones.size()};
    pending_call& slot = send(sum_key, record_kind::stoppable_rendezvous, &where, sizeof where);
    // Replies are not read before the block is attached.
    lane().attach_block(slot, block);
    return &slot;
  };
  pending_call* const run = send_long();
  EXPECT_TRUE(engine_->wait(*run, deadline_after(wait_limit)));
  std::uint64_t total = 0;
  std::memcpy(&total, run->storage(), sizeof total);
  EXPECT_EQ(total, ones.size());
  run->source()->free_call(*run);
  pending_call& first = call(hold_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  lane().stop(*send_long());
  EXPECT_TRUE(knows(1));
  gate_is_open = true;
  EXPECT_TRUE(ends(first));
  expect_nothing_left();
}

TEST_F(stopping, more_than_their_lane_takes) {
  pending_call& kept = stoppable(keep_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  kept.source()->stop(kept);
  EXPECT_TRUE(eventually([] { return told == 1; }));
  // The listener blocks the thread that stops calls, and the ring holds about a hundred stops.
  constexpr std::uint64_t first = 1'000'000;
  constexpr std::uint64_t many = 2000;
  for (std::uint64_t i = 0; i < many; ++i)
    engine_->stop_call(0, first + i);
  EXPECT_LT(engine_->stops().calls().size(), many);
  may_return = true;
  gate_is_open = true;
  EXPECT_TRUE(knows(many));
  for (std::uint64_t i = 0; i < many; ++i)
    engine_->forget_call(0, first + i);
  engine_->drain(deadline_after(wait_limit));
  expect_nothing_left();
}

TEST_F(stopping, tells_calls_of_nodes_that_fail) {
  pending_call& slot = stoppable(run_on_key);
  EXPECT_TRUE(eventually([] { return begun == 1; }));
  engine_->fail(0, "it has gone");
  EXPECT_TRUE(eventually([] { return told == 1; }));
  EXPECT_FALSE(ends(slot));
  // The node has failed, so this sends nothing.
  engine_->stop_call(0, 1);
  engine_->drain(deadline_after(wait_limit));
  EXPECT_TRUE(knows(0));
}

TEST_F(stopping, bytes_that_are_no_stop) {
  const std::array<std::uint64_t, 2> unknown_action{77, 1};
  EXPECT_TRUE(ends(
      send(stop_call_key, record_kind::request, unknown_action.data(), sizeof unknown_action)));
  EXPECT_TRUE(ends(send(stop_call_key, record_kind::request, unknown_action.data(), 8)));
  expect_nothing_left();
}

TEST_F(stopping, calls_without_an_id) {
  requester& l = lane();
  l.guard().lock();
  pending_call& slot = l.take_call(&read_word);
  std::byte* const to = l.try_reserve_request(8);
  ASSERT_NE(to, nullptr);
  l.commit_request(to, 8, count_key, &slot, 0, record_kind::stoppable_request);
  l.guard().unlock();
  EXPECT_FALSE(ends(slot)) << "the lane is cut";
  EXPECT_EQ(runs, 0);
}

TEST_F(stopping, races_with_the_reply) {
  for (int round = 0; round < 3000; ++round) {
    pending_call& slot = stoppable(count_key);
    for (int i = round % 64; i > 0; --i)
      spin_pause();
    slot.source()->stop(slot);
  }
  expect_nothing_left();
}

} // namespace
} // namespace farcall::test::stopping_test
