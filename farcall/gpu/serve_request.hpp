// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>

#include <cstddef>
#include <cstdint>

/// Steps by which a worker serves a request, besides running the request's handler. Each step is
/// called in the subgroup that serves the request, by the subgroup's first thread unless the step's
/// comment says that the whole subgroup calls it.
namespace farcall::am::device_detail {

/// Fills the team's shared state from the request whose words are in `message`. The worker calls it
/// before the handler.
FARCALL_HOST_DEVICE inline void prepare(device_team_state& s, cuda::device_endpoint& from,
                                        const std::uint32_t* message) noexcept {
  const std::byte* record = from.record_of(message);
  const auto* header = reinterpret_cast<const request_header*>(record);
  const std::uint32_t bytes = cuda::record_bytes(message[0]);
  s.request_slot = header->record.slot;
  s.is_told_at_once = bytes > cuda::slot_bytes;
  device_request& r = s.request;
  r.arguments = record + request_body;
  r.bytes = bytes - request_body;
  r.extra = header->extra;
  r.is_unknown = false;
  r.has_failed = 0;
  r.is_pure = false;
  r.is_by_all = false;
  r.reply_bytes = 0;
  r.short_reply = reinterpret_cast<std::byte*>(s.reply) + reply_body;
  r.long_reply_space = from.ring_bytes / cuda::bounce_buffers - reply_body;
  r.long_reply = from.block->bounce_buffer(from.next_bounce_offset(), from.ring_bytes) + reply_body;
}

/// Returns the entry of the device's table for the prepared request's key: a code address or a
/// device_code_address.
FARCALL_HOST_DEVICE inline std::uint64_t code_of(device_team_state& s) noexcept {
  const std::uint32_t key =
      reinterpret_cast<const request_header*>(s.request.arguments - request_body)->key;
  handler_cache& c = s.handlers;
  const std::uint32_t place = key % handler_cache::places;
  if (c.key[place] != key) {
    if (key >= s.setup.handler_count) return static_cast<std::uint64_t>(device_code_address::none);
    c.code[place] = s.setup.handlers[key];
    c.key[place] = key;
  }
  return c.code[place];
}
/// Empties the cache. Called before the first request. Stores in each place a key that belongs to
/// another place, so that no look-up matches.
FARCALL_HOST_DEVICE inline void clear(handler_cache& c) noexcept {
  for (std::uint32_t i = 0; i < handler_cache::places; ++i)
    c.key[i] = i + 1;
}

/// Copies bytes with all threads of a subgroup. Copies words of 8 bytes if both addresses are
/// aligned.
template <class Team>
FARCALL_HOST_DEVICE void copy_bytes(Team& team, std::byte* to, const std::byte* from,
                                    std::uint32_t count) noexcept {
  constexpr std::uint32_t word = sizeof(std::uint64_t);
  const std::uint64_t addresses =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  const std::uint32_t words = addresses % word == 0 ? count / word : 0;
  auto* const to_words = reinterpret_cast<std::uint64_t*>(to);
  const auto* const from_words = reinterpret_cast<const std::uint64_t*>(from);
  const std::uint32_t first = team.subgroup_rank();
  const std::uint32_t step = team.subgroup_size();
  for (std::uint32_t i = first; i < words; i += step)
    to_words[i] = from_words[i];
  for (std::uint32_t i = words * word + first; i < count; i += step)
    to[i] = from[i];
}

/// Copies the bytes of a read or write request. Called by the whole subgroup. Such copies are so
/// short that a copy engine would take longer to start.
template <class Team>
FARCALL_HOST_DEVICE void copy(Team& team, device_request& r, device_code_address what) noexcept {
  const bool is_first = team.subgroup_rank() == 0;
  constexpr std::uint32_t head = 2 * sizeof(std::uint64_t);
  if (r.bytes < head) {
    if (is_first) r.fail("a copy's request is cut short");
    return;
  }
  const auto* const numbers = reinterpret_cast<const std::uint64_t*>(r.arguments);
  auto* const memory = reinterpret_cast<std::byte*>(numbers[0]);
  const auto count = static_cast<std::uint32_t>(numbers[1]);
  if (what == device_code_address::write) {
    const std::uint32_t given = r.bytes - head;
    copy_bytes(team, memory, r.arguments + head, count < given ? count : given);
    return;
  }
  if (count > r.long_reply_space - head) {
    if (is_first) r.fail("a copy's reply is too long");
    return;
  }
  std::byte* const to = head + count <= short_device_reply ? r.short_reply : r.long_reply;
  copy_bytes(team, to + head, memory, count);
  if (!is_first) return;
  // Store the count behind the gap of 8 bytes. The store is aligned, because the reply is aligned
  // to 8 bytes.
  *reinterpret_cast<std::uint64_t*>(to + sizeof(std::uint64_t)) = count;
  r.reply_bytes = head + count;
}

/// Completes the reply's header, and writes an error's text if the request has failed. Returns the
/// number of words that the reply needs in its slot.
FARCALL_HOST_DEVICE inline std::uint32_t finish_reply(device_team_state& s,
                                                      cuda::device_endpoint& to) noexcept {
  const device_request& r = s.request;
  record_kind kind = record_kind::reply;
  std::uint32_t bytes = reply_body + r.reply_bytes;
  if (r.is_unknown) {
    kind = record_kind::reply_unknown;
    bytes = reply_body;
  } else if (r.has_failed != 0) {
    // An error reply consists of the length of the name of the exception's type, the length of the
    // text, the name, and the text.
    constexpr char type[] = "farcall::device_error";
    constexpr std::uint32_t type_bytes = sizeof type - 1;
    auto* const text = reinterpret_cast<char*>(s.reply + 4);
    for (std::uint32_t i = 0; i < type_bytes; ++i)
      text[i] = type[i];
    for (std::uint32_t i = 0; i < r.text_bytes; ++i)
      text[type_bytes + i] = r.text[i];
    s.reply[2] = type_bytes;
    s.reply[3] = r.text_bytes;
    kind = record_kind::reply_error;
    bytes = 16 + type_bytes + r.text_bytes;
  }
  s.reply[0] = commit_word(bytes, kind);
  s.reply[1] = s.request_slot;
  if (bytes > cuda::slot_bytes) {
    s.reply[2] = to.next_bounce_offset();
    s.reply[3] = 0;
    to.use_bounce();
  }
  return cuda::words_of(s.reply[0]);
}

} // namespace farcall::am::device_detail
