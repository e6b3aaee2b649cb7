#include <farcall/am/engine.hpp>
#include <farcall/am/lane.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace farcall::am {
namespace {

constexpr std::uint32_t chunk_slots = 256;

/// Answers taken in one go, so that a stream of them cannot keep the guard from others.
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
  // An answer that found no room there is no doing of the handler's.
  if (type == "farcall::out_of_memory") return std::make_exception_ptr(out_of_memory(text, peer));
  return std::make_exception_ptr(remote_error(peer, type, text));
}

} // namespace

/// Slots never move and are never given back before the lane ends: a pointer to one stays valid.
struct slot_chunk {
  slot_chunk(client& owner, lane& l, biased_lock& guard, std::uint32_t first) {
    for (std::uint32_t i = 0; i < chunk_slots; ++i) {
      new (memory + i * sizeof(call_slot)) call_slot(owner, l, guard, first + i);
    }
  }
  slot_chunk(const slot_chunk&) = delete;
  slot_chunk& operator=(const slot_chunk&) = delete;
  ~slot_chunk() {
    for (std::uint32_t i = 0; i < chunk_slots; ++i)
      slot(i).~call_slot();
  }
  call_slot& slot(std::uint32_t i) noexcept {
    return *std::launder(reinterpret_cast<call_slot*>(memory + i * sizeof(call_slot)));
  }
  alignas(call_slot) std::byte memory[chunk_slots * sizeof(call_slot)];
};

lane::lane(client& owner, const channel& c, bell& wakes)
    : owner_(&owner), channel_(c), wakes_(&wakes) {}

lane::~lane() {
  for (slot_chunk* const chunk : chunks_)
    delete chunk;
}

void lane::refuse_long_arguments(std::uint64_t bytes) const {
  throw error(node_text(peer()) + " takes " + std::to_string(largest_arguments()) +
                  " bytes of arguments at most, not " + std::to_string(bytes) +
                  "; put them into a buffer and pass its span, or raise the job's lane_bytes",
              peer());
}

void lane::grow() {
  const auto first = static_cast<std::uint32_t>(chunks_.size()) * chunk_slots;
  auto chunk = std::make_unique<slot_chunk>(*owner_, *this, guard_, first);
  chunks_.push_back(chunk.get());
  (void)chunk.release();
  for (std::uint32_t i = chunk_slots; i-- > 0;) {
    call_slot& slot = chunks_.back()->slot(i);
    slot.next_free_ = free_;
    free_ = &slot;
  }
}

call_slot* lane::find(std::uint32_t index) noexcept {
  if (index / chunk_slots >= chunks_.size()) return nullptr;
  call_slot& slot = chunks_[index / chunk_slots]->slot(index % chunk_slots);
  return slot.in_flight_ ? &slot : nullptr;
}

std::size_t lane::pump() noexcept {
  std::size_t taken = 0;
  progress();
  while (taken < pump_batch && !failure_) {
    const record_view record = peek(channel_.in);
    if (!record) break;
    if (record.kind == record_kind::corrupt || record.kind == record_kind::lost) {
      is_lost_.store(record.kind == record_kind::lost, std::memory_order_relaxed);
      const char* what = is_lost()
                             ? " can no longer be reached: the connection of this lane has ended"
                             : " sent bytes that are no message";
      fail(std::make_exception_ptr(node_failed(node_text(peer()) + what, peer())));
      break;
    }
    take_answer(record);
    release(channel_.in, record);
    ++taken;
  }
  // Relaxed: only a hint for has_answer().
  seen_.store(channel_.in.tail, std::memory_order_relaxed);
  if (!releases_.empty()) [[unlikely]]
    send_releases();
  return taken;
}

void lane::take_answer(const record_view& record) noexcept {
  call_slot* slot = find(word_at(record.data + offsetof(record_header, slot)));
  if (slot == nullptr) {
    log::warning(node_text(peer()) + " answered a call that was not made; ignored");
    return;
  }
  try {
    switch (record.kind) {
    case record_kind::reply:
      slot->read_(*slot, slot_action::read, {record.data + reply_body, record.bytes - reply_body});
      break;
    case record_kind::reply_long:
      read_long(*slot, record);
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

void lane::read_long(call_slot& slot, const record_view& record) {
  if (record.bytes != long_record_bytes) {
    throw malformed_message(node_text(peer()) + " sent a long answer that is cut short");
  }
  long_body where{};
  std::memcpy(&where, record.data + long_body_at, sizeof where);
  releases_.push_back(where.address);
  const foreign_bytes bytes = engine_of(*owner_).read_foreign(peer(), where.address, where.bytes);
  slot.read_(slot, slot_action::read, {bytes.data, where.bytes});
}

void lane::send_releases() noexcept {
  while (!releases_.empty()) {
    std::byte* arguments = try_reserve_request(sizeof(std::uint64_t));
    if (arguments == nullptr) return; // the next pump tries again
    std::memcpy(arguments, &releases_.back(), sizeof(std::uint64_t));
    commit_request(arguments, sizeof(std::uint64_t), release_answer_key, nullptr);
    releases_.pop_back();
  }
}

void lane::finish(call_slot& slot) noexcept {
  slot.in_flight_ = false;
  if (slot.request_block_ != nullptr) {
    owner_->release_block(slot.request_block_);
    slot.request_block_ = nullptr;
  }
  if (slot.abandoned_) {
    if (!slot.failure_) slot.destroy_result();
    return_slot(slot);
    return;
  }
  if (continuation* then = slot.mark_ready()) {
    then->next = due_;
    due_ = then;
  }
}

void lane::fail_slot(call_slot& slot, std::exception_ptr why) noexcept {
  slot.failure_ = std::move(why);
  finish(slot);
}

void lane::fail(const std::exception_ptr& why) noexcept {
  if (failure_) return;
  failure_ = why;
  close(channel_.out);
  releases_.clear();
  for (slot_chunk* const chunk : chunks_) {
    for (std::uint32_t i = 0; i < chunk_slots; ++i) {
      call_slot& slot = chunk->slot(i);
      if (!slot.in_flight_) continue;
      slot.failure_ = why;
      finish(slot);
    }
  }
}

std::size_t lane::leave_engine() noexcept {
  guard_.lock();
  owner_ = nullptr;
  for (slot_chunk* const chunk : chunks_) {
    for (std::uint32_t i = 0; i < chunk_slots; ++i)
      chunk->slot(i).owner_ = nullptr;
  }
  const std::size_t held = taken_;
  guard_.unlock();
  return held;
}

void lane::abandon(call_slot& slot) noexcept {
  guard_.lock();
  if (slot.ready()) {
    if (!slot.failure_) slot.destroy_result();
    return_slot(slot);
  } else {
    slot.abandoned_ = true;
  }
  guard_.unlock();
}

void lane::run(continuation* due) noexcept {
  while (due != nullptr) {
    continuation* next = due->next;
    due->run();
    due = next;
  }
}

} // namespace farcall::am
