// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/record.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Layout of the records of a lane (docs/wire.md). The requester sends requests and the responder
/// sends replies; a lane carries nothing else.
namespace farcall::am {

/// Number that identifies a handler on the node that runs it.
using handler_key = std::uint32_t;

/// Keys of the handlers that the active-message layer itself needs. The user's keys begin at
/// first_user_key.
inline constexpr handler_key release_reply_key = 0;
inline constexpr handler_key fence_key = 1; ///< does nothing except reply
inline constexpr handler_key first_user_key = 16;
/// Keys of the handlers that write and read the memory of a peer that has a memory_domain, a few
/// bytes at a time (docs/wire.md).
inline constexpr handler_key write_memory_key = 2;
inline constexpr handler_key read_memory_key = 3;
inline constexpr handler_key stop_call_key = 4; ///< carries a stop_message
/// Key of the handler with which a node learns the number of a lane in the caller's trace events.
/// With this number, the timelines of both nodes name the lane alike. The number is sent in `extra`
/// (docs/wire.md).
inline constexpr handler_key name_lane_key = 5;

/// Type name of the error with which a node refuses a request because too many of its handlers are
/// waiting.
inline constexpr std::string_view nested_too_deep_type = "farcall::nested_too_deep";

/// Slot number in a request for which the caller wants no reply.
inline constexpr std::uint32_t no_slot = UINT32_MAX;

struct request_header {
  record_header record;
  handler_key key;
  std::uint32_t extra; ///< argument of four bytes in the header, so that a small call needs no body
};
static_assert(sizeof(request_header) == 16);

/// Body of a rendezvous request or reply: the address and size of the data in the sender's memory.
struct rendezvous_body {
  std::uint64_t address;
  std::uint64_t bytes;
};
static_assert(sizeof(rendezvous_body) == 16);

/// Alignment, in bytes, of the data to which a rendezvous_body refers.
inline constexpr std::uint64_t rendezvous_alignment = 16;

/// Bytes at the beginning of a stoppable call's body. The arguments, or the rendezvous_body,
/// follow.
struct stoppable_prefix {
  /// Number of the call, unique among the calls that the caller's node has in flight.
  std::uint64_t id;
  std::uint64_t reserved;
};
static_assert(sizeof(stoppable_prefix) == 16);

enum class stop_action : std::uint32_t {
  stop = 1,   ///< do not begin the call, or stop it if it has begun already
  forget = 2, ///< the call has ended, so a stop request for it can be dropped
};

/// Arguments of stop_call_key.
struct stop_message {
  stop_action action;
  std::uint32_t reserved;
  std::uint64_t id; ///< number of the call, as in its stoppable_prefix
};
static_assert(sizeof(stop_message) == 16);

/// Longest text of a refusal, in bytes, that a requester shows. The rest is truncated.
inline constexpr std::size_t max_refusal = 200;

inline constexpr std::uint32_t request_body = sizeof(request_header);
inline constexpr std::uint32_t reply_body = sizeof(record_header);

/// Offset of the rendezvous_body from the beginning of a rendezvous request or rendezvous reply.
/// The offset is 16 in both, although the header of a reply is shorter, so that the body is
/// aligned.
inline constexpr std::uint32_t rendezvous_body_at = 16;
inline constexpr std::uint32_t rendezvous_record_bytes =
    rendezvous_body_at + sizeof(rendezvous_body);

} // namespace farcall::am
