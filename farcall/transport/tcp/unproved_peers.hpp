#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace farcall::tcp {

/// The network that a peer is in, as far as its owner can choose addresses: its IPv4 address, or
/// the first 64 bits of its IPv6 address. `peer` is an address as text, with its port; of one that
/// cannot be read, the text.
[[nodiscard]] std::string source_of(const std::string& peer);

/// Connections that have not said, or not proved, yet what they want, by their sources. There is
/// room for some; who comes then displaces one at random of the source that has the most. So a
/// flood displaces itself: a source of few is left alone, and one of its own comes through with
/// luck. After sshd's MaxStartups and PerSourceMaxStartups.
class unproved_peers {
 public:
  explicit unproved_peers(std::size_t most);

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

} // namespace farcall::tcp
