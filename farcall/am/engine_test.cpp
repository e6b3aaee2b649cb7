// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/engine_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test::engine_test {
namespace {

using namespace am;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
constexpr std::chrono::seconds wait_limit{60};

time_point soon() { return clock::now() + milliseconds(20); }
time_point in_good_time() { return clock::now() + wait_limit; }

// ---- handlers -----------------------------------------------------------------------------------

std::atomic<bool> gate_is_open{false};
std::atomic<int> runs{0};

std::uint64_t argument_of(const request_context& request) {
  std::uint64_t v = 0;
  if (request.bytes() == sizeof v) std::memcpy(&v, request.arguments(), sizeof v);
  return v;
}

void reply_word(request_context& request, std::uint64_t v) {
  std::byte* to = request.reserve_reply(sizeof v);
  std::memcpy(to, &v, sizeof v);
  request.commit_reply(to, sizeof v);
}

void increment(request_context& request) noexcept {
  ++runs;
  reply_word(request, argument_of(request) + 1);
}

void hold(request_context& request) noexcept {
  const std::uint64_t v = argument_of(request);
  request.release();
  while (!gate_is_open)
    std::this_thread::yield();
  reply_word(request, v);
}

void stay_silent(request_context& request) noexcept {
  ++runs;
  (void)request;
}

void nap(request_context& request) noexcept {
  std::this_thread::sleep_for(milliseconds(50));
  reply_word(request, static_cast<std::uint64_t>(++runs));
}

void fail_here(request_context& request) noexcept {
  request.reply_error("some_type", "some text");
  request.reply_error("another", "replies count once");
}

void context_of(request_context& request) noexcept {
  reply_word(request, reinterpret_cast<std::uintptr_t>(request.context()));
}

void thread_of(request_context& request) noexcept {
  reply_word(request, static_cast<std::uint64_t>(::gettid()));
}

void size_of(request_context& request) noexcept {
  const std::uint64_t v = request.bytes();
  request.release();
  request.release();
  reply_word(request, v);
}

const int layer_above = 0;
const auto* const some_context = reinterpret_cast<const call_context*>(&layer_above);

enum key : handler_key {
  increment_key = first_user_key,
  hold_key,
  silent_key,
  nap_key,
  fail_key,
  context_key,
  thread_key,
  size_key,
  null_key,
  end_of_keys,
};

std::vector<handler_function> handlers() {
  return {&increment,  &hold,      &stay_silent, &nap,   &fail_here,
          &context_of, &thread_of, &size_of,     nullptr};
}

// ---- the calling side ---------------------------------------------------------------------------

void read_word(pending_call& slot, reply_action action, reply_view what) {
  if (action == reply_action::destroy) return;
  std::uint64_t v = 0;
  std::memcpy(&v, what.data, std::min<std::size_t>(sizeof v, what.bytes));
  std::memcpy(slot.storage(), &v, sizeof v);
}

std::uint64_t word_in(pending_call& slot) {
  std::uint64_t v = 0;
  std::memcpy(&v, slot.storage(), sizeof v);
  return v;
}

class continue_with final : public continuation {
 public:
  explicit continue_with(std::function<void()> f) : f_(std::move(f)) {}
  void run() noexcept override {
    f_();
    delete this;
  }

 private:
  std::function<void()> f_;
};

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class engines : public ::testing::Test {
 protected:
  engines() : engine_(handlers(), 1, some_context) {
    gate_is_open = false;
    runs = 0;
    engine_->workers().start(0);
  }
  ~engines() override { gate_is_open = true; }

  pending_call& call(requester& l, handler_key k, std::uint64_t v,
                     record_kind kind = record_kind::request) {
    l.guard().lock();
    pending_call& slot = l.take_call(&read_word);
    std::byte* to = l.try_reserve_request(sizeof v);
    if (to == nullptr) to = engine_->wait_for_space(l, sizeof v, in_good_time());
    if (to == nullptr) {
      l.fail_call(slot, l.failure());
    } else {
      std::memcpy(to, &v, sizeof v);
      l.commit_request(to, sizeof v, k, &slot, 0, kind);
    }
    l.guard().unlock();
    return slot;
  }
  pending_call& call(handler_key k, std::uint64_t v) { return call(engine_->lane_to(0), k, v); }

  std::uint64_t result(pending_call& slot) {
    EXPECT_TRUE(engine_->wait(slot, in_good_time()));
    if (slot.failure()) {
      const std::exception_ptr why = slot.failure();
      slot.source()->free_call(slot);
      std::rethrow_exception(why);
    }
    const std::uint64_t v = word_in(slot);
    slot.source()->free_call(slot);
    return v;
  }

  std::string failure_text(pending_call& slot) {
    try {
      (void)result(slot);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  }

  lone_engine engine_;
};

TEST_F(engines, run_handlers) {
  EXPECT_EQ(result(call(increment_key, 41)), 42U);
  EXPECT_EQ(result(call(context_key, 0)), reinterpret_cast<std::uintptr_t>(some_context));
  EXPECT_EQ(result(call(size_key, 0)), 8U);
  EXPECT_EQ(runs, 1);
}

TEST_F(engines, keys_that_no_handler_has) {
  for (const handler_key k :
       {handler_key{fence_key + 1}, handler_key{first_user_key - 1}, handler_key{null_key},
        handler_key{end_of_keys}, handler_key{end_of_keys + 1}, handler_key{1} << 31, UINT32_MAX}) {
    EXPECT_THROW((void)result(call(k, 1)), unknown_function) << k;
    EXPECT_EQ(engine_->handlers().find(k), nullptr) << k;
  }
  EXPECT_THAT(failure_text(call(UINT32_MAX, 1)), HasSubstr("no such function"));
  EXPECT_EQ(result(call(increment_key, 1)), 2U) << "the lane does not work any more";
}

TEST_F(engines, keys_that_no_handler_has_without_reply) {
  requester& l = engine_->lane_to(0);
  for (int i = 0; i < 100; ++i) {
    l.guard().lock();
    std::byte* to = l.try_reserve_request(0);
    if (to == nullptr) to = engine_->wait_for_space(l, 0, in_good_time());
    ASSERT_NE(to, nullptr);
    l.commit_request(to, 0, UINT32_MAX, nullptr);
    l.guard().unlock();
  }
  EXPECT_EQ(result(call(increment_key, 1)), 2U);
}

TEST_F(engines, silent_handlers_are_replied_for) {
  EXPECT_EQ(result(call(silent_key, 7)), 0U);
  EXPECT_EQ(runs, 1);
}

TEST_F(engines, errors_of_handlers) {
  try {
    (void)result(call(fail_key, 0));
    FAIL();
  } catch (const remote_error& e) {
    EXPECT_EQ(e.type_name(), "some_type");
    EXPECT_EQ(e.text(), "some text");
    EXPECT_EQ(e.node(), 0U);
  }
}

TEST_F(engines, long_calls_with_impossible_bodies) {
  // A body of 8 bytes is too short for an address and a size.
  EXPECT_THROW(
      (void)result(call(engine_->lane_to(0), size_key, 1, record_kind::request_rendezvous)),
      remote_error);
  EXPECT_EQ(result(call(increment_key, 1)), 2U);
}

TEST_F(engines, long_calls_with_bodies_at_odd_addresses) {
  alignas(16) static const std::byte bytes[64] = {};
  requester& l = engine_->lane_to(0);
  for (const std::uint64_t offset : {0U, 1U, 8U}) {
    const rendezvous_body where{reinterpret_cast<std::uintptr_t>(bytes) + offset, 32};
    l.guard().lock();
    pending_call& slot = l.take_call(&read_word);
    std::byte* to = l.try_reserve_request(sizeof where);
    ASSERT_NE(to, nullptr);
    std::memcpy(to, &where, sizeof where);
    l.commit_request(to, sizeof where, size_key, &slot, 0, record_kind::request_rendezvous);
    l.guard().unlock();
    if (offset == 0) {
      EXPECT_EQ(result(slot), 32U);
    } else {
      EXPECT_THAT(failure_text(slot), HasSubstr("odd address"));
    }
  }
}

TEST_F(engines, release_of_replies_that_do_not_exist) {
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{64}, UINT64_MAX}) {
    EXPECT_EQ(result(call(release_reply_key, address)), 0U);
  }
  EXPECT_EQ(result(call(increment_key, 1)), 2U);
}

TEST_F(engines, requests_stay_in_order) {
  std::vector<pending_call*> slots;
  for (std::uint64_t i = 0; i < 5000; ++i)
    slots.push_back(&call(increment_key, i));
  for (std::uint64_t i = 0; i < 5000; ++i)
    ASSERT_EQ(result(*slots[i]), i + 1);
  EXPECT_EQ(engine_->lane_to(0).taken(), 0U);
}

// ---- waiting ------------------------------------------------------------------------------------

TEST_F(engines, wait_until_a_deadline) {
  pending_call& slot = call(hold_key, 5);
  const auto begin = clock::now();
  EXPECT_FALSE(engine_->wait(slot, begin + milliseconds(30)));
  EXPECT_GE(clock::now() - begin, milliseconds(30));
  EXPECT_FALSE(engine_->wait(slot, begin)) << "a deadline that has passed";
  EXPECT_FALSE(slot.ready());
  gate_is_open = true;
  EXPECT_TRUE(engine_->wait(slot, in_good_time()));
  EXPECT_TRUE(engine_->wait(slot, begin)) << "what is ready needs no time";
  EXPECT_EQ(result(slot), 5U);
}

TEST_F(engines, poll_does_not_wait) {
  pending_call& slot = call(hold_key, 5);
  for (int i = 0; i < 100; ++i)
    engine_->poll(slot);
  EXPECT_FALSE(slot.ready());
  gate_is_open = true;
  while (!slot.ready())
    engine_->poll(slot);
  EXPECT_EQ(result(slot), 5U);
}

TEST_F(engines, wait_for_space_until_a_deadline) {
  pending_call& holding = call(hold_key, 1);
  requester& l = engine_->lane_to(0);
  std::vector<pending_call*> slots;
  l.guard().lock();
  for (;;) {
    std::byte* to = l.try_reserve_request(100);
    if (to == nullptr) break;
    ASSERT_LT(slots.size(), 100U) << "the lane is never full";
    slots.push_back(&l.take_call(&read_word));
    l.commit_request(to, 100, size_key, slots.back());
  }
  EXPECT_THROW((void)engine_->wait_for_space(l, 100, soon()), timeout);
  // The guard was released, so that other threads can lock it.
  std::thread([&] {
    l.guard().lock();
    l.guard().unlock();
  }).join();

  l.guard().lock();
  gate_is_open = true;
  std::byte* to = engine_->wait_for_space(l, 100, in_good_time());
  EXPECT_NE(to, nullptr);
  slots.push_back(&l.take_call(&read_word));
  l.commit_request(to, 100, size_key, slots.back());
  l.guard().unlock();
  EXPECT_EQ(result(holding), 1U);
  for (pending_call* slot : slots)
    EXPECT_EQ(result(*slot), 100U);
}

TEST_F(engines, wait_for_space_ends_when_the_lane_fails) {
  (void)call(hold_key, 1);
  requester& l = engine_->lane_to(0);
  std::thread failing;
  l.guard().lock();
  while (std::byte* to = l.try_reserve_request(100))
    l.commit_request(to, 100, silent_key, nullptr);
  failing = std::thread([&] {
    std::this_thread::sleep_for(milliseconds(20));
    engine_->fail(0, "gone while a caller waits for space");
  });
  EXPECT_EQ(engine_->wait_for_space(l, 100, in_good_time()), nullptr);
  EXPECT_TRUE(l.failure());
  l.guard().unlock();
  failing.join();
  gate_is_open = true;
}

TEST_F(engines, abandoned_slots_are_used_again) {
  requester& l = engine_->lane_to(0);
  for (int i = 0; i < 100; ++i)
    l.abandon(call(hold_key, 1));
  EXPECT_EQ(l.taken(), 100U);
  gate_is_open = true;
  EXPECT_EQ(result(call(increment_key, 1)), 2U);
  EXPECT_EQ(l.taken(), 0U);
  pending_call& ready = call(increment_key, 1);
  EXPECT_TRUE(engine_->wait(ready, in_good_time()));
  l.abandon(ready);
  EXPECT_EQ(l.taken(), 0U);
}

// ---- continuations and local events -------------------------------------------------------------

TEST_F(engines, continuations_run_once) {
  std::atomic<int> ran{0};
  pending_call& slot = call(hold_key, 5);
  slot.attach(new continue_with([&] { ++ran; }));
  engine_->poll(slot);
  EXPECT_EQ(ran, 0);
  gate_is_open = true;
  EXPECT_EQ(result(slot), 5U);
  EXPECT_EQ(ran, 1);

  pending_call& ready = call(increment_key, 1);
  EXPECT_TRUE(engine_->wait(ready, in_good_time()));
  ready.attach(new continue_with([&] { ++ran; }));
  EXPECT_EQ(ran, 2) << "attached to something ready, it runs at once";
  (void)result(ready);
}

TEST_F(engines, continuations_can_be_detached) {
  std::atomic<int> ran{0};
  pending_call& slot = call(hold_key, 5);
  continue_with taken_back([&] { ++ran; });
  slot.attach(&taken_back);
  EXPECT_TRUE(slot.detach(&taken_back));
  EXPECT_FALSE(slot.detach(&taken_back));
  gate_is_open = true;
  EXPECT_EQ(result(slot), 5U);
  EXPECT_EQ(ran, 0);
}

TEST_F(engines, local_events_wake_waiting_threads) {
  auto* event = new local_completion(&*engine_);
  EXPECT_FALSE(event->ready());
  EXPECT_FALSE(engine_->wait(*event, soon()));
  std::thread completing([&] {
    std::this_thread::sleep_for(milliseconds(30));
    event->complete(nullptr);
  });
  EXPECT_TRUE(engine_->wait(*event, in_good_time()));
  completing.join();
  EXPECT_TRUE(event->ready());
  EXPECT_EQ(event->failure(), nullptr);
  event->release();
}

TEST_F(engines, local_events_with_failures_and_continuations) {
  auto* event = new local_completion(&*engine_);
  std::atomic<int> ran{0};
  event->attach(new continue_with([&] { ++ran; }));
  EXPECT_EQ(ran, 0);
  event->complete(std::make_exception_ptr(error("local failure")));
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(engine_->wait(*event, soon()));
  EXPECT_THROW(std::rethrow_exception(event->failure()), error);
  event->attach(new continue_with([&] { ++ran; }));
  EXPECT_EQ(ran, 2);
  event->release();
}

TEST_F(engines, local_events_without_an_engine) {
  auto* event = new local_completion(nullptr);
  EXPECT_EQ(event->owner(), nullptr);
  event->bind(*engine_);
  EXPECT_EQ(event->owner(), &*engine_);
  event->complete(nullptr);
  EXPECT_TRUE(engine_->wait(*event, soon()));
  event->release();
}

TEST_F(engines, local_events_let_waiting_threads_help) {
  class helped final : public local_completion {
   public:
    using local_completion::local_completion;
    bool help(time_point /*until*/) noexcept override {
      if (left_ == 0) return false;
      if (--left_ == 0) complete(nullptr);
      return true;
    }

   private:
    int left_ = 1000;
  };
  auto* event = new helped(&*engine_);
  EXPECT_TRUE(engine_->wait(*event, in_good_time()));
  event->release();
}

TEST_F(engines, waiting_for_a_local_event_takes_replies_in) {
  auto* event = new local_completion(&*engine_);
  pending_call& slot = call(hold_key, 5);
  slot.attach(new continue_with([&] { event->complete(nullptr); }));
  std::thread opening([] {
    std::this_thread::sleep_for(milliseconds(30));
    gate_is_open = true;
  });
  EXPECT_TRUE(engine_->wait(*event, in_good_time()));
  opening.join();
  event->release();
  EXPECT_EQ(result(slot), 5U);
}

TEST_F(engines, local_events_may_depend_on_a_new_lane) {
  // Another thread opens the lane of the awaited reply after this one has fallen asleep.
  auto* event = new local_completion(&*engine_);
  std::thread calling([&] {
    std::this_thread::sleep_for(milliseconds(30));
    pending_call& slot = call(increment_key, 5);
    slot.attach(new continue_with([&] { event->complete(nullptr); }));
  });
  const auto begin = clock::now();
  EXPECT_TRUE(engine_->wait(*event, begin + std::chrono::seconds(20)));
  EXPECT_LT(clock::now() - begin, std::chrono::seconds(15)) << "only the deadline woke the thread";
  calling.join();
  event->release();
}

// ---- lanes and threads --------------------------------------------------------------------------

TEST_F(engines, threads_have_lanes_of_their_own) {
  requester* const mine = &engine_->lane_to(0);
  EXPECT_EQ(&engine_->lane_to(0), mine);
  std::thread([&] { EXPECT_NE(&engine_->lane_to(0), mine); }).join();
}

TEST_F(engines, lanes_of_ended_threads_are_used_again) {
  std::set<requester*> seen;
  for (int i = 0; i < 200; ++i) {
    std::thread([&] {
      requester& l = engine_->lane_to(0);
      seen.insert(&l);
      EXPECT_EQ(result(call(l, increment_key, 1)), 2U);
    }).join();
  }
  EXPECT_EQ(seen.size(), 1U);
}

TEST_F(engines, nodes_that_do_not_exist) {
  EXPECT_THROW((void)engine_->lane_to(1), error);
  EXPECT_THROW((void)engine_->lane_to(no_node), error);
  EXPECT_THROW((void)engine_->open_lane(1), error);
  EXPECT_FALSE(engine_->has_failed(1));
  EXPECT_EQ(engine_->failure_of(7), nullptr);
  EXPECT_EQ(engine_->rma_engine_for(7), nullptr);
}

TEST_F(engines, opened_lanes_have_workers_of_their_own) {
  requester& a = engine_->open_lane(0);
  requester& b = engine_->open_lane(0);
  const std::uint64_t one = result(call(a, thread_key, 0));
  EXPECT_EQ(result(call(a, thread_key, 0)), one);
  EXPECT_NE(result(call(b, thread_key, 0)), one);
  EXPECT_NE(result(call(thread_key, 0)), one);
  pending_call& holding = call(a, hold_key, 3);
  EXPECT_EQ(result(call(b, increment_key, 1)), 2U);
  engine_->retire(a); // with a call under way
  gate_is_open = true;
  EXPECT_EQ(result(holding), 3U);
  engine_->retire(b);
  for (int i = 0; i < 100; ++i) {
    requester& c = engine_->open_lane(0);
    EXPECT_EQ(result(call(c, increment_key, 1)), 2U);
    engine_->retire(c);
  }
}

TEST_F(engines, lanes_used_by_several_threads) {
  requester& l = engine_->lane_to(0);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 1000; ++i)
        wrong += result(call(l, increment_key, t + i)) != t + i + 1;
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(l.taken(), 0U);
}

// ---- failure ------------------------------------------------------------------------------------

TEST_F(engines, failure_ends_what_is_pending) {
  requester& l = engine_->lane_to(0);
  std::vector<pending_call*> slots;
  slots.push_back(&call(hold_key, 1));
  for (std::uint64_t i = 0; i < 30; ++i)
    slots.push_back(&call(increment_key, i));
  std::atomic<int> ran{0};
  slots[3]->attach(new continue_with([&] { ++ran; }));
  std::thread failing([&] {
    std::this_thread::sleep_for(milliseconds(20));
    engine_->fail(0, "it has gone");
    engine_->fail(0, "it has gone again");
  });
  EXPECT_TRUE(engine_->wait(*slots[0], in_good_time()));
  failing.join();
  // Continuations run on the completion thread.
  while (ran == 0)
    std::this_thread::yield();
  EXPECT_EQ(ran, 1);
  for (pending_call* slot : slots) {
    ASSERT_TRUE(slot->ready());
    try {
      (void)result(*slot);
      ADD_FAILURE() << "a value";
    } catch (const node_failed& e) {
      EXPECT_STREQ(e.what(), "it has gone");
      EXPECT_EQ(e.node(), 0U);
    }
  }
  EXPECT_EQ(l.taken(), 0U);
  EXPECT_TRUE(engine_->has_failed(0));
  EXPECT_THROW(std::rethrow_exception(engine_->failure_of(0)), node_failed);
  // From now on, all calls to the node fail at once.
  EXPECT_THROW((void)result(call(increment_key, 1)), node_failed);
  EXPECT_THROW((void)engine_->open_lane(0), node_failed);
  gate_is_open = true;
}

TEST_F(engines, replies_that_came_before_the_failure_count) {
  pending_call& slot = call(increment_key, 1);
  while (!slot.source()->has_reply() && !slot.ready())
    std::this_thread::yield();
  engine_->fail(0, "too late to matter");
  EXPECT_EQ(result(slot), 2U);
}

TEST(engine_lives, shut_down_ends_what_is_pending) {
  gate_is_open = true;
  lone_engine e(handlers());
  // Without a worker, the calls get no reply.
  requester& l = e->lane_to(0);
  l.guard().lock();
  pending_call& slot = l.take_call(&read_word);
  std::byte* to = l.try_reserve_request(0);
  ASSERT_NE(to, nullptr);
  l.commit_request(to, 0, increment_key, &slot);
  l.guard().unlock();
  EXPECT_FALSE(e->wait(slot, soon()));
  e->shut_down("over");
  EXPECT_TRUE(e->wait(slot, soon()));
  EXPECT_THROW(std::rethrow_exception(slot.failure()), node_failed);
  l.free_call(slot);
}

TEST(engine_lives, a_thread_that_waits_serves_nothing) {
  lone_engine e(handlers());
  runs = 0;
  requester& l = e->lane_to(0);
  l.guard().lock();
  pending_call& slot = l.take_call(&read_word);
  std::byte* to = l.try_reserve_request(0);
  ASSERT_NE(to, nullptr);
  l.commit_request(to, 0, nap_key, &slot);
  l.guard().unlock();
  EXPECT_FALSE(e->wait(slot, soon()));
  EXPECT_EQ(runs, 0);
  l.abandon(slot);
}

} // namespace
} // namespace farcall::test::engine_test
