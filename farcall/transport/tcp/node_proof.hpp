// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace farcall::tcp {

/// Thrown if the other end has closed the connection without a reason before it has proved its
/// identity. A server or node does so if it has too many unproved connections. The dialling end has
/// not sent its request yet, so that it may dial again.
class connection_displaced : public error {
 public:
  using error::error;
};

/// The step of the dialling end that follows the preamble: the process at the other end proves that
/// it is the node that the request names. The proof is the TLS handshake, or the reply to a nonce.
/// All functions return without blocking.
class node_proof {
 public:
  /// If the job's connections are encrypted, `connection` is an encrypted stream that verifies the
  /// node (see tls_client()). Throws connection_displaced if an unencrypted connection does not
  /// take the nonce.
  node_proof(std::unique_ptr<stream> connection, std::shared_ptr<const job_credentials> credentials,
             const connect_request& request);

  /// Continues the proof as far as possible without blocking, and returns true once the node has
  /// proved its identity. Throws connection_displaced, or error with the reason if the proof fails
  /// or the server refuses the connection.
  [[nodiscard]] bool advance();

  [[nodiscard]] stream& connection() noexcept { return *connection_; }
  /// Returns the signed request once the node has proved its identity. The caller sends it next.
  [[nodiscard]] const connect_request& request() const noexcept { return request_; }
  [[nodiscard]] std::unique_ptr<stream> take() noexcept { return std::move(connection_); }

 private:
  [[nodiscard]] bool has_shaken_hands();
  [[nodiscard]] bool has_replied();

  std::unique_ptr<stream> connection_;
  std::shared_ptr<const job_credentials> credentials_;
  connect_request request_;

  // ---- unencrypted
  challenge challenge_;
  acceptor_reply reply_;
  std::size_t have_ = 0; ///< number of bytes of the reply that were received
};

} // namespace farcall::tcp
