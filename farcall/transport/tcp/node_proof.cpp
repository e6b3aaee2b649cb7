// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/node_proof.hpp>

#include <optional>
#include <span>
#include <string>

#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// Returns the reason for which a server refuses to pass the connection on to the node, or for
/// which a process of another version refuses the connection; nullopt if there is none. The reason
/// comes as an admission in place of the node's proof. Reads the admission without taking it from
/// the socket. TLS may already have taken the first `taken` bytes.
std::optional<std::string> refusal_at(int socket, std::size_t taken) {
  admission_message said;
  const ssize_t got = ::recv(socket, reinterpret_cast<std::byte*>(&said) + taken,
                             sizeof said - taken, MSG_PEEK | MSG_DONTWAIT);
  if (got <= 0) return std::nullopt;
  const std::size_t have = taken + static_cast<std::size_t>(got);
  if (have < deciding_bytes(said, have) || said.magic != preamble_magic) return std::nullopt;
  return refusal_text(said);
}

} // namespace

node_proof::node_proof(std::unique_ptr<stream> connection,
                       std::shared_ptr<const job_credentials> credentials,
                       const connect_request& request)
    : connection_(std::move(connection)), credentials_(std::move(credentials)), request_(request) {
  if (credentials_->is_encrypted) return;
  challenge_.opener = new_nonce();
  const iovec ours{challenge_.opener.data(), challenge_.opener.size()};
  // An incomplete write means that the connection is broken, because the send buffer of a new
  // socket is empty and has space for the nonce.
  if (connection_->write({&ours, 1}).bytes != ours.iov_len)
    throw connection_displaced("it has cut the connection: " + connection_->failure());
}

bool node_proof::advance() {
  if (have_ == 0) {
    if (const auto why = refusal_at(connection_->fd(), 0)) throw error(*why);
  }
  return credentials_->is_encrypted ? has_shaken_hands() : has_replied();
}

bool node_proof::has_shaken_hands() {
  const io_status status = connection_->establish();
  if (status == io_status::would_block) return false;
  if (status != io_status::done) {
    // Look again for a server's refusal, because it may have arrived after advance() has looked.
    // OpenSSL has then already read the refusal's first bytes as the head of a record.
    constexpr std::size_t record_head = 5;
    if (const auto refusal = refusal_at(connection_->fd(), record_head)) throw error(*refusal);
    const std::string why = connection_->failure();
    if (status == io_status::closed || connection_->was_broken_off())
      throw connection_displaced(why);
    throw error(why);
  }
  sign(request_, {}, *credentials_);
  return true;
}

bool node_proof::has_replied() {
  while (have_ < sizeof reply_) {
    const iovec rest{reinterpret_cast<std::byte*>(&reply_) + have_, sizeof reply_ - have_};
    const io_result got = connection_->read({&rest, 1});
    if (got.status == io_status::would_block) return false;
    if (got.status != io_status::done) {
      throw connection_displaced(
          "it ended the connection before it had proved that it is of the job");
    }
    have_ += got.bytes;
  }
  if (!is_reply_of(request_.to, reply_, challenge_.opener, *credentials_)) {
    throw error("another node, or none of the job, has replied: a party on the network path may "
                "have redirected the connection");
  }
  challenge_.acceptor = reply_.fresh;
  sign(request_, challenge_, *credentials_);
  return true;
}

} // namespace farcall::tcp
