#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// The states of one end of a staged lane, one machine for each direction. docs/staged-lane.md has
/// the tables, which a test compares with next(), and staged_model_test.cpp walks through all
/// interleavings of two ends.
namespace farcall {

/// Sending: from the ring that our user commits to, to the peer.
enum class send_state : std::uint8_t {
  idle,            ///< nobody uses the lane
  open,            ///< what is committed goes out at once
  blocked,         ///< the link takes nothing now: it is full, or does not stand yet
  closing,         ///< our user is done or has given up; what it committed still goes out
  closing_blocked, ///< the same, and the link takes nothing now
  finished,        ///< everything has gone out, and the word that nothing follows
  cut,             ///< nothing goes out any more
};
inline constexpr std::size_t send_states = 7;

enum class send_event : std::uint8_t {
  open,    ///< a user has the lane from now on
  block,   ///< the link took less than there was
  unblock, ///< it may take more
  close,   ///< our user is done, or has refused to send more
  finish,  ///< the last of a closing lane has gone out
  release, ///< the lane is given back, for another user
  cut,     ///< the link is lost, or given up
};
inline constexpr std::size_t send_events = 7;

/// Receiving: from the peer into the ring that our user reads.
enum class receive_state : std::uint8_t {
  idle,     ///< nobody uses the lane
  offered,  ///< the peer has opened it, and nobody here has accepted it yet; what comes waits
  open,     ///< what comes is put into the ring
  full,     ///< the ring has no space for what comes next
  dropping, ///< our user is done; what comes is thrown away
  corrupt,  ///< what came is no record; nothing more is read
  ended,    ///< the peer has closed in order, and all that it sent lies in the ring
  lost,     ///< nothing comes any more
};
inline constexpr std::size_t receive_states = 8;

enum class receive_event : std::uint8_t {
  offer,   ///< the peer has opened the lane
  open,    ///< a user has it from now on
  fill,    ///< the ring had no space
  drain,   ///< it has space again
  corrupt, ///< what came is no record
  close,   ///< our user is done
  end,     ///< the peer sends no more, and has sent everything
  release, ///< the lane is given back, for another user
  lose,    ///< the link is lost, or given up
};
inline constexpr std::size_t receive_events = 9;

/// Where an event leads. One that means nothing in a state leaves it as it is.
[[nodiscard]] send_state next(send_state from, send_event what) noexcept;
[[nodiscard]] receive_state next(receive_state from, receive_event what) noexcept;

/// Their names in the documentation.
[[nodiscard]] std::string_view name_of(send_state s) noexcept;
[[nodiscard]] std::string_view name_of(send_event e) noexcept;
[[nodiscard]] std::string_view name_of(receive_state s) noexcept;
[[nodiscard]] std::string_view name_of(receive_event e) noexcept;

/// Our user still commits, or has committed something that is to go out.
[[nodiscard]] constexpr bool is_sending(send_state s) noexcept {
  return s != send_state::idle && s != send_state::finished && s != send_state::cut;
}
[[nodiscard]] constexpr bool is_blocked(send_state s) noexcept {
  return s == send_state::blocked || s == send_state::closing_blocked;
}
/// Nothing more comes: the peer has ended, or the link has.
[[nodiscard]] constexpr bool is_over(receive_state s) noexcept {
  return s == receive_state::idle || s == receive_state::ended || s == receive_state::lost;
}

/// A state that several threads read. Events of the lane's own work come under its lock; those that
/// end it may come at any time, from any thread.
template <class State, class Event>
class staged_state {
 public:
  [[nodiscard]] State now() const noexcept {
    // Acquire; partner: the exchange in on(). Who sees an end sees what came before it.
    return now_.load(std::memory_order_acquire);
  }

  /// True when the event has changed the state. Of several threads with one event, one is told so.
  bool on(Event what) noexcept {
    State from = now();
    State to = next(from, what);
    // Sequentially consistent: who cuts a lane and who connects it meanwhile see each other.
    while (to != from && !now_.compare_exchange_weak(from, to, std::memory_order_seq_cst))
      to = next(from, what);
    return to != from;
  }

 private:
  std::atomic<State> now_{State::idle};
};

} // namespace farcall
