// SPDX-License-Identifier: Apache-2.0

// Reads a node's card from arbitrary bytes: gives a card or an error, and a card that was read can
// be encoded again.

#include <farcall/base/error.hpp>
#include <farcall/transport/card.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A separate allocation, so that AddressSanitizer detects reads past the end.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  try {
    const farcall::card c = farcall::decode_card(bytes);
    const std::vector<std::byte> again = farcall::encode(c);
    if (again.size() != bytes.size()) std::abort();
    if (farcall::encode(farcall::decode_card(again)) != again) std::abort();
    for (const farcall::memory_window& w : c.windows) {
      if (w.address + w.bytes < w.address) std::abort();
    }
  } catch (const farcall::error&) {
    return 0;
  }
  return 0;
}
