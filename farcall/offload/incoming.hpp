// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/offload/collectives.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

namespace farcall::detail {

/// The bytes that one node sends to this one in one round of a collective. While an object of this
/// class exists, messages of its round are passed to a function as soon as they arrive, and in
/// their order. At most one object exists at a time. One thread uses the object, except for the
/// functions that collectives::take() calls.
class incoming {
 public:
  /// Function that gets each piece of the bytes. It runs on the thread that runs handlers.
  struct consumer {
    void (*take)(void* argument, std::size_t offset, std::span<const std::byte> piece);
    void* argument;
  };

  /// Starts to receive `size` bytes of `from`.
  incoming(collectives& all, job_state& job, node_id from, std::uint32_t round, std::size_t size,
           consumer to);
  /// Ends receiving. Waits while the consumer runs.
  ~incoming();
  incoming(const incoming&) = delete;
  incoming& operator=(const incoming&) = delete;
  incoming(incoming&&) = delete;
  incoming& operator=(incoming&&) = delete;

  /// Waits until the consumer has taken the first `bytes` bytes. If this is the size of the round,
  /// also waits for the one message of an empty round. Throws timeout, node_failed, error, and what
  /// the consumer has thrown.
  void wait(std::size_t bytes, time_point deadline);

 private:
  friend class collectives;

  /// Returns true if the message is the next one of this round. It must then be passed to
  /// consume(). Call with the mutex of the collectives held.
  [[nodiscard]] bool claim(const collectives::label& of) noexcept;
  /// If the message shows that its sender executes something else, or has executed something else
  /// and goes on, ends the wait with an error. Call with the mutex of the collectives held.
  void check(const collectives::label& of);
  /// Ends the wait with the error of a different collective. Call with the mutex of the collectives
  /// held.
  void refuse(const job_state& job, const collectives::label& of) noexcept;
  /// Passes a message to the consumer, and then the stored messages that come next. The object may
  /// not exist any more when this function returns.
  void consume(const collectives::label& of, std::span<const std::byte> bytes);
  void consume_one(const collectives::label& of, std::span<const std::byte> bytes) noexcept;
  /// Passes the stored messages that come next to the consumer.
  void consume_stored();
  /// Ends the wait with an error, unless it has ended so before. Call with the mutex of the
  /// collectives held.
  void fail(std::exception_ptr why) noexcept;

  [[nodiscard]] bool has(std::size_t bytes) const noexcept {
    // Acquire, paired with the release stores in consume_one(), so that the consumer's writes are
    // visible.
    return is_complete_.load(std::memory_order_acquire) ||
           (bytes < size_ && received_.load(std::memory_order_acquire) >= bytes);
  }
  [[nodiscard]] bool is_broken() const noexcept {
    // Acquire, paired with the release store in fail(), so that the exception is visible.
    return is_broken_.load(std::memory_order_acquire);
  }

  collectives& all_;
  job_state& job_;
  const node_id from_;
  const std::uint32_t round_;
  const std::size_t size_;
  const consumer to_;
  bool is_busy_ = true; ///< true while a thread consumes; guarded by the mutex of the collectives
  std::uint32_t next_ = 0; ///< number of the next piece; belongs to the thread that consumes
  std::atomic<std::size_t> received_{0};
  std::atomic<bool> is_complete_{false};
  std::exception_ptr why_; ///< written once, before is_broken_
  std::atomic<bool> is_broken_{false};
};

template <class Body>
void collectives::run(job_state& job, const label& as, const Body& body) {
  begin(as);
  try {
    if (is_told()) throw_if_failed(job);
    throw_if_different(job);
    body();
    require_all_taken(job);
    throw_if_different(job);
  } catch (const node_failed&) {
    // Do not store the failure of a node in why_broken_, because the next collective throws
    // node_failed in any case.
    throw;
  } catch (const std::exception& e) {
    fail(job, exception_text(e));
    throw;
  } catch (...) {
    // The operation of a reduction can throw anything.
    fail(job, "an exception that is no std::exception");
    throw;
  }
}

} // namespace farcall::detail
