// SPDX-License-Identifier: Apache-2.0
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

/// Returns the part of a peer's address that a client cannot choose freely: an IPv4 address, or the
/// first 48 bits of an IPv6 address, which denote a site. Returns "loopback" for loopback
/// addresses, because every local user can use all of them. `peer` is an address with its port. For
/// any other text, returns the part before the last colon, or the whole text if there is no colon.
[[nodiscard]] std::string source_of(const std::string& peer);

/// Returns the limit of unproved connections, which is an eighth of the descriptors that the
/// process may open, at least 8 and at most `most`.
[[nodiscard]] std::size_t unproved_limit(std::size_t most) noexcept;

/// Holds the numbers of connections by their sources, up to a limit. If the limit is reached, a
/// further connection displaces a random connection of the source that has the most. A flood
/// therefore displaces its own connections: sources with few connections are left alone, and a good
/// connection from the flood's source has a chance. The idea is from sshd's MaxStartups and
/// PerSourceMaxStartups.
class connection_sources {
 public:
  explicit connection_sources(std::size_t most);

  void add(std::uint64_t connection, const std::string& source);
  /// Removes a connection; does nothing if the connection is unknown.
  void remove(std::uint64_t connection, const std::string& source) noexcept;
  /// Returns the connection that must be removed before the next add(); nullopt while there is
  /// space.
  [[nodiscard]] std::optional<std::uint64_t> displaced();

 private:
  std::size_t max_;
  std::size_t size_ = 0;
  std::map<std::string, std::vector<std::uint64_t>> by_source_;
  std::mt19937 random_;
};

/// Up to `most` connections whose peers have not sent their request, or have not proved their
/// identity. The owner keeps data of its own with each of them.
template <class Peer>
class unproved_peers {
 public:
  explicit unproved_peers(std::size_t most) : sources_(most) {}

  /// Adds a peer, with its address as text. Returns its number, which no other peer has had or will
  /// have.
  std::uint64_t add(const std::string& address, Peer peer) {
    const std::uint64_t number = ++last_;
    const auto at = all_.emplace(number, entry{source_of(address), std::move(peer)}).first;
    sources_.add(number, at->second.source);
    return number;
  }
  /// Returns the peer with this number, or null if take() has removed it.
  [[nodiscard]] Peer* find(std::uint64_t number) noexcept {
    const auto at = all_.find(number);
    return at == all_.end() ? nullptr : &at->second.peer;
  }
  /// Removes the peer with this number and returns it; nullopt if it was removed before.
  std::optional<Peer> take(std::uint64_t number) noexcept {
    const auto at = all_.find(number);
    if (at == all_.end()) return std::nullopt;
    sources_.remove(number, at->second.source);
    std::optional<Peer> taken(std::move(at->second.peer));
    all_.erase(at);
    return taken;
  }
  /// Returns the number of the peer that must be removed before the next add(); nullopt while there
  /// is space.
  [[nodiscard]] std::optional<std::uint64_t> displaced() { return sources_.displaced(); }
  /// Returns the number of the peer that was added first; nullopt if there is none.
  [[nodiscard]] std::optional<std::uint64_t> first() const noexcept {
    return all_.empty() ? std::nullopt : std::optional(all_.begin()->first);
  }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  /// Returns how many peers were ever added.
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
