// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/transfer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// Copies that are ordered with calls, like messages of MPI and the work of a CUDA stream.
///
/// By default, copies and calls run in parallel, and the program waits for a copy before it makes a
/// call that depends on it. With in_order(), the library orders them. A copy by in_order() begins
/// when the earlier calls of its lane have ended, and a call by in_order() begins when the earlier
/// copies by in_order() of its lane have ended. Calls and copies without in_order() do not wait.
/// There are two exceptions. While a called function waits for a call of its own, later calls and
/// copies may begin. A function that replies later, by a future, a task or a reply, counts as ended
/// once it has returned.
namespace farcall {

/// A node, or a lane, whose calls are ordered with copies; see in_order(). A value, like a node:
/// any thread may use its own copy, during the lane's life.
class ordered_place {
 public:
  /// `by` is the lane; null for the lane of the calling thread.
  ordered_place(const node& where, const lane* by) noexcept : where_(where), by_(by) {}
  /// Returns the node.
  [[nodiscard]] const node& where() const noexcept { return where_; }

 private:
  /// Returns the place of a call in the lane, after waiting for the lane's copies in progress.
  friend detail::call_place place_of(const ordered_place& p) {
    const detail::call_place place =
        p.by_ != nullptr ? detail::place_of(*p.by_) : detail::place_of(p.where_);
    if (place.messages.has_transfers.load(std::memory_order_relaxed)) [[unlikely]]
      await_transfers(place);
    return place;
  }
  static void await_transfers(const detail::call_place& place);

  node where_;
  const lane* by_;
};

/// A view whose copies are ordered with calls; see in_order(). A value, like a view: any thread may
/// use its own copy, during the lane's life.
template <class T>
class ordered_span {
 public:
  /// `job` is the job of the memory; null for the process's only job. `by` is the lane; null for
  /// the lane of the calling thread.
  ordered_span(const remote_span<T>& span, detail::job_core* job, const lane* by) noexcept
      : span_(span), job_(job), by_(by) {}
  /// Returns the view.
  [[nodiscard]] const remote_span<T>& span() const noexcept { return span_; }
  /// For the library itself: returns the job; null for the process's only job.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }
  /// Returns the lane that the copy has to follow; null for the calling thread's lane. Meant for
  /// the library, not for programs.
  [[nodiscard]] const lane* by() const noexcept { return by_; }

 private:
  remote_span<T> span_;
  detail::job_core* job_;
  const lane* by_;
};

template <>
inline constexpr bool detail::is_bound_to_node<ordered_place> = true;
template <class T>
inline constexpr bool detail::is_bound_to_node<ordered_span<T>> = true;

/// Orders this thread's calls to a node with its ordered copies to and from that node, as in
/// async(in_order(n), …).
[[nodiscard]] inline ordered_place in_order(const node& where) noexcept { return {where, nullptr}; }
/// Orders calls of a lane with the lane's ordered copies. The result refers to the lane.
[[nodiscard]] inline ordered_place in_order(const lane& by) noexcept { return {by.where(), &by}; }
/// Orders copies of a view with this thread's calls to the view's node, as in put(v, in_order(s)).
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory) noexcept {
  return {memory, nullptr, nullptr};
}
/// Orders copies of a view with this thread's calls to the view's node. `where` is that node, which
/// also says the job if the process has several.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory, const node& where) noexcept {
  return {memory, where.job(), nullptr};
}
/// Orders copies of all elements of a buffer with this thread's calls to its node.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const buffer<T>& memory) noexcept {
  return {memory.span(), memory.node().job(), nullptr};
}
/// Orders copies of a view with the calls of a lane, which leads to the node of the memory. Refers
/// to the lane.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory, const lane& by) noexcept {
  return {memory, by.where().job(), &by};
}
/// Orders copies of all elements of a buffer with the calls of a lane, which leads to the node of
/// the memory. Refers to the lane.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const buffer<T>& memory, const lane& by) noexcept {
  return {memory.span(), memory.node().job(), &by};
}

namespace detail {

/// Describes one end of an ordered copy, in memory of a node.
struct ordered_end {
  job_core& job;
  const lane* by;
  node_id node;
  std::uint64_t address;
};

template <class T>
[[nodiscard]] ordered_end end_of(const ordered_span<T>& s) {
  job_core& job = s.job() != nullptr ? *s.job() : current_core();
  require_of(job, s.span());
  return {job, s.by(), s.span().node(), s.span().address()};
}

[[nodiscard]] future<void> put_in_order(const ordered_end& to, const std::byte* from,
                                        std::size_t bytes, transfer_mode mode);
[[nodiscard]] future<void> get_in_order(const ordered_end& from, std::byte* to, std::size_t bytes,
                                        transfer_mode mode);
[[nodiscard]] future<void> copy_in_order(const ordered_end& from, const ordered_end& to,
                                         std::size_t bytes);
/// Frees memory like buffer::reset(), but after the ordered copies of the lane `by`, or of the
/// calling thread's lane if `by` is null.
void release_in_order(const node& where, const lane* by, std::uint64_t address) noexcept;

/// Returns a local pointer to the memory at the other end, by which this thread can make a short
/// copy at once. Returns null unless the memory is in the window of this thread's last copy, and
/// the lane has no calls or copies in progress.
[[nodiscard]] inline std::byte* find_free_way(const ordered_end& end, std::size_t bytes) noexcept {
  if (bytes > short_copy) return nullptr;
  am::requester* lane = nullptr;
  if (end.by == nullptr) [[likely]]
    lane = end.job.client->find_lane(end.node);
  else if (!end.by->is_empty() && end.by->where().id() == end.node &&
           end.by->where().job() == &end.job)
    lane = &end.by->messages();
  if (lane == nullptr || lane->has_transfers.load(std::memory_order_relaxed) || !lane->is_quiet())
    return nullptr;
  return find_in_last_window(end.job.mark, end.node, end.address, bytes);
}

template <class T>
[[nodiscard]] future<void> put_in_order_as(std::span<const T> from, const ordered_span<T>& to,
                                           transfer_mode mode) {
  static_assert(!std::is_const_v<T>, "farcall: put needs a destination that is not const");
  if (from.size() > to.span().size()) [[unlikely]]
    throw_too_long(from.size(), to.span().size());
  const auto* const bytes = reinterpret_cast<const std::byte*>(from.data());
  const ordered_end end = end_of(to);
  if (std::byte* const there = find_free_way(end, from.size_bytes())) [[likely]] {
    copy_bytes(there, bytes, from.size_bytes());
    return ready_future<void>();
  }
  return put_in_order(end, bytes, from.size_bytes(), mode);
}

template <class T>
[[nodiscard]] future<void> get_in_order_as(const ordered_span<T>& from,
                                           std::span<std::remove_const_t<T>> to,
                                           transfer_mode mode) {
  if (to.size() > from.span().size()) [[unlikely]]
    throw_too_long(to.size(), from.span().size());
  auto* const bytes = reinterpret_cast<std::byte*>(to.data());
  const ordered_end end = end_of(from);
  if (const std::byte* const there = find_free_way(end, to.size_bytes())) [[likely]] {
    copy_bytes(bytes, there, to.size_bytes());
    return ready_future<void>();
  }
  return get_in_order(end, bytes, to.size_bytes(), mode);
}

} // namespace detail

/// Copies like put(), in the order of the lane's calls. `from` must stay valid and unchanged until
/// the future is ready. Waits until earlier ordered copies of the same memory have ended. If calls
/// of the lane are in progress, a copy of up to 256 KiB is sent as a message behind the calls. A
/// longer copy begins when these calls have ended, and later calls wait for it. Throws what put()
/// and async() throw, and error if the lane leads to another node than the view's.
template <class T>
[[nodiscard]] future<void> put(std::span<const std::type_identity_t<T>> from,
                               const ordered_span<T>& to) {
  return detail::put_in_order_as<T>(from, to, detail::transfer_mode::async);
}
/// Copies like the ordered put(). On return, the copy is done, and the earlier calls of the lane
/// have ended. Throws what the ordered put() throws, and node_failed.
template <class T>
void put_sync(std::span<const std::type_identity_t<T>> from, const ordered_span<T>& to) {
  detail::put_in_order_as<T>(from, to, detail::transfer_mode::sync).get();
}

/// Copies like get(), in the order of the lane's calls: reads what earlier calls have written, and
/// nothing that later calls write. Waits and throws like the ordered put().
template <class T>
[[nodiscard]] future<void> get(const ordered_span<T>& from,
                               std::span<std::remove_const_t<std::type_identity_t<T>>> to) {
  return detail::get_in_order_as<T>(from, to, detail::transfer_mode::async);
}
/// Copies like the ordered get(); the copy is done on return. Throws what the ordered get() throws,
/// and node_failed.
template <class T>
void get_sync(const ordered_span<T>& from,
              std::span<std::remove_const_t<std::type_identity_t<T>>> to) {
  detail::get_in_order_as<T>(from, to, detail::transfer_mode::sync).get();
}

/// Copies like copy(), in the order of the calls of both lanes. Waits and throws like the ordered
/// put(). Also throws error if the two ends belong to several jobs.
template <class T, class U>
[[nodiscard]] future<void> copy(const ordered_span<T>& from, const ordered_span<U>& to) {
  static_assert(std::is_same_v<std::remove_const_t<T>, U>,
                "farcall: copy needs one element type, and a destination that is not const");
  if (from.span().size() > to.span().size())
    detail::throw_too_long(from.span().size(), to.span().size());
  return detail::copy_in_order(detail::end_of(from), detail::end_of(to), from.span().size_bytes());
}
/// Copies like the ordered copy(); the copy is done on return. Throws what the ordered copy()
/// throws, and node_failed.
template <class T, class U>
void copy_sync(const ordered_span<T>& from, const ordered_span<U>& to) {
  copy(from, to).get();
}

/// Frees memory like buffer::reset(), but also after the copies that are ordered with this thread's
/// calls. Does not wait for copies that are ordered with the calls of an fc::lane.
template <class T>
void reset_in_order(buffer<T>& memory) noexcept {
  const node where = memory.node();
  if (const remote_span<T> freed = memory.release(); freed.address() != 0)
    detail::release_in_order(where, nullptr, freed.address());
}
/// Frees memory like buffer::reset(), but after the earlier calls of a lane to its node, and after
/// the copies that are ordered with these calls. The memory has been freed when a later call of
/// that lane begins. If the lane leads to another node, the release is not ordered with its calls.
template <class T>
void reset_in_order(buffer<T>& memory, const lane& by) noexcept {
  const node where = memory.node();
  if (const remote_span<T> freed = memory.release(); freed.address() != 0)
    detail::release_in_order(where, &by, freed.address());
}

} // namespace farcall
