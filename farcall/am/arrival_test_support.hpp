// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/am/requester_test_support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

/// Support for tests of lanes that a peer opens to an engine whose threads the test starts.
namespace farcall::test {

/// A doorbell in the range of lanes with their own workers.
inline constexpr std::uint32_t own_doorbell = 50;

/// Handlers that reply with the thread on which they run.
namespace thread_handlers {

inline void thread_of(am::request_context& request) noexcept {
  const auto id = static_cast<std::uint64_t>(::gettid());
  std::byte* to = request.reserve_reply(sizeof id);
  std::memcpy(to, &id, sizeof id);
  request.commit_reply(to, sizeof id);
}

inline std::atomic<bool> gate_is_open{false};

inline void hold(am::request_context& request) noexcept {
  while (!gate_is_open)
    std::this_thread::yield();
  thread_of(request);
}

/// Sends a reply of about half the largest record.
inline void reply_much(am::request_context& request) noexcept {
  std::byte* to = request.reserve_reply(500);
  std::memset(to, 'x', 500);
  request.commit_reply(to, 500);
}

enum key : am::handler_key { thread_key = am::first_user_key, hold_key, much_key };

inline std::vector<am::handler_function> all() { return {&thread_of, &hold, &reply_much}; }

} // namespace thread_handlers

/// A lane that a peer has opened to the engine, from the peer's side.
struct arrived_lane {
  ring_pair rings;
  outbox requests = rings.opener().out;
  inbox replies = rings.opener().in;
  std::uint64_t id = 0;

  /// Reads the replies that have arrived: for each, the thread that gave it.
  std::vector<std::string> take_replies() {
    std::vector<std::string> all;
    for (record_view r = peek(replies); r.kind == record_kind::reply; r = peek(replies)) {
      all.push_back(body_of(r));
      release(replies, r);
    }
    return all;
  }
  /// Returns the next reply, once another thread has given it.
  std::string wait_for_reply() {
    while (!peek(replies))
      std::this_thread::yield();
    const record_view r = peek(replies);
    std::string body = body_of(r);
    release(replies, r);
    return body;
  }
};

/// An engine to which peers open lanes.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class engine_with_arrivals : public ::testing::Test {
 protected:
  engine_with_arrivals() { thread_handlers::gate_is_open = false; }
  ~engine_with_arrivals() override { thread_handlers::gate_is_open = true; }

  arrived_lane& arrive(std::uint32_t worker = 0, bool own_worker = false, node_id from = peer_id) {
    lanes_.push_back(std::make_unique<arrived_lane>());
    endpoint c = lanes_.back()->rings.server();
    c.peer = from;
    c.worker = worker;
    c.own_worker = own_worker;
    lanes_.back()->id = engine_.via.arrive(c);
    return *lanes_.back();
  }

  /// Serves the requests that have arrived, then returns, because the engine stops.
  void serve_what_is_there() {
    engine_->workers().stop();
    engine_->workers().serve(0);
  }

  static std::string this_thread() { return bytes_of(static_cast<std::uint64_t>(::gettid())); }

  std::vector<std::unique_ptr<arrived_lane>> lanes_;
  idle_engine engine_{thread_handlers::all()};
};

} // namespace farcall::test
