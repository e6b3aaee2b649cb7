// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/lane_messages.hpp>

#include <cstddef>
#include <cstdint>

/// Messages between nodes over UCX, that is, the ids and headers of UCX active messages. The bytes
/// of a lane or a copy are sent unencoded, as the data of the message.
namespace farcall::ucx {

/// Kinds of messages. The messages of lanes have the numbers and the headers of lane_message.
enum class message : std::uint16_t {
  put = last_lane_message + 1, ///< bytes of a put, with a copy_header
  done,                        ///< reply to a put, with a copy_header
  get,                         ///< request of a get, with a copy_header
  data,                        ///< reply to a get, with a copy_header and the bytes
};
inline constexpr unsigned last_message = 9;

enum class copy_status : std::uint32_t { done = 0, refused = 1 };

struct copy_header {
  std::uint64_t key = 0; ///< the receiver's key
  std::uint32_t from = 0;
  copy_status status = copy_status::done; ///< set in replies
  std::uint64_t id = 0;                   ///< chosen by the requester
  std::uint64_t address = 0;              ///< in the responder's memory
  std::uint64_t bytes = 0;
};

/// Upper bound of the sizes of all headers.
inline constexpr std::size_t max_header = sizeof(copy_header);
static_assert(max_header == 40 && max_header >= sizeof(open_header));

} // namespace farcall::ucx
