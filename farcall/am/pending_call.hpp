// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/message.hpp>
#include <farcall/base/bytes.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farcall::am {

class pending_call;

/// Bytes of a reply, which are valid only in the function that receives them. They are aligned to
/// 16 bytes for a rendezvous reply, else to 8.
struct reply_view {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// Function that reads a reply into the storage of `slot`, or destroys the result in that storage.
/// It runs with the lane's guard held, so it must not call farcall. It may throw while it reads.
enum class reply_action : bool { read, destroy };
using reply_reader = void (*)(pending_call& slot, reply_action action, reply_view what);

/// Size, in bytes, of the storage for a result that each pending call contains.
inline constexpr std::size_t call_storage = 48;

/// The caller's end of a call, with storage for the result. The call_pool of a lane owns it.
class alignas(line_bytes) pending_call : public completion {
 public:
  pending_call(client& owner, requester& l, biased_lock& guard, std::uint32_t index) noexcept
      : completion(&owner, &l, guard), index_(index) {
    // Begin in the state `ended`, because is_in_flight() takes each earlier state for a call in
    // flight.
    state_.store(state::ended, std::memory_order_relaxed);
  }
  ~pending_call() = default;

  [[nodiscard]] std::byte* storage() noexcept { return storage_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class call_meter;
  friend class call_pool;
  friend class requester;

  // ---- functions to be called with the lane's guard held ----

  /// True if the call was sent and its reply has not arrived.
  [[nodiscard]] bool is_in_flight() const noexcept {
    return state_.load(std::memory_order_relaxed) < state::ended;
  }
  /// True if the call is in flight, and its end needs no other work than reading the reply and
  /// marking the call as ready.
  [[nodiscard]] bool ends_simply() const noexcept {
    return state_.load(std::memory_order_relaxed) == state::pending;
  }
  /// Demands that requester::finish() is called when this call, which is in flight, ends.
  void need_finish() noexcept { become(state::noted); }
  /// True if the pending call has been free since mark_idle().
  [[nodiscard]] bool was_idle() const noexcept {
    return state_.load(std::memory_order_relaxed) == state::idle;
  }
  void mark_idle() noexcept { become(state::idle); }
  void destroy_result() noexcept { read_(*this, reply_action::destroy, {}); }

  enum class stopping : std::uint8_t {
    no,
    possible,  ///< requester::stop() tells the peer
    requested, ///< the caller has abandoned the call, and the peer was asked to stop it
  };

  std::uint32_t index_;
  stopping stopping_ = stopping::no; ///< whether the call in flight can be stopped
  bool is_traced_ = false;           ///< true if the trace contains the call's beginning
  reply_reader read_ = nullptr;
  /// Block of this node's heap with the call's arguments; kept until the reply arrives.
  std::byte* request_block_ = nullptr;
  union {
    pending_call* next_free;    ///< next free pending call; valid while this one is free
    std::uint64_t stoppable_id; ///< id of the call; valid while a stoppable call is in flight
  } kept_{nullptr};
  alignas(16) std::byte storage_[call_storage];
};

} // namespace farcall::am
