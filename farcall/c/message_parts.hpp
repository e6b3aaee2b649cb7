// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/future.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/farcall.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace farcall::c {

/// The bytes that a program sends in a call, in one part or several. Refers to the memory of the
/// program.
class message_parts {
 public:
  /// Throws invalid_argument if a part has no address, or if the sizes are larger than any object
  /// can be.
  message_parts(const fc_bytes* parts, std::size_t count) {
    if (count != 0) require(parts, "parts");
    parts_ = {parts, count};
    for (const fc_bytes& part : parts_) {
      if (part.size != 0) require(part.at, "bytes");
      require_size(part.size);
      // The sum cannot overflow, because both numbers are below half of the largest size.
      bytes_ += part.size;
      require_size(bytes_);
    }
  }

  /// Returns the payload of a message that contains the parts one after the other.
  [[nodiscard]] auto payload() const noexcept {
    const auto copy = [parts = parts_](std::byte* to) noexcept {
      for (const fc_bytes& part : parts) {
        if (part.size != 0) std::memcpy(to, part.at, part.size);
        to += part.size;
      }
    };
    return payload_in_place<decltype(copy)>{bytes_, copy};
  }

 private:
  std::span<const fc_bytes> parts_;
  std::size_t bytes_ = 0;
};

/// Starts a call for fc_call_async() and the like, and returns its future, which the caller owns.
/// `send_by` is the deadline of the sending, and the deadline of `where` limits the wait for the
/// reply. Throws timeout if the call was not sent.
[[nodiscard]] fc_future* start_future(const fc_node& where, fc_function function,
                                      const message_parts& bytes, time_point send_by);

} // namespace farcall::c
