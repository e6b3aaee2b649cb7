// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/output_sink.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/relay.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

/// Transports the output of a server's target to the host, in frames between the messages of the
/// control socket. The bytes in flight have a limit, so that a host that does not read blocks only
/// the target that prints.
namespace farcall::tcp {

/// For one target: limit of the bytes in flight from a server to a host.
inline constexpr std::size_t output_window = std::size_t{256} << 10;
/// For each stream: limit of the bytes left in the pipe that are sent at once when the process
/// ends.
inline constexpr std::size_t last_output = std::size_t{1} << 20;

/// The server's end of the output relay. Made, used and destroyed on the loop's thread, or after
/// that thread has ended.
class output_sender : public std::enable_shared_from_this<output_sender> {
 public:
  /// Makes the pipes to which the process prints. Throws error.
  explicit output_sender(event_loop& loop);
  ~output_sender();

  /// Returns the ends of the pipes to which the process prints.
  [[nodiscard]] child_output ends() const noexcept;

  /// Begins to read the pipes. Called once the process has inherited their other ends.
  void start(const std::shared_ptr<relay>& to_host);

  /// Handles a report of the host that it has written some bytes. Throws malformed_message if the
  /// report names no bytes, or more than this end has sent.
  void note_written(std::span<const std::byte> body);

  /// Sends the last output of the process, which has ended. Output that its child processes print
  /// later is lost.
  void finish() noexcept;

 private:
  struct source {
    output_stream stream{};
    unique_fd from;
    unique_fd to;
    bool is_watched = false;
  };

  void pass_on(source& s);
  /// Reads and sends a piece of at most `most` bytes. Returns false if no bytes are available now.
  [[nodiscard]] bool send_piece(source& s, std::size_t most);
  void watch(source& s);
  void ignore(source& s) noexcept;

  event_loop* loop_;
  std::weak_ptr<relay> to_host_;
  std::array<source, 2> sources_;
  std::size_t under_way_ = 0;
  std::vector<char> piece_;
};

/// The host's end of the output relay: makes the relay `from` pass the output of `node` to the sink
/// `to`.
void receive_output(const std::shared_ptr<event_loop>& loop, const std::shared_ptr<relay>& from,
                    node_id node, output_sink* to);

} // namespace farcall::tcp
