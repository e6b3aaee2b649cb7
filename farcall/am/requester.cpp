// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/text.hpp>

#include <cstring>
#include <string>

namespace farcall::am {
namespace {

/// Maximum number of replies that are received at once, because a stream of replies must not keep
/// other threads from the lane's guard.
constexpr std::size_t pump_batch = 256;

/// Number of replies without a call after which the lane fails, because the peer is faulty.
constexpr std::uint32_t max_stray_replies = 100;

/// Number of polls in which a thread that waits for a reply does nothing else. They take a few
/// microseconds.
constexpr unsigned short_spin = 64;

std::uint32_t word_at(const std::byte* from) noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::exception_ptr error_in(node_id peer, const std::byte* body, std::uint32_t bytes) {
  if (bytes < 8) throw malformed_message(node_text(peer) + " sent an error that is cut short");
  const std::uint32_t type_bytes = word_at(body);
  const std::uint32_t text_bytes = word_at(body + 4);
  if (type_bytes > bytes - 8 || text_bytes > bytes - 8 - type_bytes) {
    throw malformed_message(node_text(peer) + " sent an error that is cut short");
  }
  const char* texts = reinterpret_cast<const char*>(body) + 8;
  const std::string type(texts, type_bytes);
  const std::string text(texts + type_bytes, text_bytes);
  // Give these two errors their own types, because the handler is not at fault. Either the target
  // had no memory for the reply, or it did not run the handler.
  if (type == "farcall::out_of_memory") return std::make_exception_ptr(out_of_memory(text, peer));
  if (type == nested_too_deep_type) return std::make_exception_ptr(nested_too_deep(text, peer));
  return std::make_exception_ptr(remote_error(peer, type, text));
}

} // namespace

requester::requester(client& owner, const endpoint& c, doorbell& wakes)
    : owner_(&owner), endpoint_(c),
      meter_(*engine_of(owner).counters(), engine_of(owner).recorder(), c.peer), wakes_(&wakes) {
  // Measure the first call.
  endpoint_.out.limit = endpoint_.out.head;
  watch_forks();
}

requester::~requester() { unwatch_forks(); }

void requester::refuse_long_arguments(std::uint64_t bytes) const {
  throw error(node_text(peer()) + " takes " + std::to_string(max_arguments()) +
                  " bytes of arguments at most, not " + std::to_string(bytes) +
                  "; put them into a buffer and pass its span, or raise the job's lane_bytes",
              peer());
}

std::size_t requester::held() const noexcept {
  std::size_t abandoned = 0;
  calls_.for_each([&](const pending_call& slot) { abandoned += slot.abandoned_ ? 1 : 0; });
  return taken() - abandoned;
}

/// Returns the pending call to which a reply belongs if the reply only has to be read. Returns null
/// for any other reply.
inline pending_call* requester::simple_call_of(const std::byte* reply) noexcept {
  const std::uint32_t index = word_at(reply + offsetof(record_header, slot));
  if (!calls_.has(index)) [[unlikely]]
    return nullptr;
  pending_call& slot = calls_[index];
  return slot.ends_simply() ? &slot : nullptr;
}

inline void requester::read_reply(pending_call& slot, const std::byte* record,
                                  std::uint32_t bytes) noexcept {
  try {
    slot.read_(slot, reply_action::read, {record + reply_body, bytes - reply_body});
  } catch (...) {
    slot.failure_ = std::current_exception();
    return slot.become(completion::state::ended);
  }
  slot.become(completion::state::replied);
}

inline void requester::take_reply(const std::byte* record, std::uint32_t bytes) noexcept {
  if (pending_call* const slot = simple_call_of(record)) [[likely]] {
    read_reply(*slot, record, bytes);
  } else {
    take_other_reply({record, bytes, record_kind::reply});
  }
}

void requester::note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept {
  meter_.note_sent(slot, key, extra);
  const std::uint32_t number = meter_.number_to_tell();
  if (number != 0 && send_lane_name(number)) meter_.note_number_told();
}

bool requester::send_lane_name(std::uint32_t number) noexcept {
  // Send nothing to a peer without a process of its own, because it records no trace events.
  if (!endpoint_.takes_stops) return true;
  std::byte* const record = try_reserve(endpoint_.out, request_body);
  // If the ring is full, the next measured or recorded request tries again.
  if (record == nullptr) return false;
  // Keep the value of last_request_, which write_header() changes. Copies that wait for the end of
  // earlier calls (is_quiet()) need not wait for this request.
  const std::uint64_t last_call = last_request_.load(std::memory_order_relaxed);
  write_header(record, name_lane_key, nullptr, number);
  commit(endpoint_.out, record, request_body, record_kind::request);
  // Begin another interval of the call meter with the next request, so that the next call is
  // recorded, too.
  endpoint_.out.limit = endpoint_.out.head;
  ++meter_.counts().posts;
  // Release, paired with the acquire load in is_quiet(), like the store in note_ended().
  last_request_.store(last_call, std::memory_order_release);
  return true;
}

bool requester::read_watched_reply(const std::byte* record, std::uint32_t bytes) noexcept {
  const std::uint32_t index = word_at(record + offsetof(record_header, slot));
  if (!calls_.has(index)) return false;
  pending_call& slot = calls_[index];
  if (slot.state_.load(std::memory_order_relaxed) != completion::state::noted) return false;
  if (!meter_.watches(slot)) return false;
  if (slot.abandoned_ || slot.then_ != nullptr || slot.request_block_ != nullptr ||
      slot.stopping_ != pending_call::stopping::no) {
    return false;
  }
  meter_.note_ended(slot);
  read_reply(slot, record, bytes);
  if (slot.failure_) ++meter_.counts().failures;
  return true;
}

/// Sets the bit `is_done` in last_request_ if the last request's call has ended. Called after
/// replies were received.
inline void requester::note_ended() noexcept {
  const auto last = static_cast<std::uint32_t>(last_request_.load(std::memory_order_relaxed));
  if (calls_.has(last) && !calls_[last].is_in_flight())
    last_request_.store(last | is_done, std::memory_order_release);
}

bool requester::spin_for(const completion& c, reply_count expected) noexcept {
  const auto take = [this](const std::byte* record, std::uint32_t bytes) {
    pending_call* const slot = simple_call_of(record);
    if (slot == nullptr) [[unlikely]]
      return read_watched_reply(record, bytes);
    read_reply(*slot, record, bytes);
    return true;
  };
  for (unsigned turn = 0; turn < short_spin; ++turn) {
    if (const biased_lock::as_owner held(guard_); held) [[likely]] {
      // Do not read the ring of a failed lane, because its memory may be gone.
      if (end_.why || endpoint_.driver != nullptr) [[unlikely]]
        return false;
      if (const record_view record = peek(endpoint_.in)) {
        if (record.kind != record_kind::reply || !take(record.data, record.bytes)) [[unlikely]]
          return false;
        release(endpoint_.in, record);
        std::size_t taken = 1;
        if (expected == reply_count::many) {
          taken += receive_each(endpoint_.in, record_kind::reply, pump_batch, take);
        }
        note_ended();
        if (expected == reply_count::many) {
          meter_.count_batch(taken, endpoint_);
        } else {
          // Count only the reply, because begin_interval() updates the numbers of bytes later.
          ++meter_.counts().replies;
        }
        // Release, paired with the acquire load in has_reply(). A waiting thread that finds no
        // record there then sees that its call has ended.
        seen_.store(endpoint_.in.tail, std::memory_order_release);
        if (c.ready()) [[likely]]
          return c.is_replied();
        continue;
      }
      // Another thread may have received the reply to `c` since the last check.
      if (c.ready()) return c.is_replied();
      calls_.note_idle();
    } else {
      return false;
    }
    spin_pause();
  }
  return false;
}

std::size_t requester::pump() noexcept {
  // Do not read the ring of a failed lane, because its memory may be gone.
  if (end_.why) [[unlikely]]
    return 0;
  std::size_t taken = 0;
  progress();
  while (taken < pump_batch) {
    const auto take = [this](const std::byte* record, std::uint32_t bytes) {
      take_reply(record, bytes);
      return true;
    };
    taken += receive_each(endpoint_.in, record_kind::reply, pump_batch - taken, take);
    // The next record, if there is one, is no plain reply, or it is a reply behind a pad.
    const record_view record = peek(endpoint_.in);
    if (!record || taken == pump_batch) break;
    if (record.kind < record_kind::lost) {
      take_other_reply(record);
    } else {
      lose(record.kind);
      break;
    }
    release(endpoint_.in, record);
    ++taken;
  }
  // Release, paired with the acquire load in has_reply(). A waiting thread that finds no record
  // there then sees that its call has ended.
  seen_.store(endpoint_.in.tail, std::memory_order_release);
  if (!releases_.empty()) [[unlikely]]
    send_releases();
  if (taken == 0) {
    calls_.note_idle();
  } else {
    note_ended();
    meter_.count_batch(taken, endpoint_);
  }
  return taken;
}

void requester::take_other_reply(const record_view& record) noexcept {
  if (end_.why) return; // the lane has failed at an earlier reply of the batch
  if (record.kind == record_kind::refusal) {
    lose_refused({reinterpret_cast<const char*>(record.data) + sizeof(record_header),
                  record.bytes - sizeof(record_header)});
    return;
  }
  const std::uint32_t index = word_at(record.data + offsetof(record_header, slot));
  if (!calls_.has(index) || !calls_[index].is_in_flight()) {
    // Limit the number of replies without a call, because a faulty peer may send them for ever.
    if (++stray_replies_ > max_stray_replies) return lose(record_kind::corrupt);
    static auto& strays = *new log::limited_log("more replies belonged to no call");
    strays.warning(node_text(peer()) + " replied to a call that was not made; ignored");
    return;
  }
  pending_call& slot = calls_[index];
  try {
    switch (record.kind) {
    case record_kind::reply:
      slot.read_(slot, reply_action::read, {record.data + reply_body, record.bytes - reply_body});
      break;
    case record_kind::reply_rendezvous:
      read_rendezvous(slot, record);
      break;
    case record_kind::reply_error:
      slot.failure_ = error_in(peer(), record.data + reply_body, record.bytes - reply_body);
      break;
    case record_kind::reply_unknown:
      slot.failure_ = std::make_exception_ptr(unknown_function(
          "the program of " + node_text(peer()) + " has no such function", peer()));
      break;
    default:
      throw malformed_message(node_text(peer()) + " sent a record that is no reply");
    }
  } catch (...) {
    slot.failure_ = std::current_exception();
  }
  finish(slot);
}

void requester::lose(record_kind why) noexcept {
  end_.is_lost.store(why == record_kind::lost, std::memory_order_relaxed);
  const char* what = is_lost() ? " can no longer be reached: the connection of this lane has ended"
                               : " sent bytes that are no message";
  fail(std::make_exception_ptr(node_failed(node_text(peer()) + what, peer())));
  if (is_lost()) engine_of(*owner_).lanes().note_lost(peer());
}

/// Ends a lane that its peer has refused to serve. A new lane may be accepted once the peer has
/// more memory.
void requester::lose_refused(std::string_view why) noexcept {
  end_.is_lost.store(true, std::memory_order_relaxed);
  fail(std::make_exception_ptr(node_failed(
      node_text(peer()) + " has refused this lane: " + valid_text(why.substr(0, max_refusal)),
      peer())));
}

void requester::read_rendezvous(pending_call& slot, const record_view& record) {
  if (record.bytes != rendezvous_record_bytes) {
    throw malformed_message(node_text(peer()) + " sent a long reply that is cut short");
  }
  rendezvous_body where{};
  std::memcpy(&where, record.data + rendezvous_body_at, sizeof where);
  releases_.push_back(where.address);
  const remote_bytes bytes =
      engine_of(*owner_).peers().read_remote(peer(), where.address, where.bytes);
  slot.read_(slot, reply_action::read, {bytes.data, where.bytes});
}

void requester::send_releases() noexcept {
  // Keep the value of last_request_, which the requests below change. Copies that wait for the end
  // of earlier calls (is_quiet()) need not wait for these requests.
  const std::uint64_t last_call = last_request_.load(std::memory_order_relaxed);
  while (!releases_.empty()) {
    std::byte* arguments = try_reserve_request(sizeof(std::uint64_t));
    if (arguments == nullptr) break; // the ring is full; the next call of pump() tries again
    std::memcpy(arguments, &releases_.back(), sizeof(std::uint64_t));
    commit_request(arguments, sizeof(std::uint64_t), release_reply_key, nullptr);
    releases_.pop_back();
  }
  // Release, paired with the acquire load in is_quiet(), like the store in note_ended().
  last_request_.store(last_call, std::memory_order_release);
}

void requester::finish(pending_call& slot) noexcept {
  meter_.note_ended(slot);
  if (slot.failure_) ++meter_.counts().failures;
  if (slot.request_block_ != nullptr) {
    owner_->release_block(slot.request_block_);
    slot.request_block_ = nullptr;
  }
  const bool is_stopped = std::exchange(slot.stopping_, pending_call::stopping::no) ==
                          pending_call::stopping::requested;
  if (slot.abandoned_) {
    slot.abandoned_ = false;
    if (is_stopped) {
      owner_->forget_call(peer(), slot.kept_.stoppable_id);
    } else {
      note_dropped_error(slot.failure_);
    }
    if (!slot.failure_) slot.destroy_result();
    slot.become(completion::state::ended);
    return_call(slot);
    return;
  }
  if (continuation* then = slot.mark_ready()) due_.push_back(*then);
}

void requester::fail_call(pending_call& slot, std::exception_ptr why) noexcept {
  slot.failure_ = std::move(why);
  // Count the call as if it had been sent, so that calls and replies stay balanced.
  ++meter_.counts().calls;
  ++meter_.counts().replies;
  finish(slot);
  note_ended();
}

void requester::fail(const std::exception_ptr& why) noexcept {
  if (end_.why) return;
  end_.why = why;
  close(endpoint_.out);
  releases_.clear();
  calls_.for_each([&](pending_call& slot) {
    if (!slot.is_in_flight()) return;
    slot.failure_ = why;
    ++meter_.counts().replies;
    finish(slot);
  });
  calls_.give_back_unused();
  note_ended();
  // Release, paired with the acquire load in has_reply(). Store this flag only after all pending
  // calls have ended. A waiting thread that sees the flag checks its pending call once more before
  // it sleeps, and then sees that the call has ended.
  end_.is_over.store(true, std::memory_order_release);
}

std::size_t requester::leave_engine() noexcept {
  guard_.lock();
  owner_ = nullptr;
  calls_.for_each(
      [](pending_call& slot) { slot.owner_.store(nullptr, std::memory_order_relaxed); });
  const std::size_t held = taken();
  guard_.unlock();
  return held;
}

void requester::drop(pending_call& slot) noexcept {
  if (slot.ready()) {
    if (!slot.failure_) slot.destroy_result();
    return_call(slot);
  } else {
    slot.abandoned_ = true;
    slot.need_finish();
  }
}

void requester::abandon(pending_call& slot) noexcept {
  guard_.lock();
  drop(slot);
  guard_.unlock();
}

void requester::stop(pending_call& slot) noexcept {
  guard_.lock();
  if (slot.is_in_flight() && slot.stopping_ == pending_call::stopping::possible) {
    slot.stopping_ = pending_call::stopping::requested;
    // Send the stop under the guard. The guard is also held in finish(), so that the forget_call()
    // of finish() is sent after the stop.
    owner_->stop_call(peer(), slot.kept_.stoppable_id);
  }
  drop(slot);
  guard_.unlock();
}

} // namespace farcall::am
