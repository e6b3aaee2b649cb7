// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/call_pool.hpp>
#include <farcall/am/requester.hpp>

#include <chrono>
#include <memory>

namespace farcall::am {
namespace {

constexpr std::chrono::seconds trim_interval{1};

} // namespace

call_pool::chunk::chunk(client& owner, requester& lane, biased_lock& guard, std::uint32_t first) {
  for (std::uint32_t i = 0; i < chunk_calls; ++i)
    new (memory + i * sizeof(pending_call)) pending_call(owner, lane, guard, first + i);
}

call_pool::chunk::~chunk() {
  for (std::uint32_t i = 0; i < chunk_calls; ++i)
    slot(i).~pending_call();
}

/// Returns the placeholder that replaces chunks whose memory was given back. All lanes share this
/// placeholder, which is never destroyed. Its calls are never in flight, so a reply to one of them
/// counts as the peer's mistake. `lane` is used only to construct the placeholder at the first
/// call.
call_pool::chunk* call_pool::stand_in(requester& lane) noexcept {
  alignas(chunk) static std::byte memory[sizeof(chunk)];
  static auto* const made = new (memory) chunk(lane.owner(), lane, lane.guard(), 0);
  return made;
}

call_pool::~call_pool() {
  for (chunk* const c : chunks_) {
    if (c != given_back_) delete c;
  }
}

void call_pool::grow() {
  std::size_t at = 0;
  while (at < chunks_.size() && chunks_[at] != given_back_)
    ++at;
  const auto first = static_cast<std::uint32_t>(at) * chunk_calls;
  auto made = std::make_unique<chunk>(lane_->owner(), *lane_, lane_->guard(), first);
  if (at == chunks_.size()) {
    chunks_.push_back(made.get());
    end_ = first + chunk_calls;
  }
  chunks_[at] = made.release();
  for (std::uint32_t i = chunk_calls; i-- > 0;)
    give_back(chunks_[at]->slot(i));
}

std::size_t call_pool::capacity() const noexcept {
  std::size_t chunks = 0;
  for (const chunk* const c : chunks_)
    chunks += c == given_back_ ? 0 : 1;
  return chunks * chunk_calls;
}

std::size_t call_pool::taken() const noexcept {
  std::size_t n = capacity();
  for (const pending_call* free = free_; free != nullptr; free = free->kept_.next_free)
    --n;
  return n;
}

void call_pool::trim(time_point now) noexcept {
  if (now < next_trim_) return;
  next_trim_ = now + trim_interval;
  give_back_chunks(
      [this](const chunk& c) { return c.idle == chunk_calls && &c != chunks_.front(); });
}

void call_pool::give_back_unused() noexcept {
  give_back_chunks([](const chunk& c) { return c.free == chunk_calls; });
}

template <class F>
void call_pool::give_back_chunks(const F& goes) noexcept {
  for (chunk* const c : chunks_) {
    if (c != given_back_) c->free = c->idle = 0;
  }
  for (pending_call* call = free_; call != nullptr; call = call->kept_.next_free) {
    chunk& its = chunk_of(*call);
    ++its.free;
    its.idle += call->was_idle() ? 1 : 0;
  }
  pending_call** last = &free_;
  for (pending_call* call = free_; call != nullptr; call = call->kept_.next_free) {
    const chunk& its = chunk_of(*call);
    if (goes(its)) continue;
    if (its.free == chunk_calls) call->mark_idle();
    *last = call;
    last = &call->kept_.next_free;
  }
  *last = nullptr;
  for (chunk*& c : chunks_) {
    if (c == given_back_ || !goes(*c)) continue;
    delete c;
    c = given_back_ = stand_in(*lane_);
  }
}

} // namespace farcall::am
