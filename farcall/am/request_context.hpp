#pragma once

#include <farcall/am/message.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcall::am {

class deferred_reply;
class engine;
class responder;

/// A request that has arrived, as its handler gets it. Lives for one handler call.
///
/// A handler reads its arguments, calls release() as soon as it needs them no more, works, and
/// replies once. A handler that never replies is replied for, with no bytes.
class request_context {
 public:
  [[nodiscard]] engine& owner() const noexcept { return *engine_; }
  [[nodiscard]] node_id source() const noexcept { return source_; }
  /// False when the caller wants no reply; a reply is then dropped.
  [[nodiscard]] bool wants_reply() const noexcept { return slot_ != no_slot; }

  /// The arguments: hostile bytes, aligned to 16, valid until release() if they lie in the ring,
  /// until the reply otherwise.
  [[nodiscard]] const std::byte* arguments() const noexcept { return arguments_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool in_ring() const noexcept { return in_ring_; }
  /// Four bytes that the caller sent in the header; hostile too.
  [[nodiscard]] std::uint32_t extra() const noexcept { return extra_; }

  /// Gives the ring's space back. Handlers that wait for anything must have called it, or the lane
  /// could run full behind them. Idempotent.
  void release() noexcept;

  /// What is often all that a reply needs, at the least cost: sends one of `bytes`, at most
  /// always_short, which `fill` writes to the address that it is given. False, without effect,
  /// where more is to be done for it.
  template <class Fill>
  [[nodiscard]] bool try_reply_short(std::uint32_t bytes, const Fill& fill) noexcept;
  /// Fits the smallest ring.
  static constexpr std::uint32_t always_short = 512;

  /// Memory for a reply of `bytes`, at most largest_reply(); aligned to 8. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::byte* reserve_reply(std::uint32_t bytes);
  /// Sends the reply written there.
  void commit_reply(std::byte* reply, std::uint32_t bytes) noexcept;
  [[nodiscard]] std::uint32_t largest_reply() const noexcept;

  /// Memory in this node's heap for a reply of any size; aligned to 16. Throws out_of_memory.
  [[nodiscard]] std::byte* reserve_rendezvous_reply(std::uint64_t bytes);
  void commit_rendezvous_reply(std::byte* reply, std::uint64_t bytes) noexcept;
  void cancel_rendezvous_reply(std::byte* reply) noexcept;

  /// The handler threw. Texts are cut to what fits a record.
  void reply_error(std::string_view type_name, std::string_view text) noexcept;
  /// The function that the arguments name does not exist here.
  void reply_unknown() noexcept;

  /// The caller has read the rendezvous reply at `address`; ignored when there is no such reply.
  void release_rendezvous_reply(std::uint64_t address) noexcept;

  /// The caller's events name the lane by that number.
  void name_lane(std::uint32_t callers_number) noexcept;

  [[nodiscard]] bool replied() const noexcept { return replied_; }

  /// The reply will be given later, perhaps by another thread: the handler returns without one.
  /// Throws std::bad_alloc.
  [[nodiscard]] deferred_reply defer();

 private:
  friend class deferred_reply;
  friend class responder;
  request_context(engine& e, responder& l) noexcept : engine_(&e), lane_(&l) {}

  engine* engine_;
  responder* lane_;
  node_id source_ = no_node;
  std::uint32_t slot_ = no_slot;
  const std::byte* arguments_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t extra_ = 0;
  bool in_ring_ = true;
  bool released_ = false;
  bool replied_ = false;
  bool reserved_in_ring_ = false;
  /// Of a lane whose replies are given by several threads: the lock is taken for one reply.
  enum class reply_lock : std::uint8_t { free, own, of_another } lock_ = reply_lock::free;
};

/// Code that runs a request. Must not throw. `context` is what it was registered with.
using handler_function = void (*)(request_context& request, const void* context) noexcept;

struct handler {
  handler_function run = nullptr;
  const void* context = nullptr;
};

} // namespace farcall::am
