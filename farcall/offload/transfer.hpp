#pragma once

#include <farcall/am/client.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/counters.hpp>
#include <farcall/memory/mapped_window.hpp>
#include <farcall/offload/buffer.hpp>
#include <farcall/offload/future.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace farcall {

class lane;

/// Copies of at least this many bytes run off the calling thread when asked for asynchronously.
inline constexpr std::size_t async_copy_from = std::size_t{4} << 20;

namespace detail {

enum class transfer_mode { async, sync };

/// Memory of a node that the calling thread reaches directly: what its last copy found out, so that
/// the next small one need not look again.
struct direct_window {
  const job_core* job = nullptr;
  std::uint32_t job_serial = 0;
  node_id node = no_node;
  mapped_window memory;
  const std::atomic<bool>* has_failed = nullptr; ///< of the node; as long as its job
  thread_counters* counters = nullptr;           ///< of the thread; as long as its job
};
extern constinit thread_local direct_window last_window;

/// Where the range can be used here, if the last copy of this thread has found that out; else null.
[[nodiscard]] inline std::byte* find_in_last_window(const job_core& job, node_id node,
                                                    std::uint64_t address,
                                                    std::size_t bytes) noexcept {
  const direct_window& w = last_window;
  if (w.job != &job || w.job_serial != job.serial || w.node != node) return nullptr;
  // Acquire; partner: the release store in engine::fail(). A child of a fork has to be refused.
  if (w.has_failed->load(std::memory_order_acquire) || job.client->is_forked()) return nullptr;
  return w.memory.find(address, bytes);
}

/// Copies of at most so many bytes are not worth a look at the deadline.
inline constexpr std::size_t short_copy = copy_chunk_bytes;

/// The job that a buffer's memory belongs to; null for a bare span, which may be of any.
template <class T>
[[nodiscard]] job_core* known_job(const buffer<T>& b) noexcept {
  return b.node().job();
}
template <class T>
[[nodiscard]] job_core* known_job(const remote_span<T>& /*span*/) noexcept {
  return nullptr;
}
template <class T>
[[nodiscard]] job_core* known_job(const timed_span<T>& timed) noexcept {
  return timed.job();
}

template <class T>
[[nodiscard]] remote_span<T> span_of(const remote_span<T>& s) noexcept {
  return s;
}
template <class T>
[[nodiscard]] remote_span<T> span_of(const buffer<T>& b) noexcept {
  return b.span();
}
template <class T>
[[nodiscard]] remote_span<T> span_of(const timed_span<T>& timed) noexcept {
  return timed.span();
}

/// Throws error for memory of another job.
template <class T>
void require_of(const job_core& job, const remote_span<T>& span) {
  if (span.mark() != job.mark && span.mark() != 0) [[unlikely]]
    throw_other_job(span.node());
}

/// The job of all of them; the current one when they are bare spans. Throws error when they belong
/// to several.
template <class... Remote>
[[nodiscard]] job_core& job_of(const Remote&... remote) {
  job_core* job = nullptr;
  for (job_core* known : {known_job(remote)...}) {
    if (job != nullptr && known != nullptr && known != job) throw_different_jobs();
    if (known != nullptr) job = known;
  }
  if (job == nullptr) job = &current_core();
  (require_of(*job, span_of(remote)), ...);
  return *job;
}

/// As release_on(), behind the calls of `by`, which leads to the node; of the calling thread's lane
/// where that is null.
void release_behind(const node& where, const lane* by, std::uint64_t address) noexcept;

[[nodiscard]] future<void> put_bytes(job_core& job, node_id to, std::uint64_t address,
                                     const std::byte* from, std::size_t bytes, transfer_mode mode,
                                     time_point deadline = no_deadline);
[[nodiscard]] future<void> get_bytes(job_core& job, node_id from, std::uint64_t address,
                                     std::byte* to, std::size_t bytes, transfer_mode mode,
                                     time_point deadline = no_deadline);
[[nodiscard]] future<void> copy_between(job_core& job, node_id from, std::uint64_t from_address,
                                        node_id to, std::uint64_t to_address, std::size_t bytes,
                                        time_point deadline = no_deadline);
[[nodiscard]] std::byte* map_bytes(job_core& job, node_id node, std::uint64_t address,
                                   std::size_t bytes);

[[noreturn]] void throw_too_long(std::size_t local, std::size_t remote);

template <class T>
struct remote_element {};
template <class T>
struct remote_element<remote_span<T>> {
  using type = T;
};
template <class T>
struct remote_element<buffer<T>> {
  using type = T;
};

template <class T>
struct remote_element<timed_span<T>> {
  using type = T;
};
template <class T>
struct remote_element<timed_buffer<T>> {
  using type = T;
};

/// remote_span<T> or buffer<T>, perhaps with a deadline.
template <class R>
concept remote_range = requires { typename remote_element<std::remove_cvref_t<R>>::type; };

template <class R>
using element = typename remote_element<std::remove_cvref_t<R>>::type;

/// By when a copy with it has to be done.
template <class Remote>
[[nodiscard]] time_point deadline_of(const Remote& /*remote*/) noexcept {
  return no_deadline;
}
template <class T>
[[nodiscard]] time_point deadline_of(const timed_span<T>& timed) noexcept {
  return timed.deadline();
}
template <class T>
[[nodiscard]] time_point deadline_of(const timed_buffer<T>& timed) noexcept {
  return timed.deadline();
}

/// Makes a short copy where the last one of this thread has found the way. False when it has not.
template <class Remote>
[[nodiscard]] bool put_at_once(std::span<const element<Remote>> from, const Remote& to) {
  static_assert(!std::is_const_v<element<Remote>>,
                "farcall: put needs a destination that is not const");
  const auto span = span_of(to);
  if (from.size() > span.size()) [[unlikely]]
    throw_too_long(from.size(), span.size());
  if (from.size_bytes() > short_copy) return false;
  std::byte* const there =
      find_in_last_window(job_of(to), span.node(), span.address(), from.size_bytes());
  if (there == nullptr) [[unlikely]]
    return false;
  copy_bytes(there, from.data(), from.size_bytes());
  last_window.counters->count_put(from.size_bytes());
  return true;
}

template <class Remote>
future<void> put_as(std::span<const element<Remote>> from, const Remote& to, transfer_mode mode) {
  if (put_at_once(from, to)) return ready_future<void>();
  const auto span = span_of(to);
  return put_bytes(job_of(to), span.node(), span.address(),
                   reinterpret_cast<const std::byte*>(from.data()), from.size_bytes(), mode,
                   deadline_of(to));
}

/// As put_at_once().
template <class Remote>
[[nodiscard]] bool get_at_once(const Remote& from,
                               std::span<std::remove_const_t<element<Remote>>> to) {
  const auto span = span_of(from);
  if (to.size() > span.size()) [[unlikely]]
    throw_too_long(to.size(), span.size());
  if (to.size_bytes() > short_copy) return false;
  const std::byte* const there =
      find_in_last_window(job_of(from), span.node(), span.address(), to.size_bytes());
  if (there == nullptr) [[unlikely]]
    return false;
  copy_bytes(to.data(), there, to.size_bytes());
  last_window.counters->count_get(to.size_bytes());
  return true;
}

template <class Remote>
future<void> get_as(const Remote& from, std::span<std::remove_const_t<element<Remote>>> to,
                    transfer_mode mode) {
  if (get_at_once(from, to)) return ready_future<void>();
  const auto span = span_of(from);
  return get_bytes(job_of(from), span.node(), span.address(),
                   reinterpret_cast<std::byte*>(to.data()), to.size_bytes(), mode,
                   deadline_of(from));
}

} // namespace detail

/// Copies `from`, memory of this node, to the beginning of `to` on another. `from` may be shorter
/// than `to`, not longer. Small copies are done on return; large ones (async_copy_from) run beside
/// the caller, who must leave `from` alone until the future is ready. A call that is sent after the
/// future is ready sees the data. Throws error for too long a source; the future holds node_failed.
///
/// With a deadline, `to.within(duration)`, a copy that is not done by then ends: the future holds
/// timeout, and `from` is not used any more. A part of the data may have been copied, and more may
/// follow where the node is on another machine: what comes behind it from this process, a copy or
/// the end of the buffer, waits for that. A copy to or from a device, once begun, is waited for.
/// The same holds for get and for copy.
template <detail::remote_range Remote>
[[nodiscard]] future<void> put(std::span<const detail::element<Remote>> from, const Remote& to) {
  return detail::put_as(from, to, detail::transfer_mode::async);
}
/// As put, by the calling thread, done on return. Throws what put throws, and node_failed.
template <detail::remote_range Remote>
void put_sync(std::span<const detail::element<Remote>> from, const Remote& to) {
  if (detail::put_at_once(from, to)) return;
  detail::put_as(from, to, detail::transfer_mode::sync).get();
}

/// Copies the beginning of `from`, on another node, to `to`, memory of this one. `to` may be
/// shorter than `from`, not longer, and must be left alone until the future is ready. Otherwise as
/// put, and throws the same.
template <detail::remote_range Remote>
[[nodiscard]] future<void> get(const Remote& from,
                               std::span<std::remove_const_t<detail::element<Remote>>> to) {
  return detail::get_as(from, to, detail::transfer_mode::async);
}
/// As get, by the calling thread, done on return. Throws what get throws, and node_failed.
template <detail::remote_range Remote>
void get_sync(const Remote& from, std::span<std::remove_const_t<detail::element<Remote>>> to) {
  if (detail::get_at_once(from, to)) return;
  detail::get_as(from, to, detail::transfer_mode::sync).get();
}

/// Copies between two nodes, directly: the destination's node fetches from the source's. `from` may
/// be shorter than `to`, not longer. They must not overlap. Of two deadlines the earlier counts.
/// Throws error for too long a source; the future holds node_failed, and timeout.
template <detail::remote_range From, detail::remote_range To>
[[nodiscard]] future<void> copy(const From& from, const To& to) {
  static_assert(std::is_same_v<std::remove_const_t<detail::element<From>>, detail::element<To>>,
                "farcall: copy needs one element type, and a destination that is not const");
  const auto source = detail::span_of(from);
  const auto target = detail::span_of(to);
  if (source.size() > target.size()) detail::throw_too_long(source.size(), target.size());
  const time_point one = detail::deadline_of(from);
  const time_point other = detail::deadline_of(to);
  return detail::copy_between(detail::job_of(from, to), source.node(), source.address(),
                              target.node(), target.address(), source.size_bytes(),
                              one < other ? one : other);
}
/// As copy, done on return. Throws what copy throws, and node_failed.
template <detail::remote_range From, detail::remote_range To>
void copy_sync(const From& from, const To& to) {
  copy(from, to).get();
}

/// The memory of `shared`, for use in place in this process. Valid as long as the memory is. Works
/// for memory of this node, and for what was allocated on nodes of this machine; throws error
/// otherwise. Nobody orders the two sides' accesses but your calls.
template <detail::remote_range Remote>
[[nodiscard]] std::span<detail::element<Remote>> map(const Remote& shared) {
  const auto span = detail::span_of(shared);
  std::byte* here =
      detail::map_bytes(detail::job_of(shared), span.node(), span.address(), span.size_bytes());
  return {reinterpret_cast<detail::element<Remote>*>(here), span.size()};
}

} // namespace farcall
