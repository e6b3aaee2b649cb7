// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// States of one end of a staged lane, with one state machine for each direction.
/// docs/staged-lane.md has the transition tables. A test compares these tables with the function
/// next(), and staged_model_test.cpp explores all interleavings of two ends.
namespace farcall {

/// States of the sending direction, from the ring to which our user commits to the peer.
enum class send_state : std::uint8_t {
  idle,            ///< the lane has no user
  open,            ///< committed bytes are sent at once
  blocked,         ///< the link takes no bytes now, because it is full or not connected yet
  closing,         ///< our user is done or has given up; its committed bytes are still sent
  closing_blocked, ///< like `closing`, but the link takes no bytes now
  /// All bytes were sent, and also the message which says that no more bytes follow.
  finished,
  cut, ///< nothing more is sent
};
inline constexpr std::size_t send_states = 7;

enum class send_event : std::uint8_t {
  open,    ///< the lane gets a user
  block,   ///< the link took fewer bytes than there were, or none
  unblock, ///< the link may take more bytes now
  close,   ///< our user is done, or has refused to send more
  finish,  ///< the last bytes of a closing lane were sent
  release, ///< the lane is given back, so that another user can get it
  cut,     ///< the link is lost, or was given up
};
inline constexpr std::size_t send_events = 7;

/// States of the receiving direction, from the peer into the ring that our user reads.
enum class receive_state : std::uint8_t {
  idle,     ///< the lane has no user
  offered,  ///< the peer has opened the lane; received bytes wait until we accept it
  open,     ///< received bytes are put into the ring
  full,     ///< the ring has no space for the bytes that come next
  dropping, ///< our user is done, so that received bytes are dropped
  corrupt,  ///< received bytes are no valid record; no more bytes are read
  ended,    ///< the peer has closed in order, and all its records are in the ring
  lost,     ///< the link is lost, so that no more bytes arrive
};
inline constexpr std::size_t receive_states = 8;

enum class receive_event : std::uint8_t {
  offer,   ///< the peer has opened the lane
  open,    ///< the lane gets a user
  fill,    ///< the ring had no space for received bytes
  drain,   ///< the ring has space again
  corrupt, ///< received bytes are no valid record
  close,   ///< our user is done
  end,     ///< the peer has sent everything and will send no more
  release, ///< the lane is given back, so that another user can get it
  lose,    ///< the link is lost, or was given up
};
inline constexpr std::size_t receive_events = 9;

/// Returns the state that follows when an event happens in a state. An event that has no meaning in
/// a state leaves the state as it is.
[[nodiscard]] send_state next(send_state from, send_event what) noexcept;
[[nodiscard]] receive_state next(receive_state from, receive_event what) noexcept;

/// Return the names that the documentation uses for states and events.
[[nodiscard]] std::string_view name_of(send_state s) noexcept;
[[nodiscard]] std::string_view name_of(send_event e) noexcept;
[[nodiscard]] std::string_view name_of(receive_state s) noexcept;
[[nodiscard]] std::string_view name_of(receive_event e) noexcept;

/// True if our user still commits records, or has committed bytes that were not sent yet.
[[nodiscard]] constexpr bool is_sending(send_state s) noexcept {
  return s != send_state::idle && s != send_state::finished && s != send_state::cut;
}
[[nodiscard]] constexpr bool is_blocked(send_state s) noexcept {
  return s == send_state::blocked || s == send_state::closing_blocked;
}
/// True if no more bytes arrive, because the peer has closed the lane or the link has ended.
[[nodiscard]] constexpr bool is_over(receive_state s) noexcept {
  return s == receive_state::idle || s == receive_state::ended || s == receive_state::lost;
}

/// State of one direction of a lane; several threads read it. The thread that moves the lane's
/// bytes applies events while it holds the lane's lock. Any thread may apply events that end the
/// lane, at any time.
template <class State, class Event>
class staged_state {
 public:
  [[nodiscard]] State now() const noexcept {
    // Acquire, paired with the exchange in on(), so that a thread that sees the end of the lane
    // also sees everything that happened before the end.
    return now_.load(std::memory_order_acquire);
  }

  /// Applies an event, and returns true if the event has changed the state. If several threads
  /// apply the same event, only one of them gets true.
  bool on(Event what) noexcept {
    State from = now();
    State to = next(from, what);
    // Sequentially consistent, so that one thread can cut a lane while another connects it: at
    // least one of the two sees the other's store.
    while (to != from && !now_.compare_exchange_weak(from, to, std::memory_order_seq_cst))
      to = next(from, what);
    return to != from;
  }

 private:
  std::atomic<State> now_{State::idle};
};

} // namespace farcall
