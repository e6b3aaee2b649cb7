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

/// What the host and a target tell each other outside the lanes. See docs/wire.md.
enum class control : std::uint32_t {
  present = 1,     ///< target: I am here, and this is my format
  memory = 2,      ///< host: segments of one node, with their descriptors
  hello = 3,       ///< host: who you are in this job
  joined = 4,      ///< target: my card
  member = 5,      ///< host: card of a node
  start = 6,       ///< host: what a node must know at the start was sent
  node_failed = 7, ///< host: number of a node, and why
  shut_down = 8,   ///< host: finish what has arrived and end
  refused = 9,     ///< target: why it cannot join
  setup = 10,      ///< host: what a transport of the node must know
  request = 11,    ///< host, to a server: a target is wanted
  transport = 12,  ///< a transport to that of the same scheme on another node, through the host
  ended = 13,      ///< server: how the target has ended, or why it cannot be reached any more
  heartbeat = 14,  ///< host: give a sign; target: here it is
  introduce = 15,  ///< target: a node that it does not know, and wants to use
  introduced = 16, ///< target: it knows that node now
  absent = 17,     ///< host: there is no such node
  quiet = 18,      ///< target, in a job of equals: it has nothing more to do in this round
  round = 19,      ///< host, in a job of equals: all have said so, and another round begins
  file = 20,       ///< host: an open file that a target has asked for, with its descriptor
  output = 21,     ///< server: what the target has printed
  written = 22,    ///< host, to a server: how much of it was written
  faulted = 23,    ///< target: where it faults, while it dies of that
  request_sampler = 24, ///< host, to a server: what samples the server's targets is wanted
};

/// A message as it was received; owns the descriptors that came with it.
struct control_message {
  control kind{};
  std::vector<std::byte> body;
  std::vector<unique_fd> files;
};

/// One end of the private socket between the host and a target. Keeps message boundaries and
/// carries descriptors. The socket ends when the other process does.
///
/// Where both ends are in one process, as where a relay lengthens the socket over a network, they
/// can be joined in memory instead: without descriptors, of which a host of many targets has few to
/// spare.
class control_socket {
 public:
  control_socket() noexcept = default;
  explicit control_socket(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  control_socket(control_socket&& other) noexcept = default;
  control_socket& operator=(control_socket&& other) noexcept;
  control_socket(const control_socket&) = delete;
  control_socket& operator=(const control_socket&) = delete;
  ~control_socket() { close(); }

  /// Both ends, closed on exec. Throws error.
  [[nodiscard]] static std::pair<control_socket, control_socket> make_pair();
  /// Both ends for this process, joined in memory. They carry no descriptors.
  [[nodiscard]] static std::pair<control_socket, control_socket> make_pair_in_memory();

  /// Less than 0: it is closed, or has none; see on_arrival().
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept;
  [[nodiscard]] unique_fd take() && { return std::move(fd_); }
  /// The socket stays open until this process ends.
  void leave_open() noexcept { (void)fd_.release(); }
  /// See unique_fd.
  void close_on_fork() { fd_.close_on_fork(); }

  /// Sends one message; waits while the socket, or the system's space for descriptors in flight, is
  /// full. False when the other side is gone or the deadline passed. Throws error for more than 64
  /// KiB or 8 descriptors.
  bool send(control kind, std::span<const std::byte> body = {}, std::span<const int> files = {},
            time_point deadline = no_deadline);

  /// Sends one message if there is space now; false otherwise, or when the other side is gone.
  bool try_send(control kind, std::span<const std::byte> body = {}) noexcept;

  /// Waits for one message. Nothing when the other side is gone or the deadline passed. Throws
  /// malformed_message for bytes that are no message.
  [[nodiscard]] std::optional<control_message> receive(time_point deadline);

  /// receive() would not wait: there is a message, or there will be none any more.
  [[nodiscard]] bool is_ready() const;

  /// Of an end without descriptor: everything was received, and the other side is gone.
  [[nodiscard]] bool has_ended() const;

  /// Of an end without descriptor: has `call` called whenever this end becomes ready, and at once
  /// if it is, until it is closed. On any thread; it must not use this socket, nor wait.
  void on_arrival(std::function<void()> call);

 private:
  control_socket(std::shared_ptr<control_queue> queue, bool is_first) noexcept
      : queue_(std::move(queue)), is_first_(is_first) {}

  unique_fd fd_;
  std::shared_ptr<control_queue> queue_; ///< null: a socket of the system's, or closed
  bool is_first_ = false;                ///< of the queue's ends
};

/// Milliseconds until `deadline` for poll(), rounded up; -1 for "never".
[[nodiscard]] int poll_timeout(time_point deadline) noexcept;

/// For ends that somebody else has made. Throws setting_error unless `fd` is a socket of the kind
/// that make_pair() makes.
void require_control_socket(int fd);

} // namespace farcall
