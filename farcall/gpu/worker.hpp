#pragma once

#include <farcall/am/message.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// What runs on a device: a team of threads that takes requests from its lanes, one after the
/// other, runs each with all its threads, and replies. The same code for a block of a GPU and for
/// threads of a processor; `Team` says how they synchronise and look at memory.
namespace farcall::am {

namespace device_detail {

/// Makes ready what the request in `lane` needs. By one thread.
FARCALL_HOST_DEVICE inline void prepare(device_team_state& s, std::uint32_t lane) noexcept {
  cuda::device_endpoint& from = s.lanes[lane];
  const std::byte* record = from.record();
  const auto* header = reinterpret_cast<const request_header*>(record);
  s.current = s.last = lane;
  s.request_slot = header->record.slot;
  s.was_long = cuda::record_bytes(from.message[0]) > cuda::slot_bytes;
  device_request& r = s.request;
  r.arguments = record + request_body;
  r.bytes = cuda::record_bytes(from.message[0]) - request_body;
  r.extra = header->extra;
  r.outcome = device_outcome::replied;
  r.is_pure = false;
  r.is_by_all = true;
  r.reply_bytes = 0;
  r.short_reply = reinterpret_cast<std::byte*>(s.reply) + reply_body;
  r.long_reply_room = from.ring_bytes / cuda::bounce_buffers - reply_body;
  r.long_reply = from.block->bounce_buffer(from.next_bounce_offset(), from.ring_bytes) + reply_body;
}

/// What to do next. By one thread, after all lanes were looked at.
template <class Team>
FARCALL_HOST_DEVICE void decide(Team& team, device_team_state& s) noexcept {
  using step = device_team_state::step;
  const cuda::worker_setup& setup = s.setup;
  s.open_lanes = s.lanes_seen;
  if (s.command != static_cast<std::uint32_t>(cuda::worker_command::serve)) {
    // What has come stays where it is, for the next worker.
    for (std::uint32_t i = 0; i < setup.lanes; ++i)
      s.lanes[i].tell_consumed(true);
    s.next = step::leave;
    return;
  }
  for (std::uint32_t i = 1; i <= setup.lanes; ++i) {
    const std::uint32_t lane = (s.last + i) % setup.lanes;
    cuda::device_endpoint& l = s.lanes[lane];
    // A request is taken when there is room for its reply, so replies never wait.
    if (!l.is_staged || !l.has_space()) continue;
    if (s.last_look != 0) {
      s.last_look = 0;
      cuda::store_release(&setup.control->state,
                          static_cast<std::uint32_t>(cuda::worker_state::running));
    }
    const record_kind kind = commit_kind(l.message[0]);
    if (kind != record_kind::request || cuda::record_bytes(l.message[0]) < request_body) {
      // Notices of lanes, which the host keeps the books of.
      l.take();
      s.next = step::look;
      return;
    }
    prepare(s, lane);
    // Now, because the others look for the next message while the reply is sent.
    l.take();
    s.next = step::run;
    return;
  }
  s.next = step::look;
  for (std::uint32_t i = 0; i < setup.lanes; ++i)
    s.lanes[i].tell_consumed(true);
  const std::uint64_t idle = team.now() - s.idle_since;
  if (idle < setup.idle_ns) {
    team.rest(idle);
    return;
  }
  if (s.last_look != 0) {
    s.next = step::leave;
    return;
  }
  s.last_look = 1;
  cuda::store_release(&setup.control->state,
                      static_cast<std::uint32_t>(cuda::worker_state::leaving));
  cuda::full_fence();
}

/// The code for a key. By every thread.
FARCALL_HOST_DEVICE inline std::uint64_t code_of(const device_team_state& s) noexcept {
  const auto* header = reinterpret_cast<const request_header*>(s.request.arguments - request_body);
  return header->key < s.setup.handler_count
             ? s.setup.handlers[header->key]
             : static_cast<std::uint64_t>(device_code_address::none);
}

/// Copies of few bytes, which a copy engine would take longer for. By all threads.
template <class Team>
FARCALL_HOST_DEVICE void copy(Team& team, device_request& r, device_code_address what) noexcept {
  if (r.bytes < 2 * sizeof(std::uint64_t)) {
    if (team.rank() == 0) r.fail("a copy's request is cut short");
    return;
  }
  const auto* const numbers = reinterpret_cast<const std::uint64_t*>(r.arguments);
  auto* const memory = reinterpret_cast<std::byte*>(numbers[0]);
  const auto count = static_cast<std::uint32_t>(numbers[1]);
  constexpr std::uint32_t head = 2 * sizeof(std::uint64_t);
  if (what == device_code_address::write) {
    for (std::uint32_t i = team.rank(); i < count && head + i < r.bytes; i += team.size())
      memory[i] = r.arguments[head + i];
    return;
  }
  std::byte* const to = head + count <= short_device_reply ? r.short_reply : r.long_reply;
  if (head + count > short_device_reply && head + count > r.long_reply_room) {
    if (team.rank() == 0) r.fail("a copy's answer is too long");
    return;
  }
  for (std::uint32_t i = team.rank(); i < count; i += team.size())
    to[head + i] = memory[i];
  if (team.rank() != 0) return;
  // Behind the gap; the reply is aligned to 8.
  *reinterpret_cast<std::uint64_t*>(to + sizeof(std::uint64_t)) = count;
  r.reply_bytes = head + count;
}

/// Header of the reply, and its slot's words. By one thread; returns how many words.
FARCALL_HOST_DEVICE inline std::uint32_t finish_reply(device_team_state& s) noexcept {
  const device_request& r = s.request;
  cuda::device_endpoint& l = s.lanes[s.current];
  record_kind kind = record_kind::reply;
  std::uint32_t bytes = reply_body + r.reply_bytes;
  if (r.outcome == device_outcome::unknown) {
    kind = record_kind::reply_unknown;
    bytes = reply_body;
  } else if (r.outcome == device_outcome::failed) {
    // Length of the type's name and of the text, the name, the text.
    constexpr char type[] = "farcall::device_error";
    constexpr std::uint32_t type_bytes = sizeof type - 1;
    auto* const text = reinterpret_cast<char*>(s.reply + 4);
    for (std::uint32_t i = r.reply_bytes; i > 0; --i)
      text[type_bytes + i - 1] = static_cast<char>(r.short_reply[i - 1]);
    for (std::uint32_t i = 0; i < type_bytes; ++i)
      text[i] = type[i];
    s.reply[2] = type_bytes;
    s.reply[3] = r.reply_bytes;
    kind = record_kind::reply_error;
    bytes = 16 + type_bytes + r.reply_bytes;
  }
  s.reply[0] = commit_word(bytes, kind);
  s.reply[1] = s.request_slot;
  if (bytes > cuda::slot_bytes) {
    s.reply[2] = l.next_bounce_offset();
    s.reply[3] = 0;
    l.use_bounce();
  }
  return cuda::words_of(s.reply[0]);
}

} // namespace device_detail

/// Serves until there was nothing to do for a while, or the host wants the worker gone. Called by
/// all threads of the team.
template <class Team>
FARCALL_HOST_DEVICE void serve_device(Team& team, const cuda::worker_setup& given,
                                      device_team_state& s) {
  using step = device_team_state::step;
  const cuda::worker_setup& setup = s.setup;
  if (team.rank() == 0) {
    s.setup = given;
    s.mark = device_team_mark;
    for (std::uint32_t i = 0; i < setup.lanes; ++i)
      s.lanes[i].resume(*setup.lane(i), setup.ring_bytes);
    s.host.resume(*setup.host_calls, setup.ring_bytes);
    s.last = s.last_look = s.open_lanes = 0;
    s.idle_since = team.now();
    s.next = step::look;
  }
  team.sync();
  for (;;) {
    if (team.subgroup() == team.subgroups() - 1 && team.subgroup_rank() == 0) {
      std::uint64_t words[2];
      cuda::load_acquire_pair(reinterpret_cast<const std::uint64_t*>(&setup.control->command),
                              words[0], words[1]);
      s.command = cuda::payload_of(words[0]);
      s.lanes_seen = static_cast<std::uint32_t>(words[0] >> 32);
    }
    for (std::uint32_t i = team.subgroup(); i < setup.lanes; i += team.subgroups()) {
      cuda::device_endpoint& l = s.lanes[i];
      // A lane that was opened meanwhile is seen one turn later.
      if (l.is_staged || (s.open_lanes >> i & 1U) == 0) continue;
      const bool found = team.take(l.next_down(), cuda::phase_of(l.down_next), l.message);
      if (team.subgroup_rank() == 0) l.is_staged = found;
    }
    team.sync();
    if (team.rank() == 0) device_detail::decide(team, s);
    team.sync();
    if (s.next == step::leave) break;
    if (s.next == step::look) continue;

    const std::uint64_t code = device_detail::code_of(s);
    if (code == static_cast<std::uint64_t>(device_code_address::write) ||
        code == static_cast<std::uint64_t>(device_code_address::read)) {
      device_detail::copy(team, s.request, static_cast<device_code_address>(code));
    } else if (code > static_cast<std::uint64_t>(device_code_address::last)) {
      reinterpret_cast<device_handler>(code)(s.request);
    } else if (code == static_cast<std::uint64_t>(device_code_address::none) && team.rank() == 0) {
      s.request.outcome = device_outcome::unknown;
    }
    team.sync();
    if (team.subgroup() != 0) continue;
    cuda::device_endpoint& l = s.lanes[s.current];
    if (s.request_slot != no_slot) {
      std::uint32_t words = 0;
      if (team.subgroup_rank() == 0) {
        words = device_detail::finish_reply(s);
        // Behind the team's barrier, so it stands for all that its threads have written.
        if (!s.request.is_pure || s.request.reply_bytes > short_device_reply) cuda::release_fence();
      }
      words = team.broadcast(words);
      team.put(l.next_up(), s.reply, words, cuda::phase_of(l.up_next));
      if (team.subgroup_rank() == 0) ++l.up_next;
    }
    if (team.subgroup_rank() == 0) {
      l.tell_consumed(s.was_long);
      s.idle_since = team.now();
    }
    team.subgroup_sync();
  }
  if (team.rank() == 0) {
    for (std::uint32_t i = 0; i < setup.lanes; ++i)
      s.lanes[i].park();
    s.host.park();
    s.mark = 0;
    cuda::store_release(&setup.control->state,
                        static_cast<std::uint32_t>(cuda::worker_state::left));
  }
}

} // namespace farcall::am
