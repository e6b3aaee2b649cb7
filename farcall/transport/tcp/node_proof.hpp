#pragma once

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace farcall::tcp {

/// The other end has ended the connection without a word before it had proved itself, as a server
/// or a node does that has too many unproved connections: nothing of the request has been sent.
class connection_displaced : public error {
 public:
  using error::error;
};

/// What follows the preamble, for who dials: the other end proves that it is the node which the
/// request names, by the TLS handshake or by its reply to our nonce. Never waits.
class node_proof {
 public:
  /// `connection` is encrypted if the job's are, for that node then (see tls_client()). Throws
  /// error where it takes nothing any more.
  node_proof(std::unique_ptr<stream> connection, std::shared_ptr<const job_credentials> credentials,
             const connect_request& request);

  /// Goes on as far as it can; true once the node has proved itself. Throws error with the reason
  /// why it has not, or why the server does not let us through to it; connection_displaced.
  [[nodiscard]] bool advance();

  [[nodiscard]] stream& connection() noexcept { return *connection_; }
  /// Once it has proved itself: what goes over the connection next, signed.
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
  std::size_t have_ = 0; ///< of the reply
};

} // namespace farcall::tcp
