// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/staged_state.hpp>

#include <cstddef>

namespace farcall {
namespace {

constexpr std::string_view send_state_names[send_states] = {
    "idle", "open", "blocked", "closing", "closing_blocked", "finished", "cut"};
constexpr std::string_view send_event_names[send_events] = {"open",   "block",   "unblock", "close",
                                                            "finish", "release", "cut"};
constexpr std::string_view receive_state_names[receive_states] = {
    "idle", "offered", "open", "full", "dropping", "corrupt", "ended", "lost"};
constexpr std::string_view receive_event_names[receive_events] = {
    "offer", "open", "fill", "drain", "corrupt", "close", "end", "release", "lose"};

template <class Enum>
constexpr std::size_t index(Enum e) noexcept {
  return static_cast<std::size_t>(e);
}

} // namespace

// clang-format off
send_state next(send_state from, send_event what) noexcept {
  using enum send_state;
  static constexpr send_state table[send_states][send_events] = {
    // The columns hold the next state after each of these events:
    // open             block            unblock          close            finish           release   cut
    {  open,            idle,            idle,            idle,            idle,            idle,     cut }, // idle
    {  open,            blocked,         open,            closing,         open,            idle,     cut }, // open
    {  blocked,         blocked,         open,            closing_blocked, blocked,         idle,     cut }, // blocked
    {  closing,         closing_blocked, closing,         closing,         finished,        idle,     cut }, // closing
    {  closing_blocked, closing_blocked, closing,         closing_blocked, closing_blocked, idle,     cut }, // closing_blocked
    {  finished,        finished,        finished,        finished,        finished,        idle,     cut }, // finished
    {  cut,             cut,             cut,             cut,             cut,             cut,      cut }, // cut
  };
  return table[index(from)][index(what)];
}

receive_state next(receive_state from, receive_event what) noexcept {
  using enum receive_state;
  static constexpr receive_state table[receive_states][receive_events] = {
    // The columns hold the next state after each of these events:
    // offer    open      fill      drain     corrupt   close     end       release  lose
    {  offered, open,     idle,     idle,     idle,     idle,     idle,     idle,    lost }, // idle
    {  offered, open,     offered,  offered,  offered,  offered,  offered,  idle,    lost }, // offered
    {  open,    open,     full,     open,     corrupt,  dropping, ended,    idle,    lost }, // open
    {  full,    full,     full,     open,     corrupt,  dropping, ended,    idle,    lost }, // full
    {  offered, dropping, dropping, dropping, dropping, dropping, idle,     idle,    lost }, // dropping
    {  corrupt, corrupt,  corrupt,  corrupt,  corrupt,  dropping, corrupt,  idle,    lost }, // corrupt
    {  ended,   ended,    ended,    ended,    ended,    idle,     ended,    idle,    ended }, // ended
    {  lost,    lost,     lost,     lost,     lost,     lost,     lost,     lost,    lost }, // lost
  };
  return table[index(from)][index(what)];
}
// clang-format on

std::string_view name_of(send_state s) noexcept { return send_state_names[index(s)]; }
std::string_view name_of(send_event e) noexcept { return send_event_names[index(e)]; }
std::string_view name_of(receive_state s) noexcept { return receive_state_names[index(s)]; }
std::string_view name_of(receive_event e) noexcept { return receive_event_names[index(e)]; }

} // namespace farcall
