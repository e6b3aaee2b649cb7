// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/control_socket.hpp>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

namespace farcall {

/// Connection in memory between two control sockets of one process, without a descriptor. Several
/// threads may use it at the same time, like the socket pair that it replaces.
class control_queue {
 public:
  enum class end : unsigned { first, second };

  control_queue() = default;
  control_queue(const control_queue&) = delete;
  control_queue& operator=(const control_queue&) = delete;
  /// Overwrites the messages that were not received, because one may hold the job's secret.
  ~control_queue();

  // Functions below work like the functions of control_socket with the same names, for the given
  // end.

  bool send(end from, control kind, std::span<const std::byte> body, time_point deadline);
  [[nodiscard]] std::optional<control_message> receive(end at, time_point deadline);
  [[nodiscard]] bool is_ready(end at) const;
  [[nodiscard]] bool has_ended(end at) const;
  [[nodiscard]] bool is_disconnected() const;
  void on_arrival(end at, std::function<void()> call);

  /// Closes one end. The other end can still receive the messages that were sent to it before.
  /// After these messages, the other end finds that the connection has ended.
  void close(end which) noexcept;

 private:
  struct side {
    std::deque<control_message> arrived;
    std::size_t bytes = 0; ///< total size of the messages that have arrived
    bool is_closed = false;
    std::function<void()> on_arrival;
  };

  [[nodiscard]] static end other(end e) noexcept {
    return e == end::first ? end::second : end::first;
  }
  [[nodiscard]] side& at(end e) noexcept { return sides_[static_cast<unsigned>(e)]; }
  [[nodiscard]] const side& at(end e) const noexcept { return sides_[static_cast<unsigned>(e)]; }
  [[nodiscard]] bool is_ready_now(end e) const noexcept;
  [[nodiscard]] bool has_space(const side& to, std::size_t bytes) const noexcept;

  mutable std::mutex mutex_;
  std::condition_variable changed_; ///< notified when either end changes
  std::array<side, 2> sides_;
};

} // namespace farcall
