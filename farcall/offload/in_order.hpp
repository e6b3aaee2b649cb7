#pragma once

#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/transfer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// Copies in the order of calls, as the messages of MPI and the work of a CUDA stream have one.
///
/// Elsewhere a copy runs beside the calls, and whoever wants it before one of them waits for it.
/// What is made of in_order() waits by itself: a copy begins when the calls before it in its lane
/// have ended, and a call begins when the copies before it have. All else goes on as ever. A
/// function that waits for a call of its own lets later ones pass, and copies too. One that answers
/// later, by a future, a task or a reply, has ended for this once it has returned.
namespace farcall {

/// A node, or a lane, whose calls are ordered with copies; see in_order(). A value, as a node is:
/// any thread may use its own copy, while the lane is there.
class ordered_place {
 public:
  /// `by` is null for the lane of the calling thread.
  ordered_place(const node& where, const lane* by) noexcept : where_(where), by_(by) {}
  /// The node.
  [[nodiscard]] const node& where() const noexcept { return where_; }

 private:
  /// Waits for the copies that are under way in the lane.
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

/// A view whose copies are ordered with calls; see in_order(). A value, as a view is: any thread
/// may use its own copy, while the lane is there.
template <class T>
class ordered_span {
 public:
  /// `job`: whose memory it is, null for the only one's of the process. `by` is null for the lane
  /// of the calling thread.
  ordered_span(const remote_span<T>& span, detail::job_core* job, const lane* by) noexcept
      : span_(span), job_(job), by_(by) {}
  /// The view.
  [[nodiscard]] const remote_span<T>& span() const noexcept { return span_; }
  /// For the library itself: the job, null for the only one.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }
  /// For the library itself: the lane, null for that of the calling thread.
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

/// The node, for calls of this thread that its copies there are ordered with: async(in_order(n),
/// …).
[[nodiscard]] inline ordered_place in_order(const node& where) noexcept { return {where, nullptr}; }
/// The lane, for its calls. Refers to it.
[[nodiscard]] inline ordered_place in_order(const lane& by) noexcept { return {by.where(), &by}; }
/// The view, for copies that are ordered with this thread's calls to its node: put(v, in_order(s)).
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory) noexcept {
  return {memory, nullptr, nullptr};
}
/// The same, for a view whose node is at hand: in a process of several jobs, it says which one's.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory, const node& where) noexcept {
  return {memory, where.job(), nullptr};
}
/// All elements of a buffer, for the same.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const buffer<T>& memory) noexcept {
  return {memory.span(), memory.node().job(), nullptr};
}
/// The view, for copies that are ordered with the calls of a lane, which leads to its node. Refers
/// to the lane.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const remote_span<T>& memory, const lane& by) noexcept {
  return {memory, by.where().job(), &by};
}
/// All elements of a buffer, for the same.
template <class T>
[[nodiscard]] ordered_span<T> in_order(const buffer<T>& memory, const lane& by) noexcept {
  return {memory.span(), memory.node().job(), &by};
}

namespace detail {

/// One end of a copy in order, at a node.
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
/// As buffer::reset(), behind the copies of the lane; null for that of the calling thread.
void release_in_order(const node& where, const lane* by, std::uint64_t address) noexcept;

/// Where a short copy can be made at once: this thread knows the way, and nothing is under way in
/// the lane; else null.
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
  return find_in_last_window(end.job, end.node, end.address, bytes);
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

/// As put(), in the order of calls. `from` must be left alone until the future is ready. Waits for
/// earlier copies of the same memory. While calls of the lane are under way, up to 256 KiB go
/// behind them as a message, and more begins when they have ended; then a later call waits for
/// that. Throws what put() and async() throw, and error for a lane to another node.
template <class T>
[[nodiscard]] future<void> put(std::span<const std::type_identity_t<T>> from,
                               const ordered_span<T>& to) {
  return detail::put_in_order_as<T>(from, to, detail::transfer_mode::async);
}
/// The same, done on return: the calls before it have ended then. Throws node_failed, too.
template <class T>
void put_sync(std::span<const std::type_identity_t<T>> from, const ordered_span<T>& to) {
  detail::put_in_order_as<T>(from, to, detail::transfer_mode::sync).get();
}

/// As get(), in the order of calls: it sees what those before it have written, and nothing of those
/// behind it. Otherwise as put() in order, and throws the same.
template <class T>
[[nodiscard]] future<void> get(const ordered_span<T>& from,
                               std::span<std::remove_const_t<std::type_identity_t<T>>> to) {
  return detail::get_in_order_as<T>(from, to, detail::transfer_mode::async);
}
/// The same, done on return. Throws node_failed, too.
template <class T>
void get_sync(const ordered_span<T>& from,
              std::span<std::remove_const_t<std::type_identity_t<T>>> to) {
  detail::get_in_order_as<T>(from, to, detail::transfer_mode::sync).get();
}

/// As copy(), in the order of the calls of both lanes. Otherwise as put() in order, and throws the
/// same, and error when they belong to several jobs.
template <class T, class U>
[[nodiscard]] future<void> copy(const ordered_span<T>& from, const ordered_span<U>& to) {
  static_assert(std::is_same_v<std::remove_const_t<T>, U>,
                "farcall: copy needs one element type, and a destination that is not const");
  if (from.span().size() > to.span().size())
    detail::throw_too_long(from.span().size(), to.span().size());
  return detail::copy_in_order(detail::end_of(from), detail::end_of(to), from.span().size_bytes());
}
/// The same, done on return. Throws node_failed, too.
template <class T, class U>
void copy_sync(const ordered_span<T>& from, const ordered_span<U>& to) {
  copy(from, to).get();
}

/// As buffer::reset(), behind the copies that are in order with this thread's calls, too. Not
/// behind those of an fc::lane.
template <class T>
void reset_in_order(buffer<T>& memory) noexcept {
  const node where = memory.node();
  if (const remote_span<T> freed = memory.release(); freed.address() != 0)
    detail::release_in_order(where, nullptr, freed.address());
}
/// The same, behind the calls of a lane to its node, and the copies that are in order with them:
/// the memory is free once a later call of that lane has begun. A lane to another node orders
/// nothing.
template <class T>
void reset_in_order(buffer<T>& memory, const lane& by) noexcept {
  const node where = memory.node();
  if (const remote_span<T> freed = memory.release(); freed.address() != 0)
    detail::release_in_order(where, &by, freed.address());
}

} // namespace farcall
