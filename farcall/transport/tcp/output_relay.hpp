#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/output_sink.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

/// What a server's target prints, on its way to the host: in frames between those of the control
/// socket, and no more of it under way than the host has written, so that one who does not read
/// holds up nothing but the target that prints.
namespace farcall::tcp {

/// Under way from a server to a host, for one target.
inline constexpr std::size_t output_window = std::size_t{256} << 10;
/// Of each stream, what a pipe may hold when its process ends: it goes out at once.
inline constexpr std::size_t last_output = std::size_t{1} << 20;

/// The server's end. Made and used on the reactor's thread, which ends first or lets go of it.
class output_sender : public std::enable_shared_from_this<output_sender> {
 public:
  /// Makes the pipes. Throws error.
  explicit output_sender(reactor& loop);
  ~output_sender();

  /// What the process prints to.
  [[nodiscard]] child_output ends() const noexcept;

  /// The process has them.
  void start(const std::shared_ptr<relay>& to_host);

  /// The host has written so many bytes. Throws malformed_message for more than it was sent.
  void note_written(std::span<const std::byte> body);

  /// The process has ended: sends what it has printed last. Children of its print for nobody.
  void finish() noexcept;

 private:
  struct source {
    output_stream stream{};
    unique_fd from;
    unique_fd to;
    bool is_watched = false;
  };

  void pass_on(source& s);
  /// A piece of at most so many bytes; false when there is none now.
  [[nodiscard]] bool send_piece(source& s, std::size_t most);
  void watch(source& s);
  void ignore(source& s) noexcept;

  reactor* loop_;
  std::weak_ptr<relay> to_host_;
  std::array<source, 2> sources_;
  std::size_t under_way_ = 0;
  std::vector<char> piece_;
};

/// The host's end: has the relay give it what `node` prints.
void receive_output(const std::shared_ptr<reactor>& loop, const std::shared_ptr<relay>& from,
                    node_id node, output_sink* to);

} // namespace farcall::tcp
