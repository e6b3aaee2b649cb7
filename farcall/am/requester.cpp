#include <farcall/am/engine.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace farcall::am {
namespace {

constexpr std::uint32_t chunk_calls = 256;

/// Replies taken in one go, so that a stream of them cannot keep the guard from others.
constexpr std::size_t pump_batch = 256;

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

/// Pending calls never move and are never freed before the lane ends: a pointer to one stays valid.
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
  alignas(pending_call) std::byte memory[chunk_calls * sizeof(pending_call)];
};

requester::requester(client& owner, const endpoint& c, doorbell& wakes)
    : owner_(&owner), endpoint_(c), wakes_(&wakes) {
  watch_forks();
}

requester::~requester() {
  unwatch_forks();
  for (call_chunk* const chunk : chunks_)
    delete chunk;
}

void requester::refuse_long_arguments(std::uint64_t bytes) const {
  throw error(node_text(peer()) + " takes " + std::to_string(largest_arguments()) +
                  " bytes of arguments at most, not " + std::to_string(bytes) +
                  "; put them into a buffer and pass its span, or raise the job's lane_bytes",
              peer());
}

void requester::grow() {
  const auto first = static_cast<std::uint32_t>(chunks_.size()) * chunk_calls;
  auto chunk = std::make_unique<call_chunk>(*owner_, *this, guard_, first);
  chunks_.push_back(chunk.get());
  (void)chunk.release();
  for (std::uint32_t i = chunk_calls; i-- > 0;) {
    pending_call& slot = chunks_.back()->slot(i);
    slot.kept_.next_free = free_;
    free_ = &slot;
  }
}

inline pending_call* requester::find(record_view reply) noexcept {
  const std::uint32_t index = word_at(reply.data + offsetof(record_header, slot));
  if (index / chunk_calls < chunks_.size()) [[likely]] {
    pending_call& slot = chunks_[index / chunk_calls]->slot(index % chunk_calls);
    if (slot.is_in_flight()) [[likely]]
      return &slot;
  }
  log::warning(node_text(peer()) + " answered a call that was not made; ignored");
  return nullptr;
}

std::size_t requester::taken() const noexcept {
  std::size_t n = chunks_.size() * chunk_calls;
  for (const pending_call* free = free_; free != nullptr; free = free->kept_.next_free)
    --n;
  return n;
}

inline void requester::finish(pending_call& slot) noexcept {
  if (slot.ends_simply_) [[likely]] {
    slot.ready_.store(true, std::memory_order_release);
  } else {
    finish_slow(slot);
  }
}

inline void requester::take_reply(record_view record) noexcept {
  pending_call* const slot = find(record);
  if (slot == nullptr) [[unlikely]]
    return;
  try {
    slot->read_(*slot, reply_action::read, {record.data + reply_body, record.bytes - reply_body});
  } catch (...) {
    slot->failure_ = std::current_exception();
  }
  finish(*slot);
}

std::size_t requester::pump() noexcept {
  // The memory of a failed lane may be gone.
  if (failure_) [[unlikely]]
    return 0;
  std::size_t taken = 0;
  progress();
  for (; taken < pump_batch; ++taken) {
    const record_view record = peek(endpoint_.in);
    if (!record) break;
    if (record.kind == record_kind::reply) [[likely]] {
      take_reply(record);
    } else if (record.kind < record_kind::lost) {
      take_other_reply(record);
    } else {
      lose(record.kind);
      break;
    }
    release(endpoint_.in, record);
  }
  // Release; partner: the acquire load in has_reply().
  seen_.store(endpoint_.in.tail, std::memory_order_release);
  if (!releases_.empty()) [[unlikely]]
    send_releases();
  return taken;
}

void requester::take_other_reply(record_view record) noexcept {
  pending_call* const slot = find(record);
  if (slot == nullptr) return;
  try {
    switch (record.kind) {
    case record_kind::reply_rendezvous:
      read_rendezvous(*slot, record);
      break;
    case record_kind::reply_error:
      slot->failure_ = error_in(peer(), record.data + reply_body, record.bytes - reply_body);
      break;
    case record_kind::reply_unknown:
      slot->failure_ = std::make_exception_ptr(unknown_function(
          "the program of " + node_text(peer()) + " has no such function", peer()));
      break;
    default:
      throw malformed_message(node_text(peer()) + " sent a record that is no answer");
    }
  } catch (...) {
    slot->failure_ = std::current_exception();
  }
  finish(*slot);
}

void requester::lose(record_kind why) noexcept {
  is_lost_.store(why == record_kind::lost, std::memory_order_relaxed);
  const char* what = is_lost() ? " can no longer be reached: the connection of this lane has ended"
                               : " sent bytes that are no message";
  fail(std::make_exception_ptr(node_failed(node_text(peer()) + what, peer())));
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
  while (!releases_.empty()) {
    std::byte* arguments = try_reserve_request(sizeof(std::uint64_t));
    if (arguments == nullptr) return; // the next pump tries again
    std::memcpy(arguments, &releases_.back(), sizeof(std::uint64_t));
    commit_request(arguments, sizeof(std::uint64_t), release_reply_key, nullptr);
    releases_.pop_back();
  }
}

void requester::finish_slow(pending_call& slot) noexcept {
  slot.ends_simply_ = true;
  if (slot.request_block_ != nullptr) {
    owner_->release_block(slot.request_block_);
    slot.request_block_ = nullptr;
  }
  const bool is_stopped = std::exchange(slot.stopping_, pending_call::stopping::no) ==
                          pending_call::stopping::requested;
  if (slot.abandoned_) {
    slot.abandoned_ = false;
    --abandoned_;
    if (is_stopped) owner_->forget_call(peer(), slot.kept_.stoppable_id);
    if (!slot.failure_) slot.destroy_result();
    slot.ready_.store(true, std::memory_order_relaxed);
    return_call(slot);
    return;
  }
  if (continuation* then = slot.mark_ready()) due_.push_back(*then);
}

void requester::fail_call(pending_call& slot, std::exception_ptr why) noexcept {
  slot.failure_ = std::move(why);
  finish(slot);
}

void requester::fail(const std::exception_ptr& why) noexcept {
  if (failure_) return;
  failure_ = why;
  close(endpoint_.out);
  releases_.clear();
  for (call_chunk* const chunk : chunks_) {
    for (std::uint32_t i = 0; i < chunk_calls; ++i) {
      pending_call& slot = chunk->slot(i);
      if (!slot.is_in_flight()) continue;
      slot.failure_ = why;
      finish(slot);
    }
  }
  // Release; partner: the acquire load in has_reply(). Not before: who finds no reply there looks
  // next whether its pending call is ready, and sleeps.
  is_over_.store(true, std::memory_order_release);
}

std::size_t requester::leave_engine() noexcept {
  guard_.lock();
  owner_ = nullptr;
  for (call_chunk* const chunk : chunks_) {
    for (std::uint32_t i = 0; i < chunk_calls; ++i)
      chunk->slot(i).owner_.store(nullptr, std::memory_order_relaxed);
  }
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
    slot.ends_simply_ = false;
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
