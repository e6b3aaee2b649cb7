// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcall {
struct call_context;
} // namespace farcall

namespace farcall::am {

class deferred_reply;
class engine;
class responder;
struct remote_bytes;

/// A request as its handler receives it. The object lives as long as the handler runs.
///
/// A handler reads its arguments, calls release() once it no longer needs them, does its work, and
/// replies once. If a handler does not reply, an empty reply is sent in its place.
class request_context {
 public:
  [[nodiscard]] engine& owner() const noexcept { return *engine_; }
  /// Returns the context that the layer above, which knows the functions, gave to the engine.
  [[nodiscard]] const call_context* context() const noexcept;
  [[nodiscard]] node_id source() const noexcept { return source_; }
  /// True if the caller wants a reply. If false, a reply of the handler is dropped.
  [[nodiscard]] bool wants_reply() const noexcept { return slot_ != no_slot; }

  /// Returns the arguments: untrusted bytes, aligned to 16. They are valid until release() if
  /// in_ring() is true, else until the reply.
  [[nodiscard]] const std::byte* arguments() const noexcept { return arguments_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool in_ring() const noexcept { return in_ring_; }
  /// Gives the caller arguments that are not in the ring, so that they stay valid until the reply
  /// even if it is deferred. The caller must free them by delete[]. Returns null if they are in
  /// mapped memory, where they stay anyway.
  [[nodiscard]] std::byte* take_arguments() noexcept;
  /// Returns the four bytes that the caller sent in the request header. They are untrusted, like
  /// the arguments.
  [[nodiscard]] std::uint32_t extra() const noexcept { return extra_; }

  /// Releases the request's space in the ring. A handler must call release() before it waits, or
  /// else later requests may fill the ring. Further calls have no effect.
  void release() noexcept;
  /// True after release().
  [[nodiscard]] bool released() const noexcept { return released_; }

  /// Sends a reply of `bytes` bytes, at most always_short, at the least cost. The function `fill`
  /// writes the reply to the address that it receives. Returns false, without effect, if the reply
  /// needs reserve_reply().
  template <class Fill>
  [[nodiscard]] bool try_reply_short(std::uint32_t bytes, const Fill& fill) noexcept;
  /// Size of a reply, in bytes, that fits a record of even the smallest ring.
  static constexpr std::uint32_t always_short = 512;

  /// Returns memory for a reply of `bytes`, at most max_reply(). The memory is aligned to 8. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::byte* reserve_reply(std::uint32_t bytes);
  /// Sends the reply that the handler has written to `reply`, the memory from reserve_reply().
  void commit_reply(std::byte* reply, std::uint32_t bytes) noexcept;
  [[nodiscard]] std::uint32_t max_reply() const noexcept;

  /// Returns memory in this node's heap for a reply of any size, aligned to 16. Throws
  /// out_of_memory.
  [[nodiscard]] std::byte* reserve_rendezvous_reply(std::uint64_t bytes);
  void commit_rendezvous_reply(std::byte* reply, std::uint64_t bytes) noexcept;
  void cancel_rendezvous_reply(std::byte* reply) noexcept;

  /// Sends the reply that the handler ended by an exception with this type name and text. Truncates
  /// the texts so that they fit a record.
  void reply_error(std::string_view type_name, std::string_view text) noexcept;
  /// Sends the reply that this program has no function with the requested key.
  void reply_unknown() noexcept;

  /// Frees the rendezvous reply at `address`, because the caller has read it. Ignores addresses of
  /// other memory.
  void release_rendezvous_reply(std::uint64_t address) noexcept;

  /// Stores the number that identifies the lane in the caller's trace events.
  void name_lane(std::uint32_t callers_number) noexcept;

  [[nodiscard]] bool replied() const noexcept { return replied_; }

  /// Detaches the reply from the handler. The handler then returns without a reply, and any thread
  /// may give the reply later. Throws std::bad_alloc.
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
  remote_bytes* copy_ = nullptr; ///< owner of the arguments; null if they are in the ring
  std::uint64_t bytes_ = 0;
  std::uint32_t extra_ = 0;
  bool in_ring_ = true;
  bool released_ = false;
  bool replied_ = false;
  bool reserved_in_ring_ = false;
  /// State of the lock that guards the replies of a lane while several threads reply on it. The
  /// lock is held for one reply.
  enum class reply_lock : std::uint8_t { free, own, of_another } lock_ = reply_lock::free;
};

/// Function that runs a request. It must not throw.
using handler_function = void (*)(request_context& request) noexcept;

} // namespace farcall::am
