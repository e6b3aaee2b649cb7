#pragma once

#include <farcall/memory/record.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

/// What the records of a lane look like (docs/wire.md). The requester sends requests, the responder
/// replies; nothing else is ever sent.
namespace farcall::am {

/// Number of a handler on the node that runs it.
using handler_key = std::uint32_t;

/// Handlers that the layer itself needs; the user's follow from first_user_key.
inline constexpr handler_key release_reply_key = 0;
inline constexpr handler_key fence_key = 1; ///< does nothing, and gets a reply
inline constexpr handler_key first_user_key = 16;
/// Few bytes to and from the memory of a peer that has a memory_domain (docs/wire.md).
inline constexpr handler_key write_memory_key = 2;
inline constexpr handler_key read_memory_key = 3;
inline constexpr handler_key stop_call_key = 4; ///< a stop_message
/// Tells the number by which the caller's events name the lane, in `extra` (docs/wire.md).
inline constexpr handler_key name_lane_key = 5;

/// The type named by an error reply to a request that was refused because too many handlers wait.
inline constexpr std::string_view nested_too_deep_type = "farcall::nested_too_deep";

/// The slot of a request that wants no reply.
inline constexpr std::uint32_t no_slot = UINT32_MAX;

struct request_header {
  record_header record;
  handler_key key;
  std::uint32_t extra; ///< four bytes for the handler, so that a small argument needs no body
};
static_assert(sizeof(request_header) == 16);

/// Body of request_rendezvous and reply_rendezvous: where the bytes lie in the sender's memory.
struct rendezvous_body {
  std::uint64_t address;
  std::uint64_t bytes;
};
static_assert(sizeof(rendezvous_body) == 16);

/// The bytes that a rendezvous_body names start at a multiple of this.
inline constexpr std::uint64_t rendezvous_alignment = 16;

/// Precedes the arguments, or the rendezvous_body, of a call that its caller can stop.
struct stoppable_prefix {
  std::uint64_t id; ///< unique among the calls that the caller's node has under way
  std::uint64_t reserved;
};
static_assert(sizeof(stoppable_prefix) == 16);

enum class stop_action : std::uint32_t {
  stop = 1,   ///< the call is not to begin, or, if it has, is told
  forget = 2, ///< the call has ended, and the stop may have found nothing
};

/// Arguments of stop_call_key.
struct stop_message {
  stop_action action;
  std::uint32_t reserved;
  std::uint64_t id; ///< as in its stoppable_prefix
};
static_assert(sizeof(stop_message) == 16);

/// Bytes of text in a refusal that a requester shows.
inline constexpr std::size_t longest_refusal = 200;

inline constexpr std::uint32_t request_body = sizeof(request_header);
inline constexpr std::uint32_t reply_body = sizeof(record_header);

/// rendezvous_body starts 16 bytes into both kinds of rendezvous record, so that it is aligned in a
/// reply too.
inline constexpr std::uint32_t rendezvous_body_at = 16;
inline constexpr std::uint32_t rendezvous_record_bytes =
    rendezvous_body_at + sizeof(rendezvous_body);

} // namespace farcall::am
