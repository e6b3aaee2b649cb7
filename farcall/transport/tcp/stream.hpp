#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/path_monitor.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <sys/uio.h>

namespace farcall::tcp {

/// What became of a read or a write.
enum class io_status {
  done,
  would_block,
  closed, ///< the other side has ended its sending in order
  failed,
};

struct io_result {
  io_status status{};
  std::size_t bytes = 0; ///< more than 0 only with done
};

/// A connection as a pair of byte streams that never block. One thread may read while another
/// writes; not two of a kind. Owns its socket and closes it at the end of its life. While it is not
/// established, let one thread do both: what it awaits, another might take in.
class stream {
 public:
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  virtual ~stream() = default;

  /// Reads into the parts in order; at least one byte when done, unless the parts have none.
  [[nodiscard]] virtual io_result read(std::span<const iovec> parts) noexcept = 0;

  /// Writes the parts in order, as far as there is space. What was not taken has to follow first in
  /// the next write, from whatever address: TLS may hold it, encrypted, already.
  [[nodiscard]] virtual io_result write(std::span<const iovec> parts) noexcept = 0;

  /// Ends our direction in order (TLS: close_notify as well). Never blocks. For the thread that
  /// writes, as its last call.
  virtual void finish() noexcept = 0;

  /// Whether a read that would block waits for the socket to become writable (TLS handshakes).
  [[nodiscard]] virtual bool read_wants_write() const noexcept = 0;
  /// Whether a write that would block waits for the socket to become readable.
  [[nodiscard]] virtual bool write_wants_read() const noexcept = 0;

  /// Whether a read should be tried though the socket itself is not readable: TLS has taken bytes
  /// from it already. Never true after a read that would block.
  [[nodiscard]] virtual bool has_buffered() const noexcept = 0;

  /// Less than 0: it is closed.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Gives the descriptor back. No thread reads, writes or finishes it any more.
  void close() noexcept {
    path_ = {};
    socket_.reset();
  }

  /// Has reads and writes find the connection's end when its path is broken. Throws std::bad_alloc.
  void watch_path(path_monitor& by) { path_ = by.watch(fd()); }

  /// Why the last read or write failed, in words; never key material.
  [[nodiscard]] virtual std::string failure() const = 0;
  /// Whether it failed because the other side has ended the connection, out of order.
  [[nodiscard]] virtual bool was_broken_off() const noexcept = 0;

  /// TLS: the handshake has ended, so the peer has proved that it holds the key. Plain: true.
  [[nodiscard]] virtual bool is_established() const noexcept = 0;

  /// Goes on with the handshake, as reads and writes do: done once is_established(). For both
  /// threads' part.
  [[nodiscard]] virtual io_status establish() noexcept { return io_status::done; }

  /// Who has proved itself there, once is_established(): the client whose key it has, or the name
  /// in its certificate. Empty: a group, the server of a client, or nobody in particular.
  [[nodiscard]] virtual std::string peer_name() const { return {}; }

  /// Each byte costs this thread more than a copy.
  [[nodiscard]] virtual bool is_encrypted() const noexcept { return false; }

 protected:
  /// Forks do not have it. Throws std::bad_alloc.
  explicit stream(unique_fd socket) : socket_(std::move(socket)) { socket_.close_on_fork(); }

 private:
  unique_fd socket_;
  path_monitor::watched path_; ///< its end comes before that of the socket
};

/// A stream whose bytes go over the socket as they are.
[[nodiscard]] std::unique_ptr<stream> plain_stream(unique_fd fd);

} // namespace farcall::tcp
