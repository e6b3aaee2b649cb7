#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace farcall::tcp {

/// Network of a peer, as far as one party can choose addresses in it: an IPv4 address, the first 48
/// bits of an IPv6 address, which are a site, or the loopback network, where each user of the
/// machine has all addresses. `peer` is an address as text, with its port; of one that cannot be
/// read, the text.
[[nodiscard]] std::string source_of(const std::string& peer);

/// Connections that may be unproved at a time: an eighth of the descriptors that the process may
/// have, at least 8, and at most `most`.
[[nodiscard]] std::size_t unproved_limit(std::size_t most) noexcept;

/// Numbers of connections by their sources. There is room for some; who comes then displaces one at
/// random of the source that has the most. So a flood displaces itself: a source of few is left
/// alone, and one of its own comes through with luck. After sshd's MaxStartups and
/// PerSourceMaxStartups.
class connection_sources {
 public:
  explicit connection_sources(std::size_t most);

  void add(std::uint64_t connection, const std::string& source);
  /// Unknown ones are ignored.
  void remove(std::uint64_t connection, const std::string& source) noexcept;
  /// Which is to be removed before another is added; nothing while there is room.
  [[nodiscard]] std::optional<std::uint64_t> displaced();

 private:
  std::size_t most_;
  std::size_t size_ = 0;
  std::map<std::string, std::vector<std::uint64_t>> by_source_;
  std::mt19937 random_;
};

/// Connections that have not said, or not proved, yet what they want, and what their owner keeps of
/// each. There is room for `most`.
template <class Peer>
class unproved_peers {
 public:
  explicit unproved_peers(std::size_t most) : sources_(most) {}

  /// `address` is the peer's, as text. Its number, which no other has had or will have.
  std::uint64_t add(const std::string& address, Peer peer) {
    const std::uint64_t number = ++last_;
    const auto at = all_.emplace(number, entry{source_of(address), std::move(peer)}).first;
    sources_.add(number, at->second.source);
    return number;
  }
  /// Null: it was taken.
  [[nodiscard]] Peer* find(std::uint64_t number) noexcept {
    const auto at = all_.find(number);
    return at == all_.end() ? nullptr : &at->second.peer;
  }
  /// It is none of them any more; nothing: it was not.
  std::optional<Peer> take(std::uint64_t number) noexcept {
    const auto at = all_.find(number);
    if (at == all_.end()) return std::nullopt;
    sources_.remove(number, at->second.source);
    std::optional<Peer> taken(std::move(at->second.peer));
    all_.erase(at);
    return taken;
  }
  /// Which is to be taken before another is added; nothing while there is room.
  [[nodiscard]] std::optional<std::uint64_t> displaced() { return sources_.displaced(); }
  /// The one that came first; nothing: there is none.
  [[nodiscard]] std::optional<std::uint64_t> first() const noexcept {
    return all_.empty() ? std::nullopt : std::optional(all_.begin()->first);
  }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  /// That were ever added.
  [[nodiscard]] std::uint64_t added() const noexcept { return last_; }

 private:
  struct entry {
    std::string source;
    Peer peer;
  };
  connection_sources sources_;
  std::map<std::uint64_t, entry> all_;
  std::uint64_t last_ = 0;
};

} // namespace farcall::tcp
