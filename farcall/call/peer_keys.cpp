// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/peer_keys.hpp>

#include <memory>
#include <new>

namespace farcall {

const peer_keys* peer_keys::make(std::span<const am::handler_key> keys,
                                 const program_image* image) {
  void* const memory = ::operator new(sizeof(peer_keys) + keys.size_bytes());
  auto* const made = new (memory) peer_keys(image);
  std::uninitialized_copy(keys.begin(), keys.end(), reinterpret_cast<am::handler_key*>(made + 1));
  return made;
}

} // namespace farcall
