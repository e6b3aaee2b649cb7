// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/call/program_image.hpp>

#include <cstdint>
#include <span>

namespace farcall {

/// Keys of a peer for the callables of this program, by row of the function registry. All lanes to
/// the peer share one object. The object is constant, so any thread may read it.
class peer_keys {
 public:
  /// Returns a new object with a copy of `keys`. The copy is in the memory directly behind the
  /// object, so that a lane, which has a pointer to the object, finds a key without following a
  /// second pointer. `image` is this program if the peer runs the same build, else null. The caller
  /// must delete the object. Throws std::bad_alloc.
  [[nodiscard]] static const peer_keys* make(std::span<const am::handler_key> keys,
                                             const program_image* image);
  peer_keys(const peer_keys&) = delete;
  peer_keys& operator=(const peer_keys&) = delete;
  ~peer_keys() = default;
  // NOLINTNEXTLINE(misc-new-delete-overloads): make() allocates, for object and keys together
  static void operator delete(void* memory) noexcept { ::operator delete(memory); }

  [[nodiscard]] am::handler_key operator[](std::uint32_t row) const noexcept {
    return reinterpret_cast<const am::handler_key*>(this + 1)[row];
  }
  /// Returns this program if the peer runs the same build and so has its functions at the same
  /// offsets. Returns null if the peer runs another build.
  [[nodiscard]] const program_image* common_image() const noexcept { return common_image_; }

 private:
  explicit peer_keys(const program_image* image) noexcept : common_image_(image) {}

  const program_image* common_image_;
};

} // namespace farcall
