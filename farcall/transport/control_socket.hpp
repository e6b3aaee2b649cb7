// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace farcall {

class control_queue;

/// Kinds of messages that the host and a target exchange outside the lanes. See docs/wire.md.
enum class control : std::uint32_t {
  present = 1,     ///< first message of a target, with the format of its program
  memory = 2,      ///< the host sends the memory segments of a node, with their descriptors
  hello = 3,       ///< the host sends the target's number and settings in this job
  joined = 4,      ///< the target sends its own card
  member = 5,      ///< the host sends the card of a node
  start = 6,       ///< the host has sent all data for the start
  node_failed = 7, ///< the host sends the number of a node that has failed, and the reason
  shut_down = 8,   ///< the host asks the target to finish its messages and to end
  refused = 9,     ///< the target reports why it cannot join
  setup = 10,      ///< the host sends data for a transport of the node
  request = 11,    ///< the host asks a server for a target
  /// Sent by a transport, through the host, to the transport of the same scheme on another node.
  transport = 12,
  ended = 13,      ///< the server reports how the target has ended, or why it cannot be reached
  heartbeat = 14,  ///< the host asks for a heartbeat, or the target sends one
  introduce = 15,  ///< the target asks to be introduced to a node that it does not know
  introduced = 16, ///< the target now knows the node that it asked for
  absent = 17,     ///< the host has no node with the number that the target asked for
  quiet = 18,      ///< the target has no more work in this round (job of equals)
  round = 19,      ///< all nodes are quiet, and the host begins another round (job of equals)
  file = 20,       ///< the host sends an open file that a target has asked for, with its descriptor
  output = 21,     ///< the server sends output of the target
  written = 22,    ///< the host tells a server how many bytes of output were written
  faulted = 23,    ///< the target reports the place of the fault that is ending it
  /// Sent by the host to a server: asks for a connection that samples the server's targets.
  request_sampler = 24,
};

/// A received message; owns the descriptors that came with it.
struct control_message {
  control kind{};
  std::vector<std::byte> body;
  std::vector<unique_fd> files;
};

/// An end of the private socket between the host and a target. The socket keeps message boundaries
/// and carries descriptors. The connection ends when one of the two processes ends.
///
/// Two ends in one process can be connected in memory instead, for instance for a relay that
/// extends the socket over a network. Such ends need no descriptors, of which a host of many
/// targets has few to spare. They cannot carry descriptors, either.
class control_socket {
 public:
  control_socket() noexcept = default;
  explicit control_socket(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  control_socket(control_socket&& other) noexcept = default;
  control_socket& operator=(control_socket&& other) noexcept;
  control_socket(const control_socket&) = delete;
  control_socket& operator=(const control_socket&) = delete;
  ~control_socket() { close(); }

  /// Returns both ends of a new socket pair, close-on-exec. Throws error.
  [[nodiscard]] static std::pair<control_socket, control_socket> make_pair();
  /// Returns two ends that are connected in this process's memory and carry no descriptors.
  [[nodiscard]] static std::pair<control_socket, control_socket> make_pair_in_memory();

  /// Returns the socket's descriptor, or a negative number if the socket is closed or in memory. A
  /// user of a socket in memory calls on_arrival() instead of waiting for a descriptor.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept;
  [[nodiscard]] unique_fd take() && { return std::move(fd_); }
  /// Gives up ownership of the descriptor, so that the socket stays open until this process ends.
  void leave_open() noexcept { (void)fd_.release(); }
  /// See unique_fd.
  void close_on_fork() { fd_.close_on_fork(); }

  /// Sends one message. Waits while the socket is full, or while the system has no space for
  /// descriptors in flight. Returns false if the other side is gone or the deadline has passed.
  /// Throws error for more than 64 KiB or 8 descriptors.
  bool send(control kind, std::span<const std::byte> body = {}, std::span<const int> files = {},
            time_point deadline = no_deadline);

  /// Sends one message without waiting. Returns false if there is no space now, or the other side
  /// is gone.
  bool try_send(control kind, std::span<const std::byte> body = {}) noexcept;

  /// Waits for one message. Returns nullopt if the other side is gone or the deadline has passed.
  /// Throws malformed_message if the received bytes are no message, and error if the limit of
  /// descriptors does not allow the message's descriptors.
  [[nodiscard]] std::optional<control_message> receive(time_point deadline);

  /// True if receive() would not wait, because a message has arrived or the other side is gone.
  [[nodiscard]] bool is_ready() const;

  /// True if this end or the other one is closed, so that no message sent on this socket arrives.
  [[nodiscard]] bool is_disconnected() const;

  /// True if this end can receive nothing more: either this end is closed, or the other side is
  /// gone and all its messages were received. Only for an end without a descriptor.
  [[nodiscard]] bool has_ended() const;

  /// Calls `call` at once if this end is ready, and then each time that this end becomes ready,
  /// until this end is closed. Only for an end without a descriptor. `call` may run on any thread,
  /// for instance the sender's, which holds a lock of this socket. Therefore `call` must not use
  /// this socket, and must not block.
  void on_arrival(std::function<void()> call);

 private:
  control_socket(std::shared_ptr<control_queue> queue, bool is_first) noexcept
      : queue_(std::move(queue)), is_first_(is_first) {}

  unique_fd fd_;
  std::shared_ptr<control_queue> queue_; ///< null if this is a system's socket, or is closed
  bool is_first_ = false;                ///< true if this is the first end of the queue
};

/// Returns the milliseconds until `deadline`, rounded up, as a timeout for poll(); -1 for no
/// deadline.
[[nodiscard]] int poll_timeout(time_point deadline) noexcept;

/// Throws setting_error if `fd` is not a socket of the kind that make_pair() makes. Meant for
/// sockets that code outside this library has made.
void require_control_socket(int fd);

} // namespace farcall
