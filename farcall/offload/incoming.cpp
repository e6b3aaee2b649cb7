// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/base/error.hpp>
#include <farcall/offload/incoming.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace farcall::detail {

namespace {

/// Time after which a node sends its label to the node that it waits for.
constexpr std::chrono::seconds time_to_compare{1};

} // namespace

incoming::incoming(collectives& all, job_state& job, node_id from, std::uint32_t round,
                   std::size_t size, consumer to)
    : all_(all), job_(job), from_(from), round_(round), size_(size), to_(to) {
  {
    const std::lock_guard guard(all_.mutex_);
    all_.expected_ = this;
    const std::uint64_t number = all_.present_.number;
    for (auto at = all_.arrived_.lower_bound({number, 0, 0});
         at != all_.arrived_.end() && at->second.of.number <= number + 1; ++at)
      check(at->second.of);
    if (all_.different_) refuse(job_, *all_.different_);
  }
  consume_stored();
}

incoming::~incoming() {
  const auto is_idle = [](void* argument) noexcept {
    const auto& it = *static_cast<const incoming*>(argument);
    const std::lock_guard guard(it.all_.mutex_);
    return !it.is_busy_;
  };
  {
    const std::lock_guard guard(all_.mutex_);
    all_.expected_ = nullptr;
    if (!is_busy_) return;
    // The consumer takes no message after the present one.
    is_broken_.store(true, std::memory_order_release);
  }
  // The consumer uses this object, and memory of the caller. So not even an interruption, which may
  // be the reason for this destruction, ends the wait before the consumer has returned.
  const am::uninterruptible whole_wait;
  while (!is_idle(this)) {
    try {
      (void)job_.engine->waiter().wait_until(is_idle, this, true, no_deadline);
    } catch (const forked&) {
      return; // no consumer runs in a forked child
    } catch (const std::exception&) {
      // Without memory, the thread cannot sleep.
      std::this_thread::yield();
    }
  }
}

void incoming::wait(std::size_t bytes, time_point deadline) {
  struct question {
    const incoming& it;
    std::size_t bytes;
  } asked{*this, bytes};
  const auto ask = [](void* q) noexcept {
    const auto& [it, wanted] = *static_cast<const question*>(q);
    return it.has(wanted) || it.is_broken() || it.all_.has_failed() || it.all_.is_told();
  };
  if (has(bytes)) return;
  bool is_over = false;
  for (bool has_sent = false; !is_over;) {
    const time_point until =
        has_sent ? deadline : std::min(deadline, deadline_after(time_to_compare));
    is_over = job_.engine->waiter().wait_until(ask, &asked, true, until);
    if (until == deadline) break;
    if (!is_over) has_sent = all_.send_label(job_, from_);
  }
  if (has(bytes)) return;
  if (is_broken()) std::rethrow_exception(why_);
  if (is_over) all_.throw_if_failed(job_);
  throw timeout(name_of(all_.present_.kind) +
                    " was not over before its deadline: nothing has come from " + node_text(from_),
                from_);
}

bool incoming::claim(const collectives::label& of) noexcept {
  if (is_busy_ || of.from != from_ || of.round != round_ || of.piece != next_ ||
      !all_.is_same(of) || is_broken())
    return false;
  is_busy_ = true;
  return true;
}

void incoming::check(const collectives::label& of) {
  const std::uint64_t number = all_.present_.number;
  if (of.number < number || of.number > number + 1 || is_broken()) return;
  try {
    // The sender has left this collective, and may have called another one in its place.
    if (of.number > number) {
      if (of.before != all_.present_.history && !all_.has_failed()) all_.throw_different(job_, of);
      return;
    }
    if (!all_.is_same(of)) all_.throw_different(job_, of);
    if (of.round == round_ && of.from != from_) {
      throw error("a message of " + name_of(of.kind) + " has come from " + node_text(of.from) +
                  ", and not from " + node_text(from_));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void incoming::refuse(const job_state& job, const collectives::label& of) noexcept {
  if (is_broken()) return;
  try {
    all_.throw_different(job, of);
  } catch (...) {
    fail(std::current_exception());
  }
}

void incoming::fail(std::exception_ptr why) noexcept {
  if (is_broken()) return;
  why_ = std::move(why);
  is_broken_.store(true, std::memory_order_release);
}

void incoming::consume(const collectives::label& of, std::span<const std::byte> bytes) {
  consume_one(of, bytes);
  consume_stored();
}

void incoming::consume_one(const collectives::label& of,
                           std::span<const std::byte> bytes) noexcept {
  // Relaxed, because only one thread at a time consumes, and the mutex orders them.
  const std::size_t before = received_.load(std::memory_order_relaxed);
  try {
    if (of.round_size != size_ || bytes.size() > size_ - before) {
      throw error("in " + name_of(of.kind) + ", " + node_text(from_) + " has sent " +
                  std::to_string(of.round_size) + " bytes, and not " + std::to_string(size_) +
                  "; all nodes must give the same size");
    }
    to_.take(to_.argument, before, bytes);
  } catch (...) {
    const std::lock_guard guard(all_.mutex_);
    fail(std::current_exception());
    return;
  }
  ++next_;
  received_.store(before + bytes.size(), std::memory_order_release);
  if (before + bytes.size() == size_) is_complete_.store(true, std::memory_order_release);
}

void incoming::consume_stored() {
  collectives& all = all_;
  for (;;) {
    decltype(all.arrived_)::node_type stored;
    {
      const std::lock_guard guard(all.mutex_);
      if (!is_broken()) stored = all.arrived_.extract({all.present_.number, round_, next_});
      if (stored.empty()) {
        is_busy_ = false;
        return; // the object may not exist any more
      }
    }
    consume_one(stored.mapped().of, stored.mapped().bytes);
    const std::lock_guard guard(all.mutex_);
    // Never allocates memory, so that it cannot throw.
    if (all.spare_.size() < all.spare_.capacity()) all.spare_.push_back(std::move(stored));
  }
}

} // namespace farcall::detail
