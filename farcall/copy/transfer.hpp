// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/client.hpp>
#include <farcall/async/future.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/counters.hpp>
#include <farcall/memory/mapped_window.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace farcall {

class lane;

/// Asynchronous copies of at least this many bytes run on another thread than the caller's.
inline constexpr std::size_t async_copy_from = std::size_t{4} << 20;

namespace detail {

enum class transfer_mode { async, sync };

/// True for ever: the flag of a window without memory.
extern constinit const std::atomic<bool> no_window;

/// Mapped memory of another node that the thread's last copy has used. The thread caches it, so
/// that its next small copy to or from this memory needs no lookup. The memory stays mapped until
/// the thread's next copy to or from other memory.
struct direct_window {
  std::uint32_t mark = 0; ///< mark of the job
  node_id node = no_node;
  /// Flag that is set when the node fails; lives as long as the job.
  const std::atomic<bool>* has_failed = &no_window;
  mapped_window memory;
  /// Counters of the thread; live as long as its job
  thread_counters* counters = nullptr;
  const job_core* job = nullptr;
  std::uint32_t job_serial = 0;
};
extern constinit thread_local direct_window last_window;

/// Returns a pointer to the range if it is in the window of this thread's last copy, and the
/// window's job is the only job of the process; otherwise null. `mark` is the mark of the range's
/// job, or 0.
[[nodiscard]] inline std::byte* find_in_last_window(std::uint32_t mark, node_id node,
                                                    std::uint64_t address,
                                                    std::size_t bytes) noexcept {
  const direct_window& w = last_window;
  // The mark of the only job is 0 once the job has ended.
  if (w.node != node || w.mark != only_mark.load(std::memory_order_relaxed)) return nullptr;
  if (mark != w.mark && mark != 0) return nullptr;
  // The acquire load is paired with the release store in engine::fail().
  if (w.has_failed->load(std::memory_order_acquire)) return nullptr;
  return w.memory.find(address, bytes);
}

/// Maximum number of bytes of a copy that is made without checking its deadline.
inline constexpr std::size_t short_copy = copy_chunk_bytes;

/// Returns the job of a buffer's memory; null for a bare span, because its job is unknown.
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
[[nodiscard]] const remote_span<T>& span_of(const remote_span<T>& s) noexcept {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): refers to the argument of a copy
  return s;
}
template <class T>
[[nodiscard]] remote_span<T> span_of(const buffer<T>& b) noexcept {
  return b.span();
}
template <class T>
[[nodiscard]] const remote_span<T>& span_of(const timed_span<T>& timed) noexcept {
  return timed.span();
}

/// Throws error if the memory belongs to another job.
template <class T>
void require_of(const job_core& job, const remote_span<T>& span) {
  if (span.mark() != job.mark && span.mark() != 0) [[unlikely]]
    throw_other_job(span.node());
}

/// Returns the job to which all the memory belongs; the current job if all arguments are bare
/// spans. Throws error if they belong to several jobs.
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

/// Releases memory like release_on(), after the earlier calls of the lane `by`, which leads to the
/// node. If `by` is null, the lane is the calling thread's.
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
/// Returns memory of a node for use in place, which stays mapped until the end of the job. Throws
/// node_failed, and error if the memory is not shared with this process.
[[nodiscard]] std::byte* map_bytes(job_core& job, node_id node, std::uint64_t address,
                                   std::size_t bytes);
/// Forgets the cached window of the calling thread if it belongs to this job, and lets its memory
/// be unmapped.
void drop_last_window(const job_core& job) noexcept;

[[noreturn]] void throw_too_long(std::size_t local, std::size_t remote);
/// Waits for a copy and throws its error, like future::get(), whose code would be in each caller.
void take(future<void>&& copy);

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

/// A remote_span<T> or buffer<T>, with or without a deadline.
template <class R>
concept remote_range = requires { typename remote_element<std::remove_cvref_t<R>>::type; };

template <class R>
using element = typename remote_element<std::remove_cvref_t<R>>::type;

/// Returns the deadline of a copy to or from that memory.
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

/// Makes a short put through the window of this thread's last copy. Returns false if that is not
/// possible.
template <class Remote>
[[nodiscard]] bool put_at_once(std::span<const element<Remote>> from, const Remote& to) {
  static_assert(!std::is_const_v<element<Remote>>,
                "farcall: put needs a destination that is not const");
  const auto& span = span_of(to);
  if (from.size() > span.size()) [[unlikely]]
    throw_too_long(from.size(), span.size());
  if (from.size_bytes() > short_copy) return false;
  std::byte* const there =
      find_in_last_window(span.mark(), span.node(), span.address(), from.size_bytes());
  if (there == nullptr) [[unlikely]]
    return false;
  copy_bytes(there, from.data(), from.size_bytes());
  last_window.counters->count_put(from.size_bytes());
  return true;
}

/// Makes any other put.
template <class Remote>
[[gnu::noinline]] future<void> put_as(std::span<const element<Remote>> from, const Remote& to,
                                      transfer_mode mode) {
  const auto& span = span_of(to);
  return put_bytes(job_of(to), span.node(), span.address(),
                   reinterpret_cast<const std::byte*>(from.data()), from.size_bytes(), mode,
                   deadline_of(to));
}

/// Makes a short get in the same way as put_at_once().
template <class Remote>
[[nodiscard]] bool get_at_once(const Remote& from,
                               std::span<std::remove_const_t<element<Remote>>> to) {
  const auto& span = span_of(from);
  if (to.size() > span.size()) [[unlikely]]
    throw_too_long(to.size(), span.size());
  if (to.size_bytes() > short_copy) return false;
  const std::byte* const there =
      find_in_last_window(span.mark(), span.node(), span.address(), to.size_bytes());
  if (there == nullptr) [[unlikely]]
    return false;
  copy_bytes(to.data(), there, to.size_bytes());
  last_window.counters->count_get(to.size_bytes());
  return true;
}

/// Makes any other get.
template <class Remote>
[[gnu::noinline]] future<void>
get_as(const Remote& from, std::span<std::remove_const_t<element<Remote>>> to, transfer_mode mode) {
  const auto& span = span_of(from);
  return get_bytes(job_of(from), span.node(), span.address(),
                   reinterpret_cast<std::byte*>(to.data()), to.size_bytes(), mode,
                   deadline_of(from));
}

} // namespace detail

/// Copies `from`, memory of this node, to the beginning of `to` on another node. `from` may be
/// shorter than `to`, but not longer. Small copies are done on return. Large copies
/// (async_copy_from) run asynchronously, and `from` must stay valid and unchanged until the future
/// is ready. A call that is sent after the future is ready sees the data. Throws error if the
/// source is too long. If the node has failed, the future holds node_failed.
///
/// With a deadline, `to.within(duration)`, a copy that is not done by the deadline ends. Its future
/// then holds timeout, and `from` is no longer used. A part of the data may have been copied. If
/// the node is on another machine, more data may still arrive. Later operations of this process on
/// the destination, such as a copy or the destruction of the buffer, wait for this data. A copy to
/// or from a device, once begun, is completed even after the deadline. The same holds for get and
/// for copy.
template <detail::remote_range Remote>
[[nodiscard]] future<void> put(std::span<const detail::element<Remote>> from, const Remote& to) {
  if (detail::put_at_once(from, to)) [[likely]]
    return detail::ready_future<void>();
  return detail::put_as(from, to, detail::transfer_mode::async);
}
/// Copies like put, on the calling thread; the copy is done on return. Throws what put throws, and
/// node_failed.
template <detail::remote_range Remote>
void put_sync(std::span<const detail::element<Remote>> from, const Remote& to) {
  if (!detail::put_at_once(from, to)) [[unlikely]]
    detail::take(detail::put_as(from, to, detail::transfer_mode::sync));
}

/// Copies the beginning of `from`, memory of another node, to `to`, memory of this node. `to` may
/// be shorter than `from`, but not longer, and must not be used until the future is ready.
/// Otherwise works like put, and throws the same exceptions.
template <detail::remote_range Remote>
[[nodiscard]] future<void> get(const Remote& from,
                               std::span<std::remove_const_t<detail::element<Remote>>> to) {
  if (detail::get_at_once(from, to)) [[likely]]
    return detail::ready_future<void>();
  return detail::get_as(from, to, detail::transfer_mode::async);
}
/// Copies like get, on the calling thread; the copy is done on return. Throws what get throws, and
/// node_failed.
template <detail::remote_range Remote>
void get_sync(const Remote& from, std::span<std::remove_const_t<detail::element<Remote>>> to) {
  if (!detail::get_at_once(from, to)) [[unlikely]]
    detail::take(detail::get_as(from, to, detail::transfer_mode::sync));
}

/// Copies directly between two nodes: the destination's node fetches the bytes from the source's
/// node. `from` may be shorter than `to`, but not longer. The two must not overlap. If both have a
/// deadline, the earlier one counts. Throws error if the source is too long. If a node has failed
/// or the deadline has passed, the future holds node_failed or timeout.
template <detail::remote_range From, detail::remote_range To>
[[nodiscard]] future<void> copy(const From& from, const To& to) {
  static_assert(std::is_same_v<std::remove_const_t<detail::element<From>>, detail::element<To>>,
                "farcall: copy needs one element type, and a destination that is not const");
  const auto& source = detail::span_of(from);
  const auto& target = detail::span_of(to);
  if (source.size() > target.size()) detail::throw_too_long(source.size(), target.size());
  const time_point one = detail::deadline_of(from);
  const time_point other = detail::deadline_of(to);
  return detail::copy_between(detail::job_of(from, to), source.node(), source.address(),
                              target.node(), target.address(), source.size_bytes(),
                              one < other ? one : other);
}
/// Copies like copy(); the copy is done on return. Throws what copy() throws, and node_failed.
template <detail::remote_range From, detail::remote_range To>
void copy_sync(const From& from, const To& to) {
  copy(from, to).get();
}

/// Returns the memory of `shared` for use in place in this process, valid as long as the memory. If
/// the node fails, the memory stays mapped until the end of the job; mapped<T> maps memory for a
/// shorter time. Works for memory of this node, and for memory allocated on nodes of this machine;
/// throws error for other memory, and node_failed. The function does not order the accesses of the
/// two nodes; the program has to do this by its calls.
template <detail::remote_range Remote>
[[nodiscard]] std::span<detail::element<Remote>> map(const Remote& shared) {
  const auto span = detail::span_of(shared);
  std::byte* here =
      detail::map_bytes(detail::job_of(shared), span.node(), span.address(), span.size_bytes());
  return {reinterpret_cast<detail::element<Remote>*>(here), span.size()};
}

} // namespace farcall
