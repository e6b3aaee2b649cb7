// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall::tcp {

/// Returns the public name of the job with this key. The name is a hash of the key, so that only
/// holders of the key can ask a server for nodes of the job. Throws error.
[[nodiscard]] job_name job_name_of(const secret& key);

/// Name and key by which the nodes of one job recognise each other.
struct job_credentials {
  job_name name{}; ///< job_name_of(key)
  secret key;      ///< job_key_bytes bytes; also the key of encrypted connections
  bool is_encrypted = false;

  /// Makes the credentials of a new job.
  [[nodiscard]] static job_credentials make(bool is_encrypted);
  [[nodiscard]] job_credentials copy() const;

  /// Returns the TLS identity that encrypts the job's connections, or null if they are not
  /// encrypted. Throws error.
  [[nodiscard]] std::shared_ptr<const tls_identity> identity() const;
};

/// Signs a request with the job's key. `c` has the nonces of both ends. Inside TLS, which proves
/// freshness itself, both are zero. Throws error.
void sign(connect_request& request, const challenge& c, const job_credentials& job);
[[nodiscard]] bool is_signed(const connect_request& request, const challenge& c,
                             const job_credentials& job);

/// Makes the reply by which node `self` accepts an unencrypted connection. The reply proves that
/// `self` has the job's key. The opener checks the reply before it sends its request.
[[nodiscard]] acceptor_reply reply_to(const nonce& opener, node_id self,
                                      const job_credentials& job);
[[nodiscard]] bool is_reply_of(node_id to, const acceptor_reply& reply, const nonce& opener,
                               const job_credentials& job);

} // namespace farcall::tcp
