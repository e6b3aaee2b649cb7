// SPDX-License-Identifier: Apache-2.0

// Tests a worker on an emulated device, at the level of records, also with faulty devices and
// hosts.

#include <farcall/am/message.hpp>
#include <farcall/base/error.hpp>
#include <farcall/gpu/transport/cuda.hpp>
#include <farcall/gpu/worker.hpp>
#include <farcall/gpu/worker_on_threads.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>

namespace farcall::am::worker_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::uint32_t ring_bytes = 4096;
constexpr handler_key add_key = 5;
constexpr handler_key long_key = 6;
constexpr handler_key fail_key = 7;
constexpr handler_key launch_key = 9;

void add(device_request& r) {
  std::array<std::uint32_t, 2> values{};
  if (r.bytes < sizeof values) return r.fail("too short");
  std::memcpy(values.data(), r.arguments, sizeof values);
  const std::uint32_t sum = values[0] + values[1];
  std::memcpy(r.reply_of(sizeof sum), &sum, sizeof sum);
}
/// Replies with its arguments, of any length.
void give_back(device_request& r) {
  if (std::byte* const to = r.reply_of(r.bytes)) {
    std::memcpy(to, r.arguments, r.bytes);
  } else {
    r.fail("too long");
  }
}
void fail(device_request& r) { r.fail(std::string(1000, 'x').c_str()); }

const char* end_at_once(const cuda::launch_plan& plan) {
  cuda::store_release(plan.done, plan.done_value);
  return nullptr;
}

template <class F>
bool eventually(F done) {
  const time_point deadline = clock::now() + 30s;
  while (!done()) {
    if (clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Workers whose teams have so many threads.
class device_worker : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  cuda::options options() {
    cuda::emulated_options e;
    e.executor = device_worker_on_threads();
    e.threads = GetParam();
    e.faults = faults_;
    e.memory_bytes = 1 << 20;
    cuda::options o;
    o.ring_bytes = ring_bytes;
    o.doorbells = doorbells_;
    o.idle = 1ms;
    o.device = cuda::make_emulated_device(e);
    o.program.handlers.resize(8);
    o.program.handlers[fence_like_] = static_cast<std::uint64_t>(device_code_address::nothing);
    o.program.handlers[add_key] = reinterpret_cast<std::uintptr_t>(&add);
    o.program.handlers[long_key] = reinterpret_cast<std::uintptr_t>(&give_back);
    o.program.handlers[fail_key] = reinterpret_cast<std::uintptr_t>(&fail);
    o.program.launch_of = [](const std::byte* record, std::uint32_t, cuda::launch_plan& plan) {
      plan.arguments = record;
      return reinterpret_cast<const request_header*>(record)->key == launch_key ? &end_at_once
                                                                                : nullptr;
    };
    return o;
  }

  void begin() {
    device_ = cuda::make(options());
    lane_ = device_->open(1, {});
  }

  void send(handler_key key, std::span<const std::byte> arguments, std::uint32_t slot) {
    send_on(lane_, key, arguments, slot);
  }
  static void send_on(endpoint& lane, handler_key key, std::span<const std::byte> arguments,
                      std::uint32_t slot) {
    const auto bytes = static_cast<std::uint32_t>(request_body + arguments.size());
    std::byte* record = nullptr;
    ASSERT_TRUE(eventually([&] {
      lane.driver->progress();
      return (record = try_reserve(lane.out, bytes)) != nullptr;
    }));
    const request_header header{{0, slot}, key, 0};
    std::memcpy(record + 4, reinterpret_cast<const std::byte*>(&header) + 4, sizeof header - 4);
    if (!arguments.empty()) std::memcpy(record + request_body, arguments.data(), arguments.size());
    commit(lane.out, record, bytes, record_kind::request);
  }
  void send_sum(std::uint32_t a, std::uint32_t b, std::uint32_t slot) {
    const std::array values{a, b};
    send(add_key, std::as_bytes(std::span(values)), slot);
  }

  struct reply {
    record_kind kind = record_kind::none;
    std::uint32_t slot = 0;
    std::vector<std::byte> body;
  };
  reply receive() { return receive_on(lane_); }
  static reply receive_on(endpoint& lane) {
    record_view record;
    EXPECT_TRUE(eventually([&] {
      lane.driver->progress();
      return static_cast<bool>(record = peek(lane.in));
    }));
    reply a;
    if (!record) return a;
    a.kind = record.kind;
    std::memcpy(&a.slot, record.data + 4, sizeof a.slot);
    a.body.assign(record.data + reply_body, record.data + record.bytes);
    release(lane.in, record);
    return a;
  }

  /// Sends records of that length, each with other bytes, and expects them back.
  void expect_given_back(std::size_t bytes, std::uint32_t rounds) {
    std::vector<std::byte> sent(bytes);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < bytes; ++i)
        sent[i] = static_cast<std::byte>(i * 7 + round);
      send(long_key, sent, round);
      const reply a = receive();
      ASSERT_EQ(a.kind, record_kind::reply);
      ASSERT_EQ(a.slot, round);
      ASSERT_EQ(a.body, sent) << bytes;
    }
  }

  static constexpr handler_key fence_like_ = 1;
  std::array<doorbell, 8> doorbells_;
  std::shared_ptr<cuda::emulated_faults> faults_ = std::make_shared<cuda::emulated_faults>();
  std::unique_ptr<cuda::cuda_transport> device_;
  endpoint lane_;
};

TEST_P(device_worker, replies_to_requests_in_order) {
  begin();
  for (std::uint32_t round = 0; round < 300; ++round) {
    for (std::uint32_t i = 0; i < 10; ++i)
      send_sum(round, i, i);
    for (std::uint32_t i = 0; i < 10; ++i) {
      const reply a = receive();
      ASSERT_EQ(a.kind, record_kind::reply);
      ASSERT_EQ(a.slot, i);
      std::uint32_t sum = 0;
      ASSERT_EQ(a.body.size(), sizeof sum);
      std::memcpy(&sum, a.body.data(), sizeof sum);
      ASSERT_EQ(sum, round + i);
    }
  }
}

TEST_P(device_worker, passes_rendezvous_records_both_ways) {
  begin();
  // A quarter ring, header included, is the longest request; the reply's header is shorter.
  for (const std::size_t bytes : {239U, 240U, 241U, 247U, 248U, 249U, 500U, 1008U}) {
    expect_given_back(bytes, 40);
  }
}

TEST_P(device_worker, says_that_it_does_not_know_a_handler) {
  begin();
  for (const handler_key key : {0U, 2U, 8U, 1'000'000U, UINT32_MAX}) {
    send(key, {}, 77);
    const reply a = receive();
    EXPECT_EQ(a.kind, record_kind::reply_unknown);
    EXPECT_EQ(a.slot, 77U);
  }
  send(fence_like_, {}, 3);
  EXPECT_EQ(receive().kind, record_kind::reply);
}

TEST_P(device_worker, cuts_long_texts_of_errors) {
  begin();
  send(fail_key, {}, 1);
  const reply a = receive();
  EXPECT_EQ(a.kind, record_kind::reply_error);
  std::array<std::uint32_t, 2> lengths{};
  ASSERT_GE(a.body.size(), sizeof lengths);
  std::memcpy(lengths.data(), a.body.data(), sizeof lengths);
  EXPECT_EQ(a.body.size(), sizeof lengths + lengths[0] + lengths[1]);
  const auto* text = reinterpret_cast<const char*>(a.body.data()) + sizeof lengths;
  EXPECT_EQ(std::string(text, lengths[0]), "farcall::device_error");
  EXPECT_EQ(std::string(text + lengths[0], lengths[1]), std::string(lengths[1], 'x'));
}

TEST_P(device_worker, does_not_reply_to_posts) {
  begin();
  for (int i = 0; i < 1000; ++i)
    send_sum(1, 2, no_slot);
  send_sum(1, 2, 9);
  EXPECT_EQ(receive().slot, 9U);
}

// While no replies are taken, the worker stops taking requests; it continues when they are.
TEST_P(device_worker, waits_for_space_for_its_replies) {
  begin();
  std::uint32_t sent = 0;
  for (std::byte* space = nullptr; (space = try_reserve(lane_.out, 24)) != nullptr; ++sent) {
    const request_header header{{0, sent}, add_key, 0};
    std::memcpy(space + 4, reinterpret_cast<const std::byte*>(&header) + 4, sizeof header - 4);
    std::memset(space + request_body, 0, 8);
    commit(lane_.out, space, 24, record_kind::request);
    std::this_thread::yield();
    if (sent > 10'000) break;
  }
  EXPECT_GT(sent, cuda::ring_slots);
  EXPECT_LT(sent, 10'000U);
  for (std::uint32_t i = 0; i < sent; ++i)
    ASSERT_EQ(receive().slot, i);
}

TEST_P(device_worker, takes_messages_sent_before_a_late_start) {
  begin();
  send_sum(1, 1, 1);
  EXPECT_EQ(receive().slot, 1U);
  ASSERT_TRUE(device_->quiesce(clock::now() + 10s));
  faults_->start_delay_us = 20'000;
  for (std::uint32_t i = 0; i < 50; ++i)
    send_sum(i, i, i);
  for (std::uint32_t i = 0; i < 50; ++i)
    EXPECT_EQ(receive().slot, i);
}

// A bus guarantees whole words only.
TEST_P(device_worker, may_have_its_words_arrive_in_any_order) {
  begin();
  faults_->is_scattering = true;
  for (const std::size_t bytes : {0U, 3U, 8U, 100U, 239U, 248U, 249U, 1000U}) {
    expect_given_back(bytes, 200);
  }
}

TEST_P(device_worker, lets_launches_overtake_other_lanes) {
  begin();
  endpoint other = device_->open(1, {});
  faults_->launch_delay_us = 3000;
  for (std::uint32_t i = 0; i < 20; ++i) {
    send_on(lane_, launch_key, {}, i);
    send_on(other, launch_key, {}, 100 + i);
  }
  // In order within each lane.
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(receive_on(other).slot, 100 + i);
  for (std::uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(receive_on(lane_).slot, i);
}

TEST_P(device_worker, that_cannot_be_started_first_is_an_error) {
  faults_->starts_that_fail = 1;
  try {
    begin();
    ADD_FAILURE() << "it was started";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), HasSubstr("could not be started"));
  }
}

TEST_P(device_worker, that_cannot_be_restarted_is_a_failed_device) {
  begin();
  send_sum(1, 1, 1);
  EXPECT_EQ(receive().slot, 1U);
  ASSERT_TRUE(device_->quiesce(clock::now() + 10s));
  faults_->starts_that_fail = 1;
  send_sum(1, 2, 3);
  pollfd failed{device_->failure_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&failed, 1, 10'000), 1);
  EXPECT_THAT(device_->failure(), HasSubstr("could not be started"));
}

TEST_P(device_worker, that_writes_invalid_records_is_a_failed_device) {
  for (const std::uint32_t word :
       {commit_word(0, record_kind::reply), commit_word(7, record_kind::reply),
        commit_word(ring_bytes / 4 + 1, record_kind::reply),
        commit_word(max_record, record_kind::reply)}) {
    begin();
    const std::array<std::uint32_t, 4> nonsense{word, 1, 0, 0};
    cuda::slot& next = device_->lanes_down()[0]->up[0];
    cuda::store_slot(next, nonsense.data(), 4, cuda::phase_of(0));
    EXPECT_TRUE(eventually([this] {
      lane_.driver->progress();
      return !device_->failure().empty();
    }));
    EXPECT_THAT(device_->failure(), HasSubstr("record that is none"));
    EXPECT_FALSE(peek(lane_.in));
  }
}

TEST_P(device_worker, reports_why_copies_fail) {
  begin();
  const std::uint64_t memory = device_->memory()->allocate(100, 8, no_deadline);
  std::array<std::byte, 100> bytes{};
  rma_engine& m = *device_->rma_engine();
  EXPECT_TRUE(m.put(1, memory, bytes.data(), bytes.size(), no_deadline));
  faults_->copies_that_fail = 1;
  EXPECT_FALSE(m.put(1, memory, bytes.data(), bytes.size(), no_deadline));
  EXPECT_THAT(m.failure(1, memory, 100), HasSubstr("a copy has failed"));
  EXPECT_TRUE(m.get(1, memory, bytes.data(), bytes.size(), no_deadline));
  EXPECT_FALSE(m.get(1, memory - (1 << 21), bytes.data(), bytes.size(), no_deadline));
  EXPECT_THAT(m.failure(1, memory - (1 << 21), 100), HasSubstr("no memory"));
}

// A flooded lane must not keep the others from being served.
TEST_P(device_worker, serves_all_its_lanes) {
  begin();
  std::vector<endpoint> others;
  while (others.size() + 1 < cuda::lanes_per_worker)
    others.push_back(device_->open(1, {}));
  std::atomic<bool> is_over{false};
  std::thread flood([&] {
    while (!is_over.load())
      send_sum(1, 2, no_slot);
  });
  for (std::uint32_t round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < others.size(); ++i)
      send_on(others[i], fence_like_, {}, 100 * round + i);
    for (std::uint32_t i = 0; i < others.size(); ++i)
      EXPECT_EQ(receive_on(others[i]).slot, 100 * round + i);
  }
  is_over = true;
  flood.join();
}

TEST_P(device_worker, serves_lanes_that_keep_being_opened_and_closed) {
  begin();
  for (std::uint32_t round = 0; round < 200; ++round) {
    endpoint other = device_->open(1, {});
    send_on(other, fence_like_, {}, round);
    if (round % 3 == 0) send_sum(round, 1, round);
    EXPECT_EQ(receive_on(other).slot, round);
    device_->close(other);
    if (round % 3 == 0) {
      EXPECT_EQ(receive().slot, round);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(threads, device_worker, ::testing::Values(1, 3, 32));

// ---- a worker, and a host that the test emulates

class lone_worker : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr handler_key count_key = 0;

  lone_worker() : meeting_(GetParam()), state_(device_worker_on_threads().state_bytes) {
    setup_.control = &memory_->control;
    setup_.first_lane = reinterpret_cast<std::byte*>(&memory_->lane);
    setup_.lane_stride = sizeof memory_->lane;
    setup_.host_calls = &memory_->host_calls.memory;
    setup_.handlers = handlers_.data();
    setup_.handler_count = static_cast<std::uint32_t>(handlers_.size());
    setup_.lanes = 1; // one is enough
    setup_.ring_bytes = ring_bytes;
    setup_.idle_ns = 0;
    setup_.lifetime_ns = UINT64_MAX;
  }

  /// Runs the worker while `host` runs, which must make it leave.
  template <class Host>
  void run_beside(Host host) {
    cuda::worker_control& control = memory_->control;
    cuda::store_release(&control.state, static_cast<std::uint32_t>(cuda::worker_state::running));
    std::vector<std::thread> team;
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank) {
      team.emplace_back([this, rank] {
        cuda::thread_team t(meeting_, state_.data(), 1, rank, GetParam());
        cuda::thread_team::set_current(&t);
        device_worker_on_threads().run(t, setup_, state_.data());
      });
    }
    host(control);
    for (std::thread& t : team)
      t.join();
  }
  void open_lane() { cuda::store_release(&memory_->control.lanes, 1U); }
  /// Sends a request that wants no reply.
  void send_count() {
    const std::array<std::uint32_t, 4> words{commit_word(request_body, record_kind::request),
                                             no_slot, count_key, 0};
    cuda::store_slot(memory_->lane.memory.down[cuda::slot_at(sent_)], words.data(), words.size(),
                     cuda::phase_of(sent_));
    ++sent_;
  }
  [[nodiscard]] bool has_space() {
    return sent_ - cuda::load_acquire(&memory_->lane.memory.down_consumed) < cuda::ring_slots;
  }
  static cuda::worker_state state_of(const cuda::worker_control& control) {
    return static_cast<cuda::worker_state>(cuda::load_acquire(&control.state));
  }

  struct lane_with_rings {
    cuda::lane_memory memory;
    std::byte rings[2 * ring_bytes];
  };
  struct shared_memory {
    cuda::worker_control control{};
    lane_with_rings lane{};
    lane_with_rings host_calls{};
  };
  static inline std::atomic<std::uint64_t> counted{0};
  static void count(device_request& /*request*/) { ++counted; }

  std::unique_ptr<shared_memory> memory_ = std::make_unique<shared_memory>();
  std::vector<std::uint64_t> handlers_{reinterpret_cast<std::uintptr_t>(&count)};
  cuda::barrier meeting_;
  std::vector<std::byte> state_;
  cuda::worker_setup setup_{};
  std::uint64_t sent_ = 0;
};

// Either the sender sees that the worker leaves, or the worker sees the message, even in a lane
// that was just opened.
TEST_P(lone_worker, sees_messages_in_lanes_opened_while_it_leaves) {
  const int rounds = GetParam() == 1 ? 5000 : 300;
  std::uint64_t seen = 0;
  for (int round = 0; round < rounds; ++round) {
    counted = 0;
    cuda::store_release(&memory_->control.lanes, 0U);
    cuda::worker_state then{};
    run_beside([&](const cuda::worker_control& control) {
      for (int i = 0; i < round % 1000; ++i)
        spin_pause();
      open_lane();
      send_count();
      cuda::full_fence();
      then = state_of(control);
    });
    ASSERT_EQ(state_of(memory_->control), cuda::worker_state::left);
    if (then == cuda::worker_state::running) {
      ++seen;
      ASSERT_EQ(counted.load(), 1U) << "after " << round << " rounds";
    }
    if (counted.load() == 0) --sent_; // it waits for the next worker
    // Otherwise the slot would be read as a new message.
    if (counted.load() == 0) memory_->lane.memory.down[cuda::slot_at(sent_)] = {};
  }
  EXPECT_NE(seen, 0U) << "no round has shown anything";
}

// Otherwise operations that need an idle device would wait for ever.
TEST_P(lone_worker, leaves_after_a_while_when_it_is_never_idle) {
  setup_.idle_ns = UINT64_MAX;
  setup_.lifetime_ns = 1'000'000;
  open_lane();
  run_beside([&](const cuda::worker_control& control) {
    const time_point deadline = clock::now() + 30s;
    while (state_of(control) != cuda::worker_state::left && clock::now() < deadline) {
      if (has_space()) send_count();
    }
    EXPECT_EQ(state_of(control), cuda::worker_state::left);
    cuda::store_release(&memory_->control.command,
                        static_cast<std::uint32_t>(cuda::worker_command::leave));
  });
}

INSTANTIATE_TEST_SUITE_P(threads, lone_worker, ::testing::Values(1, 3, 32));

} // namespace
} // namespace farcall::am::worker_test
