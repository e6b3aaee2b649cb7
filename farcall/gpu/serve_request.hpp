#pragma once

#include <farcall/am/message.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// What a worker does with one request besides running its handler. By the subgroup that has the
/// claim: by its first thread, where nothing else is said.
namespace farcall::am::device_detail {

/// Makes ready what the request needs whose words are in `message`.
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
  r.long_reply_room = from.ring_bytes / cuda::bounce_buffers - reply_body;
  r.long_reply = from.block->bounce_buffer(from.next_bounce_offset(), from.ring_bytes) + reply_body;
}

/// The code for the request that was prepared, as the table has it.
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
/// Before the first request. A key is in the place that the cache looks for it, or in none.
FARCALL_HOST_DEVICE inline void clear(handler_cache& c) noexcept {
  for (std::uint32_t i = 0; i < handler_cache::places; ++i)
    c.key[i] = i + 1;
}

/// Copies bytes with those threads of a subgroup, by words of 8 where both addresses allow it.
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

/// Copies of few bytes, which a copy engine would take longer for. By the whole subgroup.
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
  if (count > r.long_reply_room - head) {
    if (is_first) r.fail("a copy's answer is too long");
    return;
  }
  std::byte* const to = head + count <= short_device_reply ? r.short_reply : r.long_reply;
  copy_bytes(team, to + head, memory, count);
  if (!is_first) return;
  // Behind the gap; the reply is aligned to 8.
  *reinterpret_cast<std::uint64_t*>(to + sizeof(std::uint64_t)) = count;
  r.reply_bytes = head + count;
}

/// Header of the reply, and its slot's words; returns how many words.
FARCALL_HOST_DEVICE inline std::uint32_t finish_reply(device_team_state& s,
                                                      cuda::device_endpoint& to) noexcept {
  const device_request& r = s.request;
  record_kind kind = record_kind::reply;
  std::uint32_t bytes = reply_body + r.reply_bytes;
  if (r.is_unknown) {
    kind = record_kind::reply_unknown;
    bytes = reply_body;
  } else if (r.has_failed != 0) {
    // Length of the type's name and of the text, the name, the text.
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
