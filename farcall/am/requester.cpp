#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/text.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

namespace farcall::am {
namespace {

constexpr std::uint32_t chunk_calls = 256;

/// Replies taken in one go, so that a stream of them cannot keep the guard from others.
constexpr std::size_t pump_batch = 256;

/// So often a lane is looked at without a reply before it thinks of giving memory back: a thread
/// that spins does so several times before it sleeps.
constexpr std::uint32_t idle_pumps = 4096;
constexpr std::chrono::seconds trim_interval{1};

/// Replies to calls that were not made, after which nothing of a peer is believed any more.
constexpr std::uint32_t most_stray_replies = 100;

/// Calls are measured that often, at most.
constexpr std::chrono::microseconds measuring_interval{200};

/// Iterations in which a thread waits for nothing but its reply: a few microseconds.
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
  // That a reply found no space there is not the handler's fault.
  if (type == "farcall::out_of_memory") return std::make_exception_ptr(out_of_memory(text, peer));
  if (type == nested_too_deep_type) return std::make_exception_ptr(nested_too_deep(text, peer));
  return std::make_exception_ptr(remote_error(peer, type, text));
}

} // namespace

/// Pending calls never move, and are not freed while somebody has one: a pointer stays valid.
struct call_chunk {
  call_chunk(client& owner, requester& l, biased_lock& guard, std::uint32_t first) {
    for (std::uint32_t i = 0; i < chunk_calls; ++i) {
      new (memory + i * sizeof(pending_call)) pending_call(owner, l, guard, first + i);
    }
  }
  call_chunk(const call_chunk&) = delete;
  call_chunk& operator=(const call_chunk&) = delete;
  ~call_chunk() {
    for (std::uint32_t i = 0; i < chunk_calls; ++i)
      slot(i).~pending_call();
  }
  pending_call& slot(std::uint32_t i) noexcept {
    return *std::launder(reinterpret_cast<pending_call*>(memory + i * sizeof(pending_call)));
  }
  // Of trim().
  std::uint32_t free = 0;
  std::uint32_t rested = 0; ///< of these

  alignas(pending_call) std::byte memory[chunk_calls * sizeof(pending_call)];
};

namespace {

/// What stands in all lanes where a chunk was given back: none of its calls is ever in flight, so
/// that a reply to one is a peer's mistake, as one to any other that is not. Never destroyed; the
/// lane that was the first to need it is not looked at.
call_chunk* chunk_given_back(client& owner, requester& l, biased_lock& guard) noexcept {
  alignas(call_chunk) static std::byte memory[sizeof(call_chunk)];
  static auto* const made = new (memory) call_chunk(owner, l, guard, 0);
  return made;
}

} // namespace

requester::requester(client& owner, const endpoint& c, doorbell& wakes)
    : owner_(&owner), endpoint_(c), wakes_(&wakes), counters_(engine_of(owner).counters().get()),
      recorder_(engine_of(owner).recorder()) {
  counts_ = &counters_->take_caller(c.peer);
  // The first call is measured.
  endpoint_.out.limit = endpoint_.out.head;
  watch_forks();
}

requester::~requester() {
  unwatch_forks();
  for (std::size_t i = chunks_.size(); i-- > 0;) {
    if (!is_given_back(i)) delete chunks_[i];
  }
  counters_->give_back(counts_->block);
}

template <class F>
void requester::for_each_call(const F& f) noexcept {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (is_given_back(i)) continue;
    for (std::uint32_t n = 0; n < chunk_calls; ++n)
      f(chunks_[i]->slot(n));
  }
}

void requester::refuse_long_arguments(std::uint64_t bytes) const {
  throw error(node_text(peer()) + " takes " + std::to_string(largest_arguments()) +
                  " bytes of arguments at most, not " + std::to_string(bytes) +
                  "; put them into a buffer and pass its span, or raise the job's lane_bytes",
              peer());
}

void requester::grow() {
  std::size_t at = 0;
  while (at < chunks_.size() && !is_given_back(at))
    ++at;
  const auto first = static_cast<std::uint32_t>(at) * chunk_calls;
  auto chunk = std::make_unique<call_chunk>(*owner_, *this, guard_, first);
  if (at == chunks_.size()) {
    chunks_.push_back(chunk.get());
    calls_ = first + chunk_calls;
  }
  chunks_[at] = chunk.release();
  for (std::uint32_t i = chunk_calls; i-- > 0;)
    push_free(chunks_[at]->slot(i));
}

void requester::trim(time_point now) noexcept {
  if (now < next_trim_) return;
  next_trim_ = now + trim_interval;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!is_given_back(i)) chunks_[i]->free = chunks_[i]->rested = 0;
  }
  const auto chunk_of = [&](const pending_call& slot) -> call_chunk& {
    return *chunks_[slot.index_ / chunk_calls];
  };
  const auto is_rested = [](const pending_call& slot) {
    // Relaxed: nobody else has it.
    return slot.state_.load(std::memory_order_relaxed) == completion::state::rested;
  };
  for (pending_call* slot = free_; slot != nullptr; slot = slot->kept_.next_free) {
    call_chunk& chunk = chunk_of(*slot);
    ++chunk.free;
    chunk.rested += is_rested(*slot) ? 1 : 0;
  }
  const auto goes = [&](const call_chunk& chunk) {
    return chunk.rested == chunk_calls && &chunk != chunks_[0];
  };
  pending_call** last = &free_;
  for (pending_call* slot = free_; slot != nullptr; slot = slot->kept_.next_free) {
    const call_chunk& chunk = chunk_of(*slot);
    if (goes(chunk)) continue;
    if (chunk.free == chunk_calls) slot->become(completion::state::rested);
    *last = slot;
    last = &slot->kept_.next_free;
  }
  *last = nullptr;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (is_given_back(i) || !goes(*chunks_[i])) continue;
    delete chunks_[i];
    given_back_ = chunk_given_back(*owner_, *this, guard_);
    chunks_[i] = given_back_;
  }
}

inline pending_call& requester::call_at(std::uint32_t index) noexcept {
  return chunks_[index / chunk_calls]->slot(index % chunk_calls);
}

std::size_t requester::capacity() const noexcept {
  std::size_t chunks = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    chunks += is_given_back(i) ? 0 : 1;
  return chunks * chunk_calls;
}

std::size_t requester::taken() const noexcept {
  std::size_t n = capacity();
  for (const pending_call* free = free_; free != nullptr; free = free->kept_.next_free)
    --n;
  return n;
}

/// The call that it replies to, if there is nothing to do but to read it; else null.
inline pending_call* requester::simple_call_of(const std::byte* reply) noexcept {
  const std::uint32_t index = word_at(reply + offsetof(record_header, slot));
  if (index >= calls_) [[unlikely]]
    return nullptr;
  pending_call& slot = call_at(index);
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

void requester::begin_interval(std::uint32_t record_bytes) noexcept {
  outbox& out = endpoint_.out;
  counts_->bytes_out = out.head;
  counts_->bytes_in = endpoint_.in.tail;
  records_next_ = recorder_ != nullptr && recorder_->is_on();
  // While one is under way no other is measured. Where all are recorded, a part is one call.
  measures_next_ =
      measured_ == nullptr && (!records_next_ || out.head - measured_at_ >= interval_bytes_);
  looks_at_next_ = measures_next_ || records_next_;
  if (!looks_at_next_) return;
  measured_at_ = measures_next_ ? out.head : measured_at_;
  const std::uint64_t end = out.head + align_up<std::uint64_t>(record_bytes, record_alignment);
  out.limit = std::min(out.limit, end + (records_next_ ? 0 : interval_bytes_));
  if (!records_next_) return;
  reserved_at_ = out.head;
  reserved_when_ = recorder_->now();
}

void requester::note_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept {
  if (records_next_) record_sent(slot, key, extra);
  if (slot != nullptr && measures_next_) begin_measuring(*slot);
  // The first call that wants an answer is the one that is measured.
  looks_at_next_ = measures_next_;
}

void requester::record_sent(pending_call* slot, handler_key key, std::uint32_t extra) noexcept {
  records_next_ = false;
  // What the layer itself sends stands for nothing that its user does.
  if (key < first_user_key) return;
  if (lane_number_ == 0) lane_number_ = recorder_->add_lane(peer(), true);
  if (!has_sent_name_) has_sent_name_ = send_lane_name();
  if (slot == nullptr) {
    recorder_->record_at(reserved_when_, trace::event_kind::post, lane_number_, reserved_at_, 0,
                         key, extra);
    return;
  }
  recorder_->record_at(reserved_when_, trace::event_kind::call_begin, lane_number_, reserved_at_,
                       slot->index_, key, extra);
  slot->is_traced_ = true;
  // So that finish() is called for it.
  slot->become(completion::state::noted);
}

void requester::record_answered(pending_call& slot) noexcept {
  slot.is_traced_ = false;
  recorder_->record(trace::event_kind::call_end, lane_number_, 0, slot.index_, 0, 0);
}

bool requester::send_lane_name() noexcept {
  // Nodes that are no processes have no events.
  if (!endpoint_.takes_stops) return true;
  std::byte* const record = try_reserve(endpoint_.out, request_body);
  if (record == nullptr) return false; // the next call tries again
  // Copies need not wait for it.
  const std::uint64_t last_call = last_request_.load(std::memory_order_relaxed);
  write_header(record, name_lane_key, nullptr, lane_number_);
  commit(endpoint_.out, record, request_body, record_kind::request);
  // The next call is recorded, too.
  endpoint_.out.limit = endpoint_.out.head;
  ++counts_->posts;
  // Release; partner: as in note_ended().
  last_request_.store(last_call, std::memory_order_release);
  return true;
}

void requester::begin_measuring(pending_call& slot) noexcept {
  const time_point now = clock::now();
  interval_bytes_ = now - measured_since_ < measuring_interval
                        ? std::min(2 * interval_bytes_, longest_interval_bytes)
                        : std::max(interval_bytes_ / 2, smallest_interval_bytes);
  measures_next_ = false;
  measured_ = &slot;
  measured_since_ = now;
  // So that finish() is called for it.
  slot.become(completion::state::noted);
}

void requester::end_measuring() noexcept {
  measured_ = nullptr;
  const std::chrono::nanoseconds took = clock::now() - measured_since_;
  counts_->latency.add(static_cast<std::uint64_t>(took.count()));
}

inline void requester::count_answers(std::size_t taken) noexcept {
  caller_counters& c = *counts_;
  c.most_in_flight = std::max(c.most_in_flight, c.calls - c.answers);
  c.answers += taken;
  c.batched += taken;
  ++c.batches;
  c.bytes_in = endpoint_.in.tail;
  c.bytes_out = endpoint_.out.head;
}

bool requester::read_watched_reply(const std::byte* record, std::uint32_t bytes) noexcept {
  const std::uint32_t index = word_at(record + offsetof(record_header, slot));
  if (index >= calls_) return false;
  pending_call& slot = call_at(index);
  if (slot.state_.load(std::memory_order_relaxed) != completion::state::noted) return false;
  if (!slot.is_traced_ && &slot != measured_) return false;
  if (slot.abandoned_ || slot.then_ != nullptr || slot.request_block_ != nullptr ||
      slot.stopping_ != pending_call::stopping::no) {
    return false;
  }
  if (slot.is_traced_) record_answered(slot);
  if (&slot == measured_) end_measuring();
  read_reply(slot, record, bytes);
  if (slot.failure_) ++counts_->failures;
  return true;
}

/// Some calls have ended, perhaps the last.
inline void requester::note_ended() noexcept {
  const auto last = static_cast<std::uint32_t>(last_request_.load(std::memory_order_relaxed));
  if (last < calls_ && !call_at(last).is_in_flight())
    last_request_.store(last | answered, std::memory_order_release);
}

/// There was no reply.
inline void requester::note_idle() noexcept {
  if (calls_ > chunk_calls && ++idle_pumps_ % idle_pumps == 0) [[unlikely]]
    trim(clock::now());
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
      // The memory of a failed lane may be gone.
      if (failure_ || endpoint_.driver != nullptr) [[unlikely]]
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
          count_answers(taken);
        } else {
          // One call after the other: what else there is to count begin_interval() does.
          ++counts_->answers;
        }
        // Release; partner: the acquire load in has_reply().
        seen_.store(endpoint_.in.tail, std::memory_order_release);
        if (c.ready()) [[likely]]
          return c.is_replied();
        continue;
      }
      // Another thread may have taken it.
      if (c.ready()) return c.is_replied();
      note_idle();
    } else {
      return false;
    }
    spin_pause();
  }
  return false;
}

std::size_t requester::pump() noexcept {
  // The memory of a failed lane may be gone.
  if (failure_) [[unlikely]]
    return 0;
  std::size_t taken = 0;
  progress();
  while (taken < pump_batch) {
    const auto take = [this](const std::byte* record, std::uint32_t bytes) {
      take_reply(record, bytes);
      return true;
    };
    taken += receive_each(endpoint_.in, record_kind::reply, pump_batch - taken, take);
    // One of another kind, or a pad before one of this.
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
  // Release; partner: the acquire load in has_reply().
  seen_.store(endpoint_.in.tail, std::memory_order_release);
  if (!releases_.empty()) [[unlikely]]
    send_releases();
  if (taken == 0) {
    note_idle();
  } else {
    note_ended();
    count_answers(taken);
  }
  return taken;
}

void requester::take_other_reply(const record_view& record) noexcept {
  if (failure_) return; // by one before, in the same batch
  if (record.kind == record_kind::refusal) {
    lose_refused({reinterpret_cast<const char*>(record.data) + sizeof(record_header),
                  record.bytes - sizeof(record_header)});
    return;
  }
  const std::uint32_t index = word_at(record.data + offsetof(record_header, slot));
  if (index >= calls_ || !call_at(index).is_in_flight()) {
    // A peer may do so without end, and a ring that nobody reads to its end is as good as that.
    if (++stray_replies_ > most_stray_replies) return lose(record_kind::corrupt);
    static auto& strays = *new log::limited_log("more replies belonged to no call");
    strays.warning(node_text(peer()) + " replied to a call that was not made; ignored");
    return;
  }
  pending_call& slot = call_at(index);
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
      throw malformed_message(node_text(peer()) + " sent a record that is no answer");
    }
  } catch (...) {
    slot.failure_ = std::current_exception();
  }
  finish(slot);
}

void requester::lose(record_kind why) noexcept {
  is_lost_.store(why == record_kind::lost, std::memory_order_relaxed);
  const char* what = is_lost() ? " can no longer be reached: the connection of this lane has ended"
                               : " sent bytes that are no message";
  fail(std::make_exception_ptr(node_failed(node_text(peer()) + what, peer())));
  if (is_lost()) engine_of(*owner_).note_lost_lane(peer());
}

/// The node lives: the next lane to it may find more memory there.
void requester::lose_refused(std::string_view why) noexcept {
  is_lost_.store(true, std::memory_order_relaxed);
  fail(std::make_exception_ptr(node_failed(
      node_text(peer()) + " has refused this lane: " + valid_text(why.substr(0, longest_refusal)),
      peer())));
}

void requester::read_rendezvous(pending_call& slot, const record_view& record) {
  if (record.bytes != rendezvous_record_bytes) {
    throw malformed_message(node_text(peer()) + " sent a long answer that is cut short");
  }
  rendezvous_body where{};
  std::memcpy(&where, record.data + rendezvous_body_at, sizeof where);
  releases_.push_back(where.address);
  const remote_bytes bytes = engine_of(*owner_).read_remote(peer(), where.address, where.bytes);
  slot.read_(slot, reply_action::read, {bytes.data, where.bytes});
}

void requester::send_releases() noexcept {
  // The handler of these answers nothing, and copies need not wait for it.
  const std::uint64_t last_call = last_request_.load(std::memory_order_relaxed);
  while (!releases_.empty()) {
    std::byte* arguments = try_reserve_request(sizeof(std::uint64_t));
    if (arguments == nullptr) break; // the next pump tries again
    std::memcpy(arguments, &releases_.back(), sizeof(std::uint64_t));
    commit_request(arguments, sizeof(std::uint64_t), release_reply_key, nullptr);
    releases_.pop_back();
  }
  // Release; partner: as in note_ended().
  last_request_.store(last_call, std::memory_order_release);
}

void requester::finish(pending_call& slot) noexcept {
  if (&slot == measured_) end_measuring();
  if (slot.is_traced_) [[unlikely]]
    record_answered(slot);
  if (slot.failure_) ++counts_->failures;
  if (slot.request_block_ != nullptr) {
    owner_->release_block(slot.request_block_);
    slot.request_block_ = nullptr;
  }
  const bool is_stopped = std::exchange(slot.stopping_, pending_call::stopping::no) ==
                          pending_call::stopping::requested;
  if (slot.abandoned_) {
    slot.abandoned_ = false;
    --abandoned_;
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
  // As if it had been sent.
  ++counts_->calls;
  ++counts_->answers;
  finish(slot);
  note_ended();
}

void requester::fail(const std::exception_ptr& why) noexcept {
  if (failure_) return;
  failure_ = why;
  close(endpoint_.out);
  releases_.clear();
  for_each_call([&](pending_call& slot) {
    if (!slot.is_in_flight()) return;
    slot.failure_ = why;
    ++counts_->answers;
    finish(slot);
  });
  note_ended();
  // Release; partner: the acquire load in has_reply(). Not before: who finds no reply there looks
  // next whether its pending call is ready, and sleeps.
  is_over_.store(true, std::memory_order_release);
}

std::size_t requester::leave_engine() noexcept {
  guard_.lock();
  owner_ = nullptr;
  for_each_call([](pending_call& slot) { slot.owner_.store(nullptr, std::memory_order_relaxed); });
  const std::size_t held = taken();
  guard_.unlock();
  return held;
}

void requester::let_go_of(pending_call& slot) noexcept {
  if (slot.ready()) {
    if (!slot.failure_) slot.destroy_result();
    return_call(slot);
  } else {
    slot.abandoned_ = true;
    slot.become(completion::state::noted);
    ++abandoned_;
  }
}

void requester::abandon(pending_call& slot) noexcept {
  guard_.lock();
  let_go_of(slot);
  guard_.unlock();
}

void requester::stop(pending_call& slot) noexcept {
  guard_.lock();
  if (slot.is_in_flight() && slot.stopping_ == pending_call::stopping::possible) {
    slot.stopping_ = pending_call::stopping::requested;
    // With the guard: what finish() says of it comes behind.
    owner_->stop_call(peer(), slot.kept_.stoppable_id);
  }
  let_go_of(slot);
  guard_.unlock();
}

} // namespace farcall::am
