// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/error.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace farcall::am {
namespace {

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Returns the options with defaults for values that each engine needs.
engine_options complete(engine_options o) {
  // Register this process for process-wide barriers first, because workers that share lanes need
  // them.
  register_for_barriers();
  if (!o.counters) o.counters = std::make_shared<counter_segment>();
  return o;
}

} // namespace

engine::engine(engine_options o)
    : client(o.self, next_serial(), o.context), options_(complete(std::move(o))),
      handlers_(options_.handlers, options_.recorder != nullptr),
      doorbells_(options_.doorbells, options_.workers),
      peers_(self_, options_.nodes, std::move(options_.meet)),
      lanes_(*this, options_, peers_, doorbells_, local_doorbell_),
      acceptor_(*this, options_, doorbells_),
      workers_(*this, options_, doorbells_, acceptor_.mutex()),
      waiter_(*this, options_, local_doorbell_), settling_(*this), stops_(*this) {
  watch_forks();
  live_clients::add(*this);
}

void engine::after_fork_in_child() noexcept {
  is_forked_ = true;
  cached_ = {};
  workers_.after_fork_in_child();
  waiter_.after_fork_in_child();
}

engine::~engine() {
  live_clients::remove(*this);
  unwatch_forks();
  workers_.stop();
  workers_.join();
  // Destroy the single-lane workers before the worker pool, because deferred replies that are given
  // while these workers' lanes exist use the worker pool.
  acceptor_.drop_lane_workers();
}

std::byte* engine::allocate_block(std::uint64_t bytes) {
  try {
    return heap().allocate(bytes);
  } catch (const out_of_memory& e) {
    throw out_of_memory(node_text(options_.self) + ": " + e.what(), options_.self);
  }
}

void engine::fail(node_id node, const std::string& why) {
  // Run the continuations on the completion thread, because the failure detector, which calls this
  // function, must not wait for a continuation.
  other_thread().take(end_calls_of(peers_.fail(node, why)));
}

continuation_list engine::end_calls_of(const std::vector<node_id>& failed) {
  for (const node_id node : failed)
    peers_.end_copies_of(node);
  continuation_list due;
  lanes_.end_calls_to(failed, due);
  acceptor_.cut(failed);
  stops_.tell_calls_of(failed, due);
  workers_.notify();
  doorbells_.notify_lanes();
  notify(local_doorbell_);
  waiter_.signal_completion();
  return due;
}

bool engine::shut_down(const std::string& why, time_point deadline) {
  // Run the continuations on the completion thread, because a continuation may never return.
  other_thread().take(end_calls_of(peers_.fail_all(why)));
  workers_.stop();
  if (!workers_.join(deadline)) return false;
  stops_.end();
  return waiter_.completions().stop(deadline);
}

} // namespace farcall::am
