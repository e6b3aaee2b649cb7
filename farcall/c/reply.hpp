// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/serving.h>
#include <farcall/call/invoke.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

/// The reply that a handler gives. While the handler runs, this object is on the handler's stack.
/// fc_reply_keep() makes another object, which outlives the handler. A call that fc_take() returns
/// has such an object from the start.
struct fc_reply {
  /// Makes the reply of a handler that is about to run. `stopped_by` is null if the call cannot be
  /// stopped.
  fc_reply(farcall::am::request_context& of,
           farcall::counted_ptr<farcall::am::stop_state> stopped_by) noexcept
      : request(&of), stop(std::move(stopped_by)) {}
  /// Makes a reply that replaces the one of the handler.
  fc_reply(farcall::am::deferred_reply later, farcall::am::engine& of,
           farcall::counted_ptr<farcall::am::stop_state> stopped_by) noexcept
      : kept(std::move(later)), engine(&of), stop(std::move(stopped_by)) {}
  fc_reply(const fc_reply&) = delete;
  fc_reply& operator=(const fc_reply&) = delete;
  virtual ~fc_reply();

  /// Notes that the reply is about to be given. Throws invalid_argument if it was given before.
  void reply_once();
  /// Sends the reply: calls `how` with the request to which it replies. Destroys this object
  /// afterwards, unless it is on the stack of a handler.
  template <class How>
  void give(const How& how) {
    if (request != nullptr) return how(*request);
    kept->send([&](farcall::am::request_context& late) {
      try {
        how(late);
      } catch (...) {
        farcall::detail::reply_exception(late);
      }
    });
    delete this;
  }
  /// Ends the effect of fc_reply_on_stop(). Waits until its function, if it runs, has returned.
  void forget_stop() noexcept;
  /// Frees the memory of fc_reply_reserve(), if there is any.
  void drop_reserved() noexcept;
  [[nodiscard]] farcall::am::engine& owner() const noexcept {
    return request != nullptr ? request->owner() : *engine;
  }

  /// Parts that few replies need.
  struct extras {
    /// Calls a function of the program when the call is stopped.
    struct stop_function final : farcall::am::stop_listener {
      void stop() noexcept override { run(user); }
      void (*run)(void*) = nullptr; ///< null if there is no function
      void* user = nullptr;
    } on_stop;
    std::byte* reserved = nullptr; ///< memory from fc_reply_reserve(), in the heap of this node
    std::size_t reserved_bytes = 0;
  };

  /// Request that the handler serves; null if the handler has returned, or may have returned.
  farcall::am::request_context* request = nullptr;
  std::optional<farcall::am::deferred_reply> kept{}; ///< exists if `request` is null
  farcall::am::engine* engine = nullptr;             ///< set if `request` is null
  /// Stop state of the call, by which the caller stops it; null if the call cannot be stopped.
  farcall::counted_ptr<farcall::am::stop_state> stop{};
  std::unique_ptr<extras> more{};
  bool has_reply = false;
};
