// SPDX-License-Identifier: Apache-2.0

// The handshake of a connection, at either end: preambles and admissions, nonces, proofs and
// connect requests, right and wrong ones, in pieces of any length. Only a peer that proves to
// belong to the job is admitted, each peer gets one decision, and bytes after the handshake stay
// unread. A peer of another version is refused by its first bytes, with one printable line that
// names both releases.

#include <farcall/base/error.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/node_proof.hpp>
#include <fuzz/memory_stream.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/epoll.h>

namespace {

namespace fc = farcall;
namespace tcp = fc::tcp;
using fc::fuzz::require;

constexpr fc::node_id self = 3;

/// Returns the credentials of a job whose key is fixed.
std::shared_ptr<const tcp::job_credentials> credentials_of(bool is_encrypted) {
  auto made = std::make_shared<tcp::job_credentials>();
  made->name.fill(std::byte{1});
  const std::vector<std::byte> key(tcp::job_key_bytes, std::byte{2});
  made->key = tcp::secret::copy_of(key);
  made->is_encrypted = is_encrypted;
  return made;
}

const std::shared_ptr<const tcp::job_credentials>& plain() {
  static const auto one = credentials_of(false);
  return one;
}
/// TLS itself is not tested: streams pass its bytes through.
const tcp::connection_security& encrypted() {
  static const tcp::connection_security one{credentials_of(true), credentials_of(true)->identity()};
  return one;
}

template <class T>
std::optional<T> at(std::span<const std::byte> bytes, std::size_t offset) {
  if (bytes.size() < offset + sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// A handshake in either direction, and its result.
class meeting {
 public:
  meeting() = default;
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;
  virtual ~meeting() = default;

  void run(fc::fuzz::script& from) {
    while (!from.is_over())
      do_one(from);
    // Handle the bytes that have arrived; then let the deadline pass.
    if (!is_decided_) loop().turn(fc::clock::now());
    loop().turn(fc::time_point::max());
    require(is_decided_);
    check();
  }

 protected:
  static fc::event_loop& loop() {
    static fc::event_loop one;
    return one;
  }
  static fc::time_point deadline() { return fc::clock::now() + std::chrono::hours(1); }

  /// Returns the callback for the result.
  auto told() {
    return [this](std::unique_ptr<tcp::stream> s, const tcp::connect_request& request,
                  const std::string& /*why*/) {
      require(!is_decided_);
      is_decided_ = true;
      stands_ = s != nullptr;
      request_ = request;
    };
  }

  /// The peer sends the right next message, or nearly so.
  virtual void send_right(fc::fuzz::script& from) = 0;
  virtual void give_up() {}
  virtual void check() = 0;

  /// Sends bytes unchanged, or with one byte changed.
  void send(std::span<const std::byte> bytes, fc::fuzz::script& from) {
    std::vector<std::byte> sent(bytes.begin(), bytes.end());
    const std::uint8_t change = from.byte();
    if (change < 0x40) sent[from.byte() % sent.size()] ^= std::byte{1};
    const std::size_t first = change < 0xa0 ? sent.size() : from.byte() % (sent.size() + 1);
    peer_->send(std::span(sent).first(first));
    if (first == sent.size()) return;
    loop().turn(fc::clock::now());
    peer_->send(std::span(sent).subspan(first));
  }

  std::shared_ptr<fc::fuzz::other_side> peer_ = std::make_shared<fc::fuzz::other_side>();
  bool is_decided_ = false;
  bool stands_ = false;
  tcp::connect_request request_;

 private:
  void do_one(fc::fuzz::script& from) {
    switch (from.byte() % 8) {
    case 0:
    case 1:
      peer_->send(from.bytes(from.byte() % 80));
      break;
    case 2:
    case 3:
    case 4:
      send_right(from);
      break;
    case 5:
      end(from.byte());
      break;
    default:
      loop().turn(fc::clock::now());
    }
  }

  void end(std::uint8_t how) {
    switch (how % 8) {
    case 0:
      peer_->has_ended = true;
      break;
    case 1:
      peer_->has_broken_off = true;
      break;
    case 2:
      give_up();
      break;
    case 3:
      loop().turn(fc::time_point::max());
      break;
    default:
      break;
    }
  }
};

/// A handshake of an incoming connection.
class arriving final : public meeting {
 public:
  arriving(bool is_encrypted, std::size_t space)
      : security_(is_encrypted ? encrypted() : tcp::connection_security{plain(), nullptr}),
        is_encrypted_(is_encrypted) {
    peer_->space = space;
    refuse_ = tcp::receive_connect_request(loop(), std::make_unique<fc::fuzz::memory_stream>(peer_),
                                           security_, self, deadline(), told());
  }

 private:
  void send_right(fc::fuzz::script& from) override {
    // First the nonce; any value is valid.
    if (!is_encrypted_ && peer_->sent.size() < sizeof(tcp::nonce)) {
      const std::vector<std::byte> rest(sizeof(tcp::nonce) - peer_->sent.size(), std::byte{7});
      send(rest, from);
      loop().turn(fc::clock::now());
      return;
    }
    tcp::connect_request request;
    request.serial = from.byte();
    request.kind = static_cast<tcp::connection_kind>(from.byte() % 8);
    request.from = from.byte();
    request.to = from.byte() < 0xf0 ? self : from.byte();
    tcp::sign(request, challenge(), *security_.credentials);
    send(bytes_of(request), from);
  }

  void give_up() override { refuse_("it is not wanted"); }

  [[nodiscard]] tcp::challenge challenge() const {
    tcp::challenge c;
    if (is_encrypted_) return c;
    if (const auto nonce = at<tcp::nonce>(peer_->sent, 0)) c.opener = *nonce;
    if (const auto reply = at<tcp::acceptor_reply>(peer_->received, 0)) c.acceptor = reply->fresh;
    return c;
  }

  void check() override {
    if (!peer_->received.empty()) {
      const auto reply = at<tcp::acceptor_reply>(peer_->received, 0);
      require(!is_encrypted_ && (!reply || peer_->received.size() == sizeof *reply));
      if (reply)
        require(tcp::is_reply_of(self, *reply, challenge().opener, *security_.credentials));
    }
    const std::size_t before = is_encrypted_ ? 0 : sizeof(tcp::nonce);
    require(peer_->read <= before + sizeof(tcp::connect_request));
    if (!stands_) return;
    const auto request = at<tcp::connect_request>(peer_->sent, before);
    require(request && peer_->read == before + sizeof *request);
    require(std::memcmp(&*request, &request_, sizeof request_) == 0 && request->to == self);
    require(tcp::is_signed(*request, challenge(), *security_.credentials));
  }

  tcp::connection_security security_;
  bool is_encrypted_;
  tcp::refusal refuse_;
};

/// A handshake of an outgoing connection.
class dialling final : public meeting {
 public:
  explicit dialling(std::size_t space) {
    peer_->space = space;
    wanted_.kind = tcp::connection_kind::lane;
    wanted_.from = self;
    wanted_.to = 5;
    try {
      proof_.emplace(std::make_unique<fc::fuzz::memory_stream>(peer_), plain(), wanted_);
      loop().add(proof_->connection().fd(), EPOLLIN,
                 std::make_shared<fc::function_handler>([this] { advance(); }));
    } catch (const fc::error&) {
      is_decided_ = true;
    }
    loop().at(deadline(), [this] { decide(false); });
  }

 private:
  void advance() {
    try {
      if (proof_->advance()) decide(true);
    } catch (const fc::error&) {
      decide(false);
    }
  }

  void decide(bool stands) {
    if (std::exchange(is_decided_, true)) return;
    loop().remove(proof_->connection().fd());
    stands_ = stands;
    request_ = proof_->request();
    proof_.reset();
  }

  void send_right(fc::fuzz::script& from) override {
    const auto nonce = at<tcp::nonce>(peer_->received, 0);
    if (!nonce) return;
    const fc::node_id who = from.byte() < 0xf0 ? wanted_.to : from.byte();
    send(bytes_of(tcp::reply_to(*nonce, who, *plain())), from);
  }

  void check() override {
    require(peer_->received.size() <= sizeof(tcp::nonce));
    require(peer_->read <= sizeof(tcp::acceptor_reply));
    if (!stands_) return;
    const auto nonce = at<tcp::nonce>(peer_->received, 0);
    const auto reply = at<tcp::acceptor_reply>(peer_->sent, 0);
    require(nonce && reply && peer_->read == sizeof *reply);
    require(tcp::is_reply_of(wanted_.to, *reply, *nonce, *plain()));
    require(request_.to == wanted_.to && request_.from == self);
    require(tcp::is_signed(request_, {*nonce, reply->fresh}, *plain()));
  }

  tcp::connect_request wanted_;
  std::optional<tcp::node_proof> proof_;
};

std::string refusal_of(const tcp::preamble& first) { return tcp::flaw_of(first); }

std::string refusal_of(const tcp::admission_message& reply) {
  try {
    tcp::require_admission(reply);
    return {};
  } catch (const fc::error& e) {
    require(*e.what() != '\0');
    return e.what();
  }
}

/// Reads the beginning of a preamble or admission, as its reader does. Returns the message if it is
/// decided and has no flaw.
template <class Message>
std::optional<Message> read_first(std::span<const std::byte> bytes) {
  Message m;
  const std::size_t have = std::min(bytes.size(), sizeof m);
  std::memcpy(&m, bytes.data(), have);
  const std::size_t deciding = tcp::deciding_bytes(m, have);
  require(deciding <= sizeof m);
  if (have < deciding) return std::nullopt;
  const std::string flaw = refusal_of(m);
  if (flaw.empty()) {
    require(have == sizeof m);
    return m;
  }
  fc::fuzz::require_line(flaw);
  if (m.magic == tcp::preamble_magic && m.version != tcp::connection_version) {
    const std::string version = "connection version " + std::to_string(m.version) + ")";
    require(flaw.find("farcall " + fc::release_text(fc::this_release)) != std::string::npos);
    require(flaw.find(version) != std::string::npos);
    if (m.version >= tcp::first_connection_version_with_release)
      require(flaw.find("farcall " + fc::release_text(m.release)) != std::string::npos);
  }
  // Bytes that may not have arrived yet change nothing.
  std::memset(reinterpret_cast<std::byte*>(&m) + deciding, 0x5a, sizeof m - deciding);
  require(refusal_of(m) == flaw);
  return std::nullopt;
}

void read_preamble(std::span<const std::byte> bytes) {
  const auto first = read_first<tcp::preamble>(bytes);
  if (!first) return;
  require(first->magic == tcp::preamble_magic && first->version == tcp::connection_version);
  require(first->kind >= tcp::connection_kind::control &&
          first->kind <= tcp::connection_kind::join && first->is_encrypted <= 1);
}

void read_admission(std::span<const std::byte> bytes) {
  const auto reply = read_first<tcp::admission_message>(bytes);
  if (!reply) return;
  require(reply->magic == tcp::preamble_magic && reply->version == tcp::connection_version &&
          reply->word == tcp::admission::come_in);
}

/// Returns the bytes as the beginning of a preamble or admission of any version.
std::vector<std::byte> with_magic(std::uint8_t version, std::span<const std::byte> bytes) {
  std::vector<std::byte> all(12);
  const std::uint32_t number = version;
  std::memcpy(all.data(), &tcp::preamble_magic, sizeof tcp::preamble_magic);
  std::memcpy(all.data() + 8, &number, sizeof number);
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fc::fuzz::script from(data, size);
  const std::uint8_t how = from.byte();
  // The first message is accepted whole, unless the connection is already broken.
  const std::size_t space = how >= 0xf0 ? how - 0xf0 : 4096;
  switch (how % 4) {
  case 0: {
    const std::uint8_t version = from.byte();
    const auto bytes = from.bytes(size);
    for (const auto& all : {with_magic(version, bytes), std::vector(bytes.begin(), bytes.end())}) {
      read_preamble(all);
      read_admission(all);
    }
    break;
  }
  case 1:
    arriving(true, space).run(from);
    break;
  case 2:
    arriving(false, space).run(from);
    break;
  default:
    dialling(space).run(from);
  }
  return 0;
}
