#pragma once

#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall::tcp {

/// Public name of the job with that key. A name follows from its key, so that nobody else can ask a
/// server for nodes of the job. Throws error.
[[nodiscard]] job_name job_name_of(const secret& key);

/// What the nodes of one job know each other by.
struct job_credentials {
  job_name name{}; ///< job_name_of(key)
  secret key;      ///< job_key_bytes; the key of encrypted connections, too
  bool is_encrypted = false;

  /// For a new job.
  [[nodiscard]] static job_credentials make(bool is_encrypted);
  [[nodiscard]] job_credentials copy() const;

  /// What the job's connections are encrypted with; null where they are not. Throws error.
  [[nodiscard]] std::shared_ptr<const tls_identity> identity() const;
};

/// Says that a connection is what it is said to be, by one who knows the job's key. `c` has the
/// nonces of both ends, or zeros inside TLS, which proves that it is fresh. Throws error.
void sign(connect_request& request, const challenge& c, const job_credentials& job);
[[nodiscard]] bool is_signed(const connect_request& request, const challenge& c,
                             const job_credentials& job);

/// The same of the end that accepts an unencrypted connection, node `self`, before it is told
/// anything.
[[nodiscard]] acceptor_reply reply_to(const nonce& opener, node_id self,
                                      const job_credentials& job);
[[nodiscard]] bool is_reply_of(node_id to, const acceptor_reply& reply, const nonce& opener,
                               const job_credentials& job);

} // namespace farcall::tcp
