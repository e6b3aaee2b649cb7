// SPDX-License-Identifier: Apache-2.0

// Matches the names of a peer's callables with ours, both from arbitrary bytes. A match is a row
// with exactly the same name and signature, which occurs once.

#include <farcall/base/error.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/pack.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

using name_list = std::vector<std::pair<std::string, std::string>>;

void require(bool condition) {
  if (!condition) std::abort();
}

struct release_memory {
  void operator()(std::byte* memory) const {
    ::operator delete[](memory, std::align_val_t{farcall::body_alignment});
  }
};

/// Returns how often a row occurs among the entries of a table.
auto occurrences(const name_list& table, const name_list::value_type& row) {
  return std::count(table.begin() + farcall::function_registry::first_index, table.end(), row);
}

void check(const name_list& own, const name_list& peer) {
  const std::vector<std::uint32_t> matches = farcall::match_tables(own, peer);
  require(matches.size() >= own.size());
  for (std::size_t row = 0; row < own.size(); ++row) {
    const std::uint32_t match = matches[row];
    if (row < farcall::function_registry::first_index) {
      require(match == 0);
      continue;
    }
    // A lambda that the compiler has numbered by file may be another one in the other program.
    const bool numbered = own[row].first.find("$_") != std::string::npos;
    const bool unique =
        !peer.empty() && occurrences(own, own[row]) == 1 && occurrences(peer, own[row]) == 1;
    require((match != 0) == (unique && !numbered));
    if (match == 0) continue;
    require(match < peer.size());
    require(peer[match] == own[row]);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Aligned like a message, and exactly as long.
  const std::unique_ptr<std::byte[], release_memory> bytes(
      new (std::align_val_t{farcall::body_alignment}) std::byte[size]);
  if (size != 0) std::memcpy(bytes.get(), data, size);
  try {
    farcall::reader r(bytes.get(), size);
    const auto peer = r.read<name_list>();
    const auto own = r.read<name_list>();
    // Limited, since the search below is quadratic.
    if (own.size() > 100 || peer.size() > 100) return 0;
    check(own, peer);
    check(peer, own);
    check(peer, peer);
  } catch (const farcall::malformed_message&) {
    return 0;
  }
  return 0;
}
