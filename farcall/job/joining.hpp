// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/launcher.hpp>

#include <span>
#include <string>

namespace farcall {

/// Exchange of messages between the host and one target while the target joins, from the host's
/// view. Functions that wait throw start_failed, which names the node and the reason.
class joining {
 public:
  joining(node_id node, target_process& process, time_point deadline) noexcept
      : node_(node), process_(process), deadline_(deadline) {}

  /// Waits until the process reports that it is ready to join.
  void await_presence();
  /// Sends a message to the target. Returns false if the message cannot be sent; call
  /// receive_card() in this case, which throws the reason.
  template <class Message>
  [[nodiscard]] bool send(const Message& m, std::span<const int> files = {}) {
    return messages::send(process_.socket(), m, deadline_, files);
  }
  /// Waits for the target's card, and returns it. Throws start_failed if the card does not arrive,
  /// or cannot belong to this target.
  [[nodiscard]] card receive_card();
  /// Sends the host's card and then the start message to the target, which thereupon begins to
  /// work.
  void let_start(const card& host);

 private:
  [[nodiscard]] std::string who() const;
  [[noreturn]] void throw_not_joined(const char* what);
  /// Returns the time until which to wait for the next message, at most `deadline`. Waits until the
  /// message arrives, or until the process ends. If the process ends first, returns a time soon
  /// after that.
  [[nodiscard]] time_point end_of_wait(time_point deadline);
  /// Waits for a message of the kind `kind`. If it does not arrive, the text of the error says that
  /// the target has not done `what` in time.
  control_message expect(control kind, const char* what, time_point deadline);

  node_id node_;
  target_process& process_;
  time_point deadline_;
};

} // namespace farcall
