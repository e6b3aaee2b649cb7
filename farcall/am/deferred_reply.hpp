#pragma once

#include <farcall/am/request_context.hpp>
#include <farcall/base/counted.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace farcall::am {

class stop_state;

/// Through which replies find their lane, as long as there is one, whichever thread gives them.
struct reply_port : counted {
  std::mutex mutex; ///< one reply at a time
  responder* lane = nullptr;
  std::atomic<std::uint32_t> pending{0}; ///< replies that are to come
};

/// The reply to a request whose handler returns, or has returned, without it. Used by one thread at
/// a time, which need not be the one that ran the handler. When it goes without a reply, the caller
/// gets an error.
class deferred_reply {
 public:
  deferred_reply(deferred_reply&& other) noexcept;
  deferred_reply& operator=(deferred_reply&& other) noexcept;
  deferred_reply(const deferred_reply&) = delete;
  deferred_reply& operator=(const deferred_reply&) = delete;
  ~deferred_reply();

  /// False once the reply was sent.
  [[nodiscard]] bool is_pending() const noexcept { return is_pending_; }
  [[nodiscard]] bool wants_reply() const noexcept { return slot_ != no_slot; }
  [[nodiscard]] node_id source() const noexcept { return source_; }

  /// Calls `give` with a request_context through which it replies; not when nobody can read the
  /// reply any more. Once. `give` must not wait, nor throw.
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

  // With the port's mutex.
  [[nodiscard]] request_context context() const noexcept;
  void end(request_context& request) const noexcept;
  void drop() noexcept;
  void end_call() noexcept;

  counted_ptr<reply_port> port_;
  counted_ptr<stop_state> call_; ///< null for one that cannot be stopped
  node_id source_;
  std::uint32_t slot_;
  bool is_pending_ = true;
};

/// For the stack that runs a handler that has its reply: an exception that ends the handler
/// destroys the reply before anybody has caught it, and the caller shall get the exception.
class reply_catcher {
 public:
  explicit reply_catcher(const deferred_reply& of) noexcept;
  reply_catcher(const reply_catcher&) = delete;
  reply_catcher& operator=(const reply_catcher&) = delete;
  ~reply_catcher();

  /// What an exception has destroyed, if that was the handler's reply.
  [[nodiscard]] std::optional<deferred_reply>& caught() noexcept { return caught_; }

 private:
  friend class deferred_reply;
  /// Of the stack that calls: takes the reply when it is the handler's, and an exception is under
  /// way.
  [[nodiscard]] static bool takes(deferred_reply& destroyed) noexcept;

  const reply_port* const port_;
  const std::uint32_t slot_;
  reply_catcher* const outer_;
  std::optional<deferred_reply> caught_;
};

} // namespace farcall::am
