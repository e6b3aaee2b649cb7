#pragma once

#include <farcall/transport/lane_messages.hpp>

#include <cstddef>
#include <cstdint>

/// What nodes send each other over UCX: the ids and the headers of its active messages. Bytes of a
/// lane, and those of a copy, are the message's data and have no form of their own.
namespace farcall::ucx {

/// Those of lanes have the numbers of lane_message, and their headers.
enum class message : std::uint16_t {
  put = last_lane_message + 1, ///< copy_header, and the bytes
  done,                        ///< copy_header: the answer to a put
  get,                         ///< copy_header
  data,                        ///< copy_header, and the bytes: the answer to a get
};
inline constexpr unsigned last_message = 9;

enum class copy_status : std::uint32_t { done = 0, refused = 1 };

struct copy_header {
  std::uint64_t key = 0; ///< the receiver's
  std::uint32_t from = 0;
  copy_status status = copy_status::done; ///< of an answer
  std::uint64_t id = 0;                   ///< chosen by who asks
  std::uint64_t address = 0;              ///< of who is asked
  std::uint64_t bytes = 0;
};

/// All headers have at most this size.
inline constexpr std::size_t most_header = sizeof(copy_header);
static_assert(most_header == 40 && most_header >= sizeof(open_header));

} // namespace farcall::ucx
