#include <farcall/am/engine.hpp>
#include <farcall/am/served_lane.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <typeinfo>

namespace farcall::am {

struct served_lane::backlog {
  struct waiting_answer {
    std::unique_ptr<std::byte[]> record;
    std::uint32_t bytes;
    record_kind kind;
  };
  std::deque<waiting_answer> waiting;
  std::unique_ptr<std::byte[]> pending; ///< answer under construction that found no room
  std::set<std::uint64_t> long_answers; ///< in our heap, until the caller has read them
};

// ---- incoming -----------------------------------------------------------------------------------

std::byte* incoming::reserve_long_answer(std::uint64_t bytes) {
  return engine_->allocate_block(bytes);
}

void incoming::commit_long_answer(std::byte* answer, std::uint64_t bytes) noexcept {
  try {
    std::byte* record = lane_->reserve(*this, long_record_bytes);
    const long_body where{reinterpret_cast<std::uintptr_t>(answer), bytes};
    std::memcpy(record + long_body_at, &where, sizeof where);
    if (wants_answer()) lane_->backlog_->long_answers.insert(where.address);
    lane_->send(*this, record, long_record_bytes, record_kind::reply_long);
    if (!wants_answer()) cancel_long_answer(answer);
  } catch (const std::bad_alloc&) {
    cancel_long_answer(answer);
    answer_error("std::bad_alloc", "no memory for the answer");
  }
}

void incoming::cancel_long_answer(std::byte* answer) noexcept { engine_->heap().release(answer); }

void incoming::release_long_answer(std::uint64_t address) noexcept {
  lane_->release_answer(address);
}

void incoming::answer_error(std::string_view type_name, std::string_view text) noexcept {
  if (answered_) return;
  if (!wants_answer()) {
    // Nobody will ever see it otherwise.
    log::warning("a posted call from " + node_text(source_) + " threw " + std::string(type_name) +
                 ": " + std::string(text));
    answered_ = true;
    return;
  }
  type_name = type_name.substr(0, largest_answer() / 4);
  text = text.substr(0, largest_answer() / 2);
  const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(type_name.size()),
                                  static_cast<std::uint32_t>(text.size())};
  const auto bytes = static_cast<std::uint32_t>(reply_body + sizeof sizes + sizes[0] + sizes[1]);
  try {
    std::byte* record = lane_->reserve(*this, bytes);
    std::byte* to = record + reply_body;
    std::memcpy(to, sizes, sizeof sizes);
    to = std::copy_n(reinterpret_cast<const std::byte*>(type_name.data()), sizes[0],
                     to + sizeof sizes);
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), sizes[1], to);
    lane_->send(*this, record, bytes, record_kind::reply_error);
  } catch (const std::bad_alloc&) {
    // The caller cannot be told now; losing its answer silently would let it wait for ever.
    log::error("no memory to report an error to " + node_text(source_) + "; its lane is cut");
    lane_->refuse_more();
  }
}

void incoming::answer_unknown() noexcept {
  if (answered_) return;
  if (!wants_answer()) {
    log::warning("a posted call from " + node_text(source_) + " names no function of this program");
    answered_ = true;
    return;
  }
  try {
    std::byte* record = lane_->reserve(*this, reply_body);
    lane_->send(*this, record, reply_body, record_kind::reply_unknown);
  } catch (const std::bad_alloc&) {
    log::error("no memory to report an error to " + node_text(source_) + "; its lane is cut");
    lane_->refuse_more();
  }
}

// ---- served_lane --------------------------------------------------------------------------------

served_lane::served_lane(engine& e, const channel& c)
    : engine_(&e), channel_(c), backlog_(new backlog) {}

served_lane::~served_lane() {
  for (const std::uint64_t address : backlog_->long_answers)
    engine_->heap().release(reinterpret_cast<std::byte*>(address));
  delete backlog_;
}

bool served_lane::try_hold(bool& nested) noexcept {
  const void* self = this_thread_mark();
  const void* holder = holder_.load(std::memory_order_relaxed);
  nested = holder == self;
  if (nested) return true;
  if (holder != nullptr) return false;
  // Acquire; partner: the release store in let_go().
  return holder_.compare_exchange_strong(holder, self, std::memory_order_acquire,
                                         std::memory_order_relaxed);
}

void served_lane::let_go() noexcept { holder_.store(nullptr, std::memory_order_release); }

bool served_lane::serve_one() noexcept {
  if (blocked() && !flush()) [[unlikely]]
    return false;
  // A handler that waits before it has released its record would run it again.
  if (current_ || is_cut()) [[unlikely]]
    return false;
  const record_view record = peek(channel_.in);
  if (!record) return false;
  if (record.kind == record_kind::lost) return false;
  if (record.kind == record_kind::corrupt || record.bytes < sizeof(request_header) ||
      (record.kind != record_kind::request && record.kind != record_kind::request_long)) {
    log::error(node_text(channel_.peer) + " sent bytes that are no request; its lane is cut");
    refuse_more();
    return false;
  }
  current_ = record;
  request_header header;
  std::memcpy(&header, record.data, sizeof header);

  incoming request(*engine_, *this);
  request.source_ = channel_.peer;
  request.slot_ = header.record.slot;
  request.extra_ = header.extra;
  request.arguments_ = record.data + request_body;
  request.bytes_ = record.bytes - request_body;
  if (record.kind == record_kind::request) [[likely]] {
    run(request, header.key);
  } else {
    run_long(request, header.key);
  }
  return true;
}

void served_lane::run(incoming& request, handler_key key) noexcept {
  if (const handler* h = engine_->find_handler(key)) [[likely]] {
    h->run(request, h->context);
  } else {
    request.answer_unknown();
  }
  request.release();
  if (!request.answered_ && request.wants_answer()) [[unlikely]]
    answer_nothing(request);
}

void served_lane::run_long(incoming& request, handler_key key) noexcept {
  try {
    if (request.bytes_ != sizeof(long_body)) {
      throw malformed_message(node_text(channel_.peer) + " sent a long call that is cut short");
    }
    long_body where{};
    std::memcpy(&where, request.arguments_, sizeof where);
    request.release();
    const foreign_bytes bytes = engine_->read_foreign(channel_.peer, where.address, where.bytes);
    request.arguments_ = bytes.data;
    request.bytes_ = where.bytes;
    request.in_ring_ = false;
    run(request, key);
  } catch (const std::exception& e) {
    request.release();
    request.answer_error(demangle(typeid(e).name()), e.what());
  }
}

void served_lane::answer_nothing(incoming& request) noexcept {
  try {
    send(request, reserve(request, reply_body), reply_body, record_kind::reply);
  } catch (const std::bad_alloc&) {
    log::error("no memory to answer " + node_text(channel_.peer) + "; its lane is cut");
    refuse_more();
  }
}

std::byte* served_lane::reserve_aside(incoming& request, std::uint32_t bytes) {
  request.reserved_in_ring_ = false;
  backlog_->pending = std::make_unique<std::byte[]>(bytes);
  return backlog_->pending.get();
}

void served_lane::keep(std::uint32_t bytes, record_kind kind) noexcept {
  if (is_cut()) return;
  try {
    backlog_->waiting.push_back({std::move(backlog_->pending), bytes, kind});
    blocked_.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    log::error("no memory to keep an answer for " + node_text(channel_.peer) + "; its lane is cut");
    refuse_more();
  }
}

bool served_lane::flush() noexcept {
  auto& waiting = backlog_->waiting;
  while (!waiting.empty() && !is_cut()) {
    const backlog::waiting_answer& answer = waiting.front();
    std::byte* record = try_reserve(channel_.out, answer.bytes);
    if (record == nullptr) return false;
    std::memcpy(record + sizeof(std::uint32_t), answer.record.get() + sizeof(std::uint32_t),
                answer.bytes - sizeof(std::uint32_t));
    commit(channel_.out, record, answer.bytes, answer.kind);
    waiting.pop_front();
  }
  waiting.clear();
  blocked_.store(false, std::memory_order_relaxed);
  return true;
}

void served_lane::refuse_more() noexcept {
  if (is_cut()) return;
  refuse(channel_.out);
  cut_.store(true, std::memory_order_release);
}

void served_lane::release_answer(std::uint64_t address) noexcept {
  if (backlog_->long_answers.erase(address) != 0) {
    engine_->heap().release(reinterpret_cast<std::byte*>(address));
  }
}

} // namespace farcall::am
