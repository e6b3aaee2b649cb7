// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/base/counted.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace farcall::am {

class stop_state;

/// Connects deferred replies with their lane as long as the lane exists. Any thread may give such a
/// reply.
struct reply_port : counted {
  std::mutex mutex; ///< held while one thread gives a reply
  responder* lane = nullptr;
  std::atomic<std::uint32_t> pending{0}; ///< number of deferred replies that were not given yet
};

/// The reply to a request whose handler returns before the reply is given. Used by one thread at a
/// time, which need not be the handler's thread. If it is destroyed without a reply, the caller
/// gets an error.
class deferred_reply {
 public:
  deferred_reply(deferred_reply&& other) noexcept;
  deferred_reply& operator=(deferred_reply&& other) noexcept;
  deferred_reply(const deferred_reply&) = delete;
  deferred_reply& operator=(const deferred_reply&) = delete;
  ~deferred_reply();

  /// True until the reply was sent.
  [[nodiscard]] bool is_pending() const noexcept { return is_pending_; }
  [[nodiscard]] bool wants_reply() const noexcept { return slot_ != no_slot; }
  [[nodiscard]] node_id source() const noexcept { return source_; }

  /// Calls `give` once with a request_context, through which `give` replies. Does not call `give`
  /// if the lane no longer exists. `give` must neither wait nor throw. Call send() once.
  template <class Give>
  void send(const Give& give) noexcept {
    is_pending_ = false;
    {
      const std::lock_guard guard(port_->mutex);
      if (port_->lane != nullptr) {
        request_context request = context();
        give(request);
        end(request);
      }
    }
    if (call_) end_call();
  }

 private:
  friend class reply_catcher;
  friend class request_context;
  deferred_reply(counted_ptr<reply_port> port, node_id source, std::uint32_t slot,
                 counted_ptr<stop_state> call) noexcept;

  // Returns a request_context for the reply. Call with the port's mutex held.
  [[nodiscard]] request_context context() const noexcept;
  void end(request_context& request) const noexcept;
  void drop() noexcept;
  void end_call() noexcept;

  counted_ptr<reply_port> port_;
  counted_ptr<stop_state> call_; ///< stop state of the call; null if the call cannot be stopped
  node_id source_;
  std::uint32_t slot_;
  bool is_pending_ = true;
};

/// Catches the deferred reply of a handler that ends by an exception. Stack unwinding destroys the
/// reply before the exception is caught, but the caller must get the exception as its reply. Lives
/// on the stack that runs the handler.
class reply_catcher {
 public:
  explicit reply_catcher(const deferred_reply& of) noexcept;
  reply_catcher(const reply_catcher&) = delete;
  reply_catcher& operator=(const reply_catcher&) = delete;
  ~reply_catcher();

  /// Returns the handler's deferred reply if an exception has destroyed it, else an empty optional.
  [[nodiscard]] std::optional<deferred_reply>& caught() noexcept { return caught_; }

 private:
  friend class deferred_reply;
  /// Keeps the deferred reply `destroyed`, which is being destroyed before it was given, if an
  /// exception is being thrown and the reply belongs to the innermost handler on this stack. In
  /// that case, moves the reply to the handler's catcher and returns true. Otherwise returns false.
  [[nodiscard]] static bool takes(deferred_reply& destroyed) noexcept;

  const reply_port* const port_;
  const std::uint32_t slot_;
  reply_catcher* const outer_;
  std::optional<deferred_reply> caught_;
};

} // namespace farcall::am
