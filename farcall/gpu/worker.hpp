// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/serve_request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/executor.hpp>

#include <cstddef>
#include <cstdint>

/// Code of a worker on a device. A worker is a team of threads that takes requests from its lanes,
/// one after the other, runs the handler of each request, and sends the reply. The same code runs
/// on a block of a GPU and on threads of a processor. `Team` defines how the threads synchronise
/// and poll memory.
namespace farcall::am {

/// Loop in which one subgroup of the team polls for messages and serves them.
///
/// Each subgroup polls for messages separately. A load from the host's memory takes long. Several
/// overlapping polls therefore find a message sooner than one poll, and no barrier makes a subgroup
/// wait for the load of another subgroup. A subgroup that has found the next message of a lane
/// takes the claim, which is the right to serve a request, and serves the message alone. The whole
/// team meets only for functions that all threads run.
///
/// The first thread of the subgroup decides what to do, and the other threads follow its orders.
template <class Team>
class message_loop {
 public:
  FARCALL_HOST_DEVICE message_loop(Team& team, device_team_state& s) noexcept
      : team_(team), s_(s), subgroup_(team.subgroup()),
        pollers_(team.subgroups() < max_pollers ? team.subgroups() : max_pollers) {}

  /// Polls for and serves messages until the worker leaves. Called by all threads of the team.
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
      case act::reply:
        team_.put(s_.lanes[o.lane].block->up[o.slot], s_.reply, o.words, o.phase);
        if (is_leader()) {
          team_.note(cuda::worker_stage::replied);
          ++lane().up_next;
        }
        [[fallthrough]];
      case act::end_request:
        if (is_leader()) end_request();
        [[fallthrough]];
      case act::hand_on:
        if (is_leader()) hand_on();
        break;
      case act::finish: // decide() handles it
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
    reply,
    end_request,
    hand_on,
    leave
  };
  /// Order that the first thread gives to its subgroup.
  struct order {
    /// Make the constructor not constexpr, because CUDA's compiler would otherwise store orders as
    /// constants in slow memory.
    FARCALL_HOST_DEVICE order(act a = act::nothing, std::uint32_t l = 0, std::uint32_t s = 0,
                              std::uint32_t w = 0, std::uint32_t p = 0)
        : what(a), lane(l), slot(s), words(w), phase(p) {}
    act what;
    std::uint32_t lane;
    std::uint32_t slot;
    std::uint32_t words;
    std::uint32_t phase;
  };

  /// Values of the claim word: the claim is free, or a subgroup holds it. Any other value is 1 +
  /// the number of the subgroup to which the claim was handed.
  static constexpr std::uint32_t free = 0;
  static constexpr std::uint32_t taken = UINT32_MAX;

  static constexpr std::uint32_t no_lane = UINT32_MAX;
  /// Number of polls in a series. One poll of each series reads the host's command and the set of
  /// open lanes. The other polls read a slot of a lane.
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

  // ---- by the first thread

  /// Chooses the subgroup's next step. Calls each function from one place only, because the
  /// compiler may copy a function's code to each call, and the GPU would have to fetch each copy.
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
    if (subgroup_ >= pollers_) {
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

  // ---- polling

  /// Assigns the open lanes to the subgroups. If there are at least twice as many polling subgroups
  /// as lanes, several subgroups poll each lane. Otherwise, each subgroup polls one lane after the
  /// other.
  FARCALL_HOST_DEVICE void go_by_open_lanes() {
    const std::uint32_t open = team_.load(s_.open_lanes);
    if (open == open_lanes_ || is_waiting_) return;
    open_lanes_ = open;
    has_message_ = false;
    wanted_ = 0;
    lane_ = no_lane;
    const std::uint32_t lanes = cuda::count_of_bits(open);
    if (lanes == 0) return;
    pollers_of_lane_ = 1;
    std::uint32_t which = subgroup_;
    while (2 * pollers_of_lane_ * lanes <= pollers_) {
      pollers_of_lane_ *= 2;
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

  /// True if the message that this subgroup has found is still the next one of its lane.
  [[nodiscard]] FARCALL_HOST_DEVICE bool has_next_message() {
    if (!has_message_) return false;
    const std::uint64_t next = team_.load(lane().down_next);
    if (position_ < next) {
      // Forget the message, because another subgroup has served it.
      has_message_ = false;
      look_ahead(next);
    }
    return position_ == next;
  }

  /// Chooses the position that this subgroup polls next, where `next` is the position of the lane's
  /// next message. Subgroups with an odd number poll at `next` or shortly after it, each at a
  /// different position, so that no message is left out. Subgroups with an even number poll at
  /// `next`, because the next message matters most. But if messages are served faster than a poll
  /// takes, these subgroups also poll further ahead.
  FARCALL_HOST_DEVICE void look_ahead(std::uint64_t next) {
    wanted_ = 0;
    if (subgroup_ % 2 == 0 && next - next_at_look_ < 2) return;
    wanted_ = next + ((subgroup_ - static_cast<std::uint32_t>(next)) & (pollers_of_lane_ - 1));
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
    if (pollers_of_lane_ != 1) return;
    const std::uint32_t before = lane_;
    lane_ = next_open_lane();
    if (lane_ != before) wanted_ = 0;
  }

  // ---- the claim

  /// Tries to take the claim. Returns true if this subgroup now holds the claim. Otherwise, the
  /// caller must call claim() again until the result is true, because another subgroup may already
  /// have handed the claim to this subgroup. All waiting subgroups thus get the claim in turn.
  [[nodiscard]] FARCALL_HOST_DEVICE bool claim() {
    if (pollers_ == 1) return true;
    const std::uint32_t own_bit = 1U << subgroup_;
    const std::uint32_t now = team_.load(s_.claim);
    // Acquire, paired with the release in hand_on(), so that this subgroup sees the writes of the
    // claim's previous owner.
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
    const std::uint32_t waiting = pollers_ == 1 ? 0 : team_.load(s_.waiting);
    if (waiting == 0) tell_consumed();
    if (pollers_ == 1) return;
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

  /// True if the reasons to leave still hold. They are checked again after the claim was taken,
  /// because a request may have been served while the subgroup waited for the claim.
  [[nodiscard]] FARCALL_HOST_DEVICE bool is_still_to_leave() {
    if (is_told_to_leave_ || age_ >= s_.setup.lifetime_ns) return true;
    return team_.load(s_.has_served) == 0 && since_idle(team_.now()) >= s_.setup.idle_ns;
  }
  /// Returns the nanoseconds since the last message.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t since_idle(std::uint64_t now) {
    const std::uint64_t since = team_.load(s_.idle_since);
    // Return 0 instead of a negative difference, which is possible if the clock of the subgroup
    // that wrote `since` is slightly ahead.
    return now > since ? now - since : 0;
  }

  /// True if the worker may leave now. Called by the subgroup that holds the claim. Messages that
  /// have arrived stay in their slots, and the next worker serves them.
  [[nodiscard]] FARCALL_HOST_DEVICE bool may_leave() {
    if (is_told_to_leave_) return true;
    // A worker whose lifetime has ended waits for a moment without messages before it leaves, but
    // no longer than a quarter of the lifetime.
    const std::uint64_t lifetime = s_.setup.lifetime_ns;
    if (age_ >= lifetime && age_ - lifetime >= lifetime / 4) return true;
    say(cuda::worker_state::leaving);
    // Fence between the store of the state and the last poll, paired with the fence of
    // workers::wake(). Either the host sees the worker's state, or the worker sees the host's
    // message.
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
    for (std::uint32_t left = s_.unreported_lanes; left != 0; left &= left - 1)
      s_.lanes[cuda::lowest_bit(left)].tell_consumed();
    s_.unreported_lanes = 0;
  }

  // ---- serving; with the claim

  FARCALL_HOST_DEVICE order serve() {
    team_.note(cuda::worker_stage::claimed);
    cuda::device_endpoint& l = lane();
    // Take a request only if there is space for its reply, so that no reply has to wait.
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
    // Tell the host at once that a notice was taken, because the host may be waiting for this, for
    // instance to close a lane.
    s_.is_told_at_once = !is_request;
    if (is_request) device_detail::prepare(s_, l, message);
    // Advance the position before the handler runs, because other subgroups already poll for the
    // lane's next message.
    team_.store(l.down_next, l.down_next + 1);
    s_.unreported_lanes |= 1U << lane_;
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
    // Make all writes of the function visible before the reply. A fence of this thread is enough,
    // because either this thread alone has run the function, or all threads have passed a barrier
    // since.
    if (!s_.request.is_pure || s_.request.reply_bytes > short_device_reply) cuda::release_fence();
    return {act::reply, lane_, cuda::slot_at(l.up_next), words, cuda::phase_of(l.up_next)};
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
    // Reset the step between two barriers. Before the first barrier, all threads have read the old
    // step. After the second barrier, all threads read the new step.
    if (is_leader() && is_serving_)
      team_.store(s_.step, static_cast<std::uint32_t>(team_step::serve));
    team_.sync();
    if (is_leader() && !is_serving_) team_.stagger();
  }

  Team& team_;
  device_team_state& s_;
  std::uint32_t subgroup_;
  std::uint32_t pollers_; ///< number of subgroups that poll for messages

  // ---- members that only the first thread uses
  std::uint32_t open_lanes_ = 0; ///< set of open lanes for which the members below were computed
  std::uint32_t lane_ = no_lane; ///< lane to poll
  /// Number of subgroups that poll this lane, a power of two. If the number is 1, the subgroup
  /// polls several lanes in turn.
  std::uint32_t pollers_of_lane_ = 1;
  std::uint64_t position_ = 0; ///< position in the lane that was polled last
  /// Position that the subgroup polls next. Ignored if the lane's next message is already at a
  /// later position.
  std::uint64_t wanted_ = 0;
  std::uint64_t next_at_look_ = 0;
  bool has_message_ = false; ///< true if the message at `position_` has been found
  bool is_waiting_ = false;  ///< true while the subgroup waits for the claim
  bool is_serving_ = false;
  /// Number of polls so far. The initial value makes the first poll read the host's command and the
  /// open lanes.
  std::uint32_t looks_ = looks_per_check - 1;
  // Results of check().
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

/// Serves requests until the worker has been idle for a while, or the host tells it to leave.
/// Called by all threads of the team.
template <class Team>
FARCALL_HOST_DEVICE void serve_device(Team& team, const cuda::worker_setup& given,
                                      device_team_state& s) {
  if (team.rank() == 0) {
    s.setup = given;
    s.step = static_cast<std::uint32_t>(team_step::serve);
    s.claim = s.waiting = s.has_served = s.open_lanes = s.unreported_lanes = 0;
    s.begun = s.idle_since = team.now();
    device_detail::clear(s.handlers);
    s.mark = device_team_mark;
  }
  team.sync();
  const cuda::worker_setup& setup = s.setup;
  // Let each thread load the state of a different lane, so that the loads overlap, because loads
  // from the host's memory are slow.
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
