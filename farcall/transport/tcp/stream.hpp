// SPDX-License-Identifier: Apache-2.0
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

/// Outcome of a read or a write of a stream.
enum class io_status {
  done,
  would_block,
  closed, ///< the peer has ended its sending in order
  failed,
};

struct io_result {
  io_status status{};
  std::size_t bytes = 0; ///< above 0 only if done
};

/// A connection as a pair of byte streams that never block. One thread may read while another
/// writes, but two threads must not read, or write, at the same time. Until the connection is
/// established, one thread should do both, because another thread might take the bytes that the
/// first one waits for. The stream owns its socket.
class stream {
 public:
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  virtual ~stream() = default;

  /// Reads into the parts, in their order. If the outcome is `done`, at least one byte was read,
  /// unless all parts are empty.
  [[nodiscard]] virtual io_result read(std::span<const iovec> parts) noexcept = 0;

  /// Writes the parts in their order, as far as there is space. The next write must begin with the
  /// bytes that were not taken, because TLS may have encrypted them already. In that write, these
  /// bytes may be at another address.
  [[nodiscard]] virtual io_result write(std::span<const iovec> parts) noexcept = 0;

  /// Ends the sending direction in order (TLS: with close_notify). Never blocks. Called by the
  /// writing thread as its last call.
  virtual void finish() noexcept = 0;

  /// True if a read that would block waits until the socket is writable, as a TLS handshake may.
  [[nodiscard]] virtual bool read_wants_write() const noexcept = 0;
  /// True if a write that would block waits until the socket is readable, as a TLS handshake may.
  [[nodiscard]] virtual bool write_wants_read() const noexcept = 0;

  /// True if a read should be tried although the socket is not readable, because TLS has already
  /// read bytes from the socket. Never true after a read that would block.
  [[nodiscard]] virtual bool has_buffered() const noexcept = 0;

  /// Negative if closed.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Closes the descriptor. The other threads must have stopped using the stream.
  void close() noexcept {
    path_ = {};
    socket_.reset();
  }

  /// Ends the connection if its path breaks, so that reads and writes see the end. Throws
  /// std::bad_alloc.
  void watch_path(path_monitor& by) { path_ = by.watch(fd()); }

  /// Returns in words why a read or a write has failed. The text never contains key material.
  [[nodiscard]] virtual std::string failure() const = 0;
  /// True if a read or a write has failed because the peer has ended the connection without an
  /// orderly close.
  [[nodiscard]] virtual bool was_broken_off() const noexcept = 0;

  /// True if the TLS handshake is complete, so that the peer has proved that it has the key. Always
  /// true for a stream without encryption.
  [[nodiscard]] virtual bool is_established() const noexcept = 0;

  /// Continues the handshake without reading or writing the user's bytes. Returns `done` once
  /// is_established() is true. The calling thread must be both the reading and the writing thread.
  [[nodiscard]] virtual io_status establish() noexcept { return io_status::done; }

  /// Returns the peer's proved name, once is_established(): the client that the key belongs to, or
  /// the name in the certificate. Empty for the key of a group, for a server that has proved its
  /// identity by a key, and without encryption.
  [[nodiscard]] virtual std::string peer_name() const { return {}; }

  /// True if it costs the calling thread more to move a byte than to copy it, because the byte is
  /// encrypted or decrypted.
  [[nodiscard]] virtual bool is_encrypted() const noexcept { return false; }

 protected:
  /// Makes forked processes close the socket. Throws std::bad_alloc.
  explicit stream(unique_fd socket) : socket_(std::move(socket)) { socket_.close_on_fork(); }

 private:
  unique_fd socket_;
  path_monitor::watched path_; ///< destroyed before the socket
};

/// Returns a stream without encryption.
[[nodiscard]] std::unique_ptr<stream> plain_stream(unique_fd fd);

} // namespace farcall::tcp
