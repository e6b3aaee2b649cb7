// SPDX-License-Identifier: Apache-2.0
#include "job_network.hpp"

#include "message_bytes.hpp"
#include "process.hpp"

#include <farcall/async/message.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/copy/transfer.hpp>

#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace farcall::am2 {
namespace {

/// Logs that a malformed message of `node` is dropped.
[[gnu::cold]] void note_fault(int node, const char* fault) {
  // The log is never destroyed, because messages may arrive until the process ends.
  static log::limited_log& only = *new log::limited_log("more AM-2 messages were dropped");
  only.warning("AM-2: a message of process " + std::to_string(node) +
               " is malformed, and is dropped: " + fault);
}

std::span<const std::byte> payload_of(const void* payload, std::uint64_t bytes) noexcept {
  return {static_cast<const std::byte*>(payload), bytes};
}

} // namespace

void job_network::join(job made, bool has_progress_thread, process& to) {
  nodes_.clear();
  job_.emplace(std::move(made));
  to_ = &to;
  main_ = has_progress_thread ? std::thread::id() : std::this_thread::get_id();
  self_ = static_cast<int>(job_->rank());
  size_ = static_cast<int>(job_->size());
  for (node_id id = 0; id < job_->size(); ++id)
    nodes_.push_back(job_->node_at(id));
  is_near_.resize(nodes_.size());
  has_ended_.resize(nodes_.size());
  const node& here = nodes_[job_->rank()];
  set_message_handler<compact_message>(here, {&take_compact, &to});
  set_message_handler<message_header>(here, {&take_other, &to});
}

void job_network::barrier() noexcept {
  try {
    job_->barrier();
  } catch (const node_failed&) {
    fatal("a process has ended before the job has begun");
  } catch (const std::exception& e) {
    fatal("the processes of the job cannot begin together: %s", e.what());
  }
}

void job_network::take_compact(void* to, compact_message m, farcall::message& from) {
  process& p = *static_cast<process*>(to);
  p.network().note_arrival();
  p.deliver(static_cast<int>(from.source()), m, from.payload());
}

void job_network::take_other(void* to, message_header header, farcall::message& from) {
  process& p = *static_cast<process*>(to);
  p.network().note_arrival();
  const int node = static_cast<int>(from.source());
  message m;
  message_arguments arguments; // NOLINT(cppcoreguidelines-pro-type-member-init): unpack() fills it
  if (const char* const fault = unpack(header, from.payload(), m, arguments)) [[unlikely]] {
    note_fault(node, fault);
  } else {
    p.deliver(node, m);
  }
}

inline bool job_network::may_use(int node) noexcept {
  thread_state& t = process::thread();
  const auto at = static_cast<std::size_t>(node);
  return (at < t.used_nodes.size() && t.used_nodes[at] != 0) || may_open_lane(t, node);
}

bool job_network::may_open_lane(thread_state& t, int node) noexcept {
  if (t.running != 0) return false;
  const auto at = static_cast<std::size_t>(node);
  if (at >= t.used_nodes.size()) t.used_nodes.resize(at + 1);
  t.used_nodes[at] = 1;
  return true;
}

template <class Prefix, class Payload>
[[gnu::always_inline]] inline sending job_network::try_post(int node, const Prefix& prefix,
                                                            const Payload& payload) noexcept {
  const farcall::node& to = nodes_[static_cast<std::size_t>(node)];
  if (!may_use(node)) [[unlikely]]
    return sending::full;
  try {
    return try_post_message(to, prefix, payload) ? sending::sent : sending::full;
  } catch (const out_of_memory&) {
    // Report no_memory, so that the caller tries again later. Memory becomes free when earlier
    // messages have been received.
    return sending::no_memory;
  } catch (const std::exception& e) {
    if (!to.alive()) return sending::unreachable;
    fatal("a message to process %d cannot be sent: %s", node, e.what());
  }
}

sending job_network::try_send(int node, const message& m) noexcept {
  return try_post(node, m.header,
                  payload_in_place(packed_bytes_of(m), [&m](std::byte* to) { pack(m, to); }));
}

sending job_network::try_send(int node, const compact_message& m) noexcept {
  return try_post(node, m, std::span<const std::byte>());
}

sending job_network::try_send(int node, const compact_message& m, const void* payload,
                              std::uint64_t bytes) noexcept {
  return try_post(node, m, payload_of(payload, bytes));
}

void job_network::poll() noexcept {
  try {
    // Handlers can run without a fiber, because AM-2 handlers never wait.
    job_->progress_in_place();
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot poll: ") + e.what());
  }
}

void job_network::wake() noexcept {
  // Release pairs with the acquire exchange in is_woken(), so that the woken thread sees the
  // caller's earlier writes.
  is_woken_.store(true, std::memory_order_release);
  if (main_ == std::thread::id()) return;
  try {
    job_->notify();
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot wake a thread: ") + e.what());
  }
}

void job_network::look_for_ends() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  // Accesses are relaxed, because the time only selects the thread that checks the nodes.
  auto before = polled_.load(std::memory_order_relaxed);
  if (now - before < poll_interval ||
      !polled_.compare_exchange_strong(before, now, std::memory_order_relaxed))
    return;
  (void)look_at_nodes();
}

bool job_network::look_at_nodes() noexcept {
  const std::lock_guard guard(mutex_);
  bool has_notices = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (has_ended_[i] || nodes_[i].alive()) continue;
    has_ended_[i] = true;
    has_notices = true;
    to_->node_has_ended(static_cast<int>(i));
  }
  return has_notices;
}

void job_network::wait(std::chrono::nanoseconds most) noexcept {
  const std::uint64_t before = arrived_.load(std::memory_order_relaxed);
  unsigned asked = 0;
  try {
    (void)job_->wait_until(
        [&] {
          // wait_until() evaluates this condition in each iteration of its spin phase, and once
          // after each wake-up. A job of more than 4 processes checks the nodes only in every 64th
          // evaluation, because a check of many nodes takes long.
          return arrived_.load(std::memory_order_relaxed) != before || is_woken() ||
                 ((++asked % 64 == 1 || nodes_.size() <= 4) && look_at_nodes());
        },
        most);
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot wait: ") + e.what());
  }
  (void)look_at_nodes();
}

std::byte* job_network::map(int node, std::uint64_t address, std::size_t bytes) noexcept {
  try {
    return farcall::map(remote_span<std::byte>(static_cast<node_id>(node), address, bytes)).data();
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool job_network::put(int node, std::uint64_t address, const void* from,
                      std::size_t bytes) noexcept {
  if (std::this_thread::get_id() != main_) return false;
  try {
    // Use a message for a node on another machine, because a put over a network is not faster than
    // a message.
    nearness& is_near = is_near_[static_cast<std::size_t>(node)];
    if (is_near == nearness::unknown) {
      const bool is_here = nodes_[static_cast<std::size_t>(node)].description().transport == "shm";
      is_near = is_here ? nearness::near : nearness::far;
    }
    if (is_near == nearness::far) return false;
    put_sync(std::span(static_cast<const std::byte*>(from), bytes),
             remote_span<std::byte>(static_cast<node_id>(node), address, bytes));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void* job_network::allocate(std::size_t bytes) noexcept {
  if (!job_) return std::aligned_alloc(line_bytes, align_up(bytes, line_bytes));
  try {
    auto memory = nodes_[static_cast<std::size_t>(self_)].allocate<std::byte>(bytes);
    void* const at = memory.data();
    const std::lock_guard guard(mutex_);
    segments_.emplace(at, std::move(memory));
    return at;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void job_network::release(void* memory) noexcept {
  if (!job_) {
    std::free(memory);
    return;
  }
  const std::lock_guard guard(mutex_);
  segments_.erase(memory);
}

void job_network::survive_ends() noexcept {
  if (!job_) return;
  try {
    job_->survive(true);
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot cope with ends: ") + e.what());
  }
}

void job_network::close() noexcept {
  try {
    {
      const std::lock_guard guard(mutex_);
      segments_.clear();
    }
    job_->close();
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot close its job: ") + e.what());
  }
}

} // namespace farcall::am2
