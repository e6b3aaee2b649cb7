#pragma once

#include <farcall/am/message.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/serve_request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// What runs on a device: a team of threads that takes requests from its lanes, one after the
/// other, runs each, and replies. The same code for a block of a GPU and for threads of a
/// processor; `Team` says how they synchronise and look at memory.
namespace farcall::am {

/// What one subgroup of the team does.
///
/// Each looks for messages on its own, since a look at the host's memory takes a while: looks that
/// begin one after the other find a message sooner than one, and no barrier makes one wait for
/// another's. Who has found the next message of a lane takes the claim, and serves it alone. Only
/// functions of all threads bring the team together.
///
/// The first thread of the subgroup decides, and the others do what it tells them.
template <class Team>
class message_loop {
 public:
  FARCALL_HOST_DEVICE message_loop(Team& team, device_team_state& s) noexcept
      : team_(team), s_(s), subgroup_(team.subgroup()),
        lookers_(team.subgroups() < most_lookers ? team.subgroups() : most_lookers) {}

  /// Until the worker leaves. By all threads of the team.
  FARCALL_HOST_DEVICE void run() {
    team_.stagger();
    for (;;) {
      const order o = receive_order();
      switch (o.what) {
      case act::leave:
        return;
      case act::look:
        note_look(team_.take(s_.lanes[o.lane].block->down[o.slot], o.phase, o.words,
                             s_.messages[subgroup_]));
        break;
      case act::copy:
        team_.subgroup_sync();
        device_detail::copy(team_, s_.request, static_cast<device_code_address>(s_.code));
        team_.subgroup_sync();
        break;
      case act::run_by_all:
        run_by_all();
        break;
      case act::answer:
        team_.put(s_.lanes[o.lane].block->up[o.slot], s_.reply, o.words, o.phase);
        if (is_leader()) {
          team_.note(cuda::worker_stage::answered);
          ++lane().up_next;
        }
        [[fallthrough]];
      case act::end_request:
        if (is_leader()) end_request();
        [[fallthrough]];
      case act::hand_on:
        if (is_leader()) hand_on();
        break;
      case act::finish: // decide() goes on with it
      case act::nothing:
        break;
      }
    }
  }

 private:
  enum class act : std::uint32_t {
    nothing,
    look,
    copy,
    run_by_all,
    finish,
    answer,
    end_request,
    hand_on,
    leave
  };
  /// Of the first thread to its subgroup.
  struct order {
    /// Not constexpr: else CUDA's compiler would keep orders in memory that is far.
    FARCALL_HOST_DEVICE order(act a = act::nothing, std::uint32_t l = 0, std::uint32_t s = 0,
                              std::uint32_t w = 0, std::uint32_t p = 0)
        : what(a), lane(l), slot(s), words(w), phase(p) {}
    act what;
    std::uint32_t lane;
    std::uint32_t slot;
    std::uint32_t words;
    std::uint32_t phase;
  };

  /// What the claim says; else 1 + the subgroup that may take it.
  static constexpr std::uint32_t free = 0;
  static constexpr std::uint32_t taken = UINT32_MAX;

  static constexpr std::uint32_t no_lane = UINT32_MAX;
  /// The host's words about the worker are looked at instead of a lane, every so often.
  static constexpr std::uint32_t looks_per_check = 8;

  [[nodiscard]] FARCALL_HOST_DEVICE bool is_leader() const { return team_.subgroup_rank() == 0; }
  [[nodiscard]] FARCALL_HOST_DEVICE cuda::device_endpoint& lane() { return s_.lanes[lane_]; }

  FARCALL_HOST_DEVICE order receive_order() {
    order o;
    std::uint32_t word = 0;
    if (is_leader()) {
      o = decide();
      word = static_cast<std::uint32_t>(o.what) | o.lane << 4 | o.slot << 8 | o.words << 16;
    }
    word = team_.broadcast(word);
    o.what = static_cast<act>(word & 15U);
    o.lane = word >> 4 & 15U;
    o.slot = word >> 8 & 0xFFU;
    o.words = word >> 16;
    o.phase = team_.broadcast(o.phase);
    return o;
  }
  static_assert(cuda::lanes_per_worker <= 16 && cuda::ring_slots <= 256);

  // ---- the first thread's

  /// Each of its parts stands in one place, since code that is far apart is fetched anew.
  FARCALL_HOST_DEVICE order decide() {
    if (!is_serving_) {
      const order o = begin();
      if (o.what != act::finish) return o;
    }
    return finish();
  }

  FARCALL_HOST_DEVICE order begin() {
    switch (static_cast<team_step>(team_.load(s_.step))) {
    case team_step::leave:
      return {act::leave};
    case team_step::run_by_all:
      return {act::run_by_all};
    case team_step::serve:
      break;
    }
    if (subgroup_ >= lookers_) {
      team_.pause();
      return {};
    }
    go_by_open_lanes();
    if (wants_to_leave_ || is_waiting_ || has_next_message()) return claim() ? use_claim() : wait();
    if (has_message_) return wait();
    return look();
  }

  FARCALL_HOST_DEVICE order wait() {
    team_.pause();
    return {};
  }

  // ---- looking

  /// Shares the lanes out among the subgroups, or the other way round.
  FARCALL_HOST_DEVICE void go_by_open_lanes() {
    const std::uint32_t open = team_.load(s_.open_lanes);
    if (open == open_lanes_ || is_waiting_) return;
    open_lanes_ = open;
    has_message_ = false;
    wanted_ = 0;
    lane_ = no_lane;
    const std::uint32_t lanes = cuda::count_of_bits(open);
    if (lanes == 0) return;
    lookers_of_lane_ = 1;
    std::uint32_t which = subgroup_;
    while (2 * lookers_of_lane_ * lanes <= lookers_) {
      lookers_of_lane_ *= 2;
      which /= 2;
    }
    while (which >= lanes)
      which -= lanes;
    for (lane_ = cuda::lowest_bit(open); which > 0; --which)
      lane_ = next_open_lane();
  }
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t next_open_lane() const {
    const std::uint32_t above = open_lanes_ & ~((2U << lane_) - 1);
    return cuda::lowest_bit(above != 0 ? above : open_lanes_);
  }

  /// What was found is still next in its lane.
  [[nodiscard]] FARCALL_HOST_DEVICE bool has_next_message() {
    if (!has_message_) return false;
    const std::uint64_t next = team_.load(lane().down_next);
    if (position_ < next) {
      // Another one has served it.
      has_message_ = false;
      look_ahead(next);
    }
    return position_ == next;
  }

  /// While one message is served, others look for those behind it; each has its own places, so none
  /// is left out. Half of them, unless so many come that they are served faster than a look takes:
  /// else the next one is what matters.
  FARCALL_HOST_DEVICE void look_ahead(std::uint64_t next) {
    wanted_ = 0;
    if (subgroup_ % 2 == 0 && next - next_at_look_ < 2) return;
    wanted_ = next + ((subgroup_ - static_cast<std::uint32_t>(next)) & (lookers_of_lane_ - 1));
  }

  FARCALL_HOST_DEVICE order look() {
    if (++looks_ % looks_per_check == 0) {
      check();
      return {};
    }
    if (lane_ == no_lane) {
      team_.rest(idle_);
      return {};
    }
    next_at_look_ = team_.load(lane().down_next);
    position_ = wanted_ > next_at_look_ ? wanted_ : next_at_look_;
    return {act::look, lane_, cuda::slot_at(position_), team_.load(lane().expected_words),
            cuda::phase_of(position_)};
  }

  FARCALL_HOST_DEVICE void note_look(bool has_found) {
    if (!is_leader()) return;
    has_message_ = has_found;
    if (has_found) {
      team_.note(cuda::worker_stage::found);
      return;
    }
    wanted_ = 0;
    go_to_next_lane();
    team_.rest(idle_);
  }
  FARCALL_HOST_DEVICE void go_to_next_lane() {
    if (lookers_of_lane_ != 1) return;
    const std::uint32_t before = lane_;
    lane_ = next_open_lane();
    if (lane_ != before) wanted_ = 0;
  }

  // ---- the claim

  /// Whether this subgroup has the claim now. When it has not, it must ask until it has it: it may
  /// have been handed the claim by then. So each that waits comes in turn.
  [[nodiscard]] FARCALL_HOST_DEVICE bool claim() {
    if (lookers_ == 1) return true;
    const std::uint32_t own_bit = 1U << subgroup_;
    const std::uint32_t now = team_.load(s_.claim);
    // Acquire; partner: the release in hand_on().
    if ((now == free || now == subgroup_ + 1) && team_.acquire(s_.claim, now, taken)) {
      if (is_waiting_) team_.clear_bits(s_.waiting, own_bit);
      is_waiting_ = false;
      return true;
    }
    if (!is_waiting_) team_.set_bits(s_.waiting, own_bit);
    is_waiting_ = true;
    return false;
  }

  FARCALL_HOST_DEVICE void hand_on() {
    const std::uint32_t waiting = lookers_ == 1 ? 0 : team_.load(s_.waiting);
    if (waiting == 0) tell_consumed();
    if (lookers_ == 1) return;
    const std::uint32_t above = waiting & ~((2U << subgroup_) - 1);
    team_.release(s_.claim,
                  waiting == 0 ? free : 1 + cuda::lowest_bit(above != 0 ? above : waiting));
  }

  FARCALL_HOST_DEVICE order use_claim() {
    if (wants_to_leave_) {
      wants_to_leave_ = false;
      if (is_still_to_leave() && may_leave()) {
        tell_consumed();
        team_.store(s_.step, static_cast<std::uint32_t>(team_step::leave));
        return {act::leave};
      }
    }
    return has_next_message() ? serve() : order{act::hand_on};
  }

  // ---- the worker's life

  FARCALL_HOST_DEVICE void check() {
    std::uint64_t words[2];
    cuda::load_acquire_pair(reinterpret_cast<const std::uint64_t*>(&s_.setup.control->command),
                            words[0], words[1]);
    team_.store(s_.open_lanes, static_cast<std::uint32_t>(words[0] >> 32));
    const std::uint64_t now = team_.now();
    if (team_.load(s_.has_served) != 0) {
      team_.store(s_.has_served, 0U);
      team_.store(s_.idle_since, now);
    }
    idle_ = since_idle(now);
    is_told_to_leave_ =
        cuda::payload_of(words[0]) != static_cast<std::uint32_t>(cuda::worker_command::serve);
    age_ = now - s_.begun;
    wants_to_leave_ =
        is_told_to_leave_ || idle_ >= s_.setup.idle_ns || age_ >= s_.setup.lifetime_ns;
  }

  /// With the claim, which may have come late: a request was served meanwhile.
  [[nodiscard]] FARCALL_HOST_DEVICE bool is_still_to_leave() {
    if (is_told_to_leave_ || age_ >= s_.setup.lifetime_ns) return true;
    return team_.load(s_.has_served) == 0 && since_idle(team_.now()) >= s_.setup.idle_ns;
  }
  /// Nanoseconds without a message.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t since_idle(std::uint64_t now) {
    const std::uint64_t since = team_.load(s_.idle_since);
    // The clock of the subgroup that has written it may be a little ahead.
    return now > since ? now - since : 0;
  }

  /// With the claim. What has come stays where it is, for the next worker.
  [[nodiscard]] FARCALL_HOST_DEVICE bool may_leave() {
    if (is_told_to_leave_) return true;
    // At a moment at which nobody waits, if there is one.
    const std::uint64_t lifetime = s_.setup.lifetime_ns;
    if (age_ >= lifetime && age_ - lifetime >= lifetime / 4) return true;
    say(cuda::worker_state::leaving);
    // Partner: the fence of workers::wake(). Either it sees what we say, or we see its message.
    cuda::full_fence();
    std::uint64_t words[2];
    cuda::load_relaxed_pair(reinterpret_cast<const std::uint64_t*>(&s_.setup.control->command),
                            words[0], words[1]);
    const auto open = static_cast<std::uint32_t>(words[0] >> 32);
    for (std::uint32_t left = open; left != 0; left &= left - 1) {
      cuda::device_endpoint& l = s_.lanes[cuda::lowest_bit(left)];
      cuda::load_relaxed_pair(l.next_down().words, words[0], words[1]);
      if (cuda::phase_in(words[0]) != cuda::phase_of(l.down_next) || !l.has_space()) continue;
      say(cuda::worker_state::running);
      team_.store(s_.open_lanes, open);
      return false;
    }
    return true;
  }
  FARCALL_HOST_DEVICE void say(cuda::worker_state what) {
    cuda::store_release(&s_.setup.control->state, static_cast<std::uint32_t>(what));
  }

  FARCALL_HOST_DEVICE void tell_consumed() {
    for (std::uint32_t left = s_.untold_lanes; left != 0; left &= left - 1)
      s_.lanes[cuda::lowest_bit(left)].tell_consumed();
    s_.untold_lanes = 0;
  }

  // ---- serving; with the claim

  FARCALL_HOST_DEVICE order serve() {
    team_.note(cuda::worker_stage::claimed);
    cuda::device_endpoint& l = lane();
    // A request is taken when there is room for its reply, so replies never wait.
    if (!l.has_space()) {
      has_message_ = false;
      go_to_next_lane();
      return {act::hand_on};
    }
    const std::uint32_t* const message = s_.messages[subgroup_];
    const std::uint32_t words = cuda::words_of(message[0]);
    team_.store(l.expected_words, cuda::expected_after(words));
    const bool is_request = commit_kind(message[0]) == record_kind::request &&
                            cuda::record_bytes(message[0]) >= request_body;
    // Notices of lanes are for the host, which keeps the books of them, and may wait for this.
    s_.is_told_at_once = !is_request;
    if (is_request) device_detail::prepare(s_, l, message);
    // Now, because others look for the next message meanwhile.
    team_.store(l.down_next, l.down_next + 1);
    s_.untold_lanes |= 1U << lane_;
    if (!is_request) return {act::end_request};
    is_serving_ = true;
    return run_handler();
  }

  FARCALL_HOST_DEVICE order run_handler();

  FARCALL_HOST_DEVICE order finish() {
    team_.note(cuda::worker_stage::ended);
    cuda::device_endpoint& l = lane();
    is_serving_ = false;
    if (s_.request_slot == no_slot) return {act::end_request};
    const std::uint32_t words = device_detail::finish_reply(s_, l);
    // For all that the team's threads have written: they met, or this one has written alone.
    if (!s_.request.is_pure || s_.request.reply_bytes > short_device_reply) cuda::release_fence();
    return {act::answer, lane_, cuda::slot_at(l.up_next), words, cuda::phase_of(l.up_next)};
  }
  FARCALL_HOST_DEVICE void end_request() {
    cuda::device_endpoint& l = lane();
    if (s_.is_told_at_once) {
      l.release_consumed();
    } else if (l.owes_credit()) {
      l.tell_consumed();
    }
    has_message_ = false;
    team_.store(s_.has_served, 1U);
    idle_ = 0;
    look_ahead(l.down_next);
    go_to_next_lane();
  }

  // ---- the whole team

  FARCALL_HOST_DEVICE void run_by_all() {
    team_.sync();
    reinterpret_cast<device_handler>(s_.code & ~called_by_all)(s_.request);
    // All have seen it, and see what comes next after the barrier.
    if (is_leader() && is_serving_)
      team_.store(s_.step, static_cast<std::uint32_t>(team_step::serve));
    team_.sync();
    if (is_leader() && !is_serving_) team_.stagger();
  }

  Team& team_;
  device_team_state& s_;
  std::uint32_t subgroup_;
  std::uint32_t lookers_; ///< subgroups that look for messages

  // ---- the first thread's
  std::uint32_t open_lanes_ = 0;      ///< that the following goes by
  std::uint32_t lane_ = no_lane;      ///< that is looked at
  std::uint32_t lookers_of_lane_ = 1; ///< a power of two; 1: the subgroup goes from lane to lane
  std::uint64_t position_ = 0;        ///< of the message that was looked at
  std::uint64_t wanted_ = 0;          ///< to be looked at, unless the next one is behind it
  std::uint64_t next_at_look_ = 0;
  bool has_message_ = false; ///< that of `position_`
  bool is_waiting_ = false;  ///< for the claim
  bool is_serving_ = false;
  std::uint32_t looks_ = looks_per_check - 1; ///< first, what the host says
  // What check() has found.
  std::uint64_t idle_ = 0;
  std::uint64_t age_ = 0;
  bool is_told_to_leave_ = false;
  bool wants_to_leave_ = false;
};

template <class Team>
FARCALL_HOST_DEVICE typename message_loop<Team>::order message_loop<Team>::run_handler() {
  s_.code = device_detail::code_of(s_);
  team_.note(cuda::worker_stage::begun);
  constexpr auto last = static_cast<std::uint64_t>(device_code_address::last);
  if ((s_.code & called_by_all) != 0) {
    s_.request.is_by_all = true;
    team_.store(s_.step, static_cast<std::uint32_t>(team_step::run_by_all));
    return {act::run_by_all};
  }
  if (s_.code > last) {
    reinterpret_cast<device_handler>(s_.code)(s_.request);
  } else if (s_.code == static_cast<std::uint64_t>(device_code_address::none)) {
    s_.request.is_unknown = true;
  } else if (s_.code != static_cast<std::uint64_t>(device_code_address::nothing)) {
    return {act::copy};
  }
  return {act::finish};
}

/// Serves until there was nothing to do for a while, or the host wants the worker gone. Called by
/// all threads of the team.
template <class Team>
FARCALL_HOST_DEVICE void serve_device(Team& team, const cuda::worker_setup& given,
                                      device_team_state& s) {
  if (team.rank() == 0) {
    s.setup = given;
    s.step = static_cast<std::uint32_t>(team_step::serve);
    s.claim = s.waiting = s.has_served = s.open_lanes = s.untold_lanes = 0;
    s.begun = s.idle_since = team.now();
    device_detail::clear(s.handlers);
    s.mark = device_team_mark;
  }
  team.sync();
  const cuda::worker_setup& setup = s.setup;
  // The host's memory is far, so all at a time.
  for (std::uint32_t i = team.rank(); i <= setup.lanes; i += team.size()) {
    if (i < setup.lanes) s.lanes[i].resume(*setup.lane(i), setup.ring_bytes);
    if (i == setup.lanes) s.host.resume(*setup.host_calls, setup.ring_bytes);
  }
  team.sync();
  message_loop<Team>(team, s).run();
  team.sync();
  for (std::uint32_t i = team.rank(); i <= setup.lanes; i += team.size())
    (i < setup.lanes ? s.lanes[i] : s.host).park();
  team.sync();
  if (team.rank() != 0) return;
  s.mark = 0;
  cuda::store_release(&setup.control->state, static_cast<std::uint32_t>(cuda::worker_state::left));
}

} // namespace farcall::am
