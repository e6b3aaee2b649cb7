#pragma once

#include <farcall/base/error.hpp>
#include <farcall/offload/host_device.hpp>
#include <farcall/offload/node.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace farcall {

namespace detail {
/// Throws wrong_node unless the calling thread stands for that node, in the job of that mark.
void require_on(node_id owner, std::uint32_t mark);
/// Throws error: memory of that node is another job's.
[[noreturn]] void throw_other_job(node_id owner);
[[noreturn]] void throw_out_of_range(std::size_t offset, std::size_t count, std::size_t size);
/// Memory on a node; throws out_of_memory, and timeout.
[[nodiscard]] std::uint64_t allocate_on(const timed_node& where, std::uint64_t count,
                                        std::uint64_t element_bytes, std::uint64_t alignment);
/// Frees it; throws timeout. Nothing for a node that has failed, or whose job has ended.
void release_until(const timed_node& where, std::uint64_t address);
/// The same within release_timeout; logs what release_until() throws.
void release_on(const node& where, std::uint64_t address) noexcept;
} // namespace detail

template <class T>
class timed_span;
template <class T>
class timed_buffer;

/// A view of `size` elements in the memory of one node. Trivially copyable, so it can be sent as an
/// argument. On its node it is used in place, elsewhere with put, get, copy and map. Does not own.
/// A value: any thread may use its own copy; threads that access the same elements synchronise
/// themselves.
template <class T>
class remote_span {
  static_assert(std::is_trivially_copyable_v<T>,
                "farcall: remote memory holds trivially copyable types");

 public:
  using element_type = T;                 ///< as of std::span
  using value_type = std::remove_cv_t<T>; ///< the same without const

  remote_span() noexcept = default;
  /// Memory that lies at `address` on node `where`.
  FARCALL_HOST_DEVICE remote_span(node_id where, std::uint64_t address, std::size_t size) noexcept
      : address_(address), size_(size), node_(where) {}
  /// Memory of this node, for others to use.
  explicit remote_span(std::span<T> local) noexcept
      : remote_span(detail::own_id(), reinterpret_cast<std::uintptr_t>(local.data()), local.size(),
                    detail::only_mark.load(std::memory_order_relaxed)) {}
  /// For the library itself: memory of the job with that mark, 0 if it is not known.
  FARCALL_HOST_DEVICE remote_span(node_id where, std::uint64_t address, std::size_t size,
                                  std::uint32_t mark) noexcept
      : address_(address), size_(size), node_(where), mark_(mark) {}
  /// T to const T.
  template <class U>
    requires std::is_convertible_v<U (*)[], T (*)[]>
  FARCALL_HOST_DEVICE remote_span(const remote_span<U>& other) noexcept
      : remote_span(other.node(), other.address(), other.size(), other.mark()) {}

  /// The node whose memory it is.
  [[nodiscard]] FARCALL_HOST_DEVICE node_id node() const noexcept { return node_; }
  /// For the library itself: the mark of the job, 0 if it is not known.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t mark() const noexcept { return mark_; }
  /// Where the elements begin, as an address of that node.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t address() const noexcept { return address_; }
  /// Number of elements.
  [[nodiscard]] FARCALL_HOST_DEVICE std::size_t size() const noexcept { return size_; }
  /// Number of bytes.
  [[nodiscard]] FARCALL_HOST_DEVICE std::size_t size_bytes() const noexcept {
    return size_ * sizeof(T);
  }
  /// True when it has no elements.
  [[nodiscard]] FARCALL_HOST_DEVICE bool empty() const noexcept { return size_ == 0; }

  /// A part. Throws error when it does not lie inside; on a GPU, which cannot throw, nothing looks.
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span subspan(std::size_t offset,
                                                        std::size_t count) const {
#ifndef FARCALL_ON_GPU
    if (offset > size_ || count > size_ - offset) detail::throw_out_of_range(offset, count, size_);
#endif
    return {node_, address_ + offset * sizeof(T), count, mark_};
  }
  /// All elements from `offset` on. Throws as the other one.
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span subspan(std::size_t offset) const {
#ifndef FARCALL_ON_GPU
    if (offset > size_) detail::throw_out_of_range(offset, 0, size_);
#endif
    return subspan(offset, size_ - offset);
  }
  /// The first `count` elements. Throws as subspan().
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span first(std::size_t count) const {
    return subspan(0, count);
  }
  /// The last `count` elements. Throws as subspan().
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span last(std::size_t count) const {
#ifndef FARCALL_ON_GPU
    if (count > size_) detail::throw_out_of_range(0, count, size_);
#endif
    return subspan(size_ - count, count);
  }

  /// The same, with a deadline for the copy that it is given to; see put().
  [[nodiscard]] timed_span<T> within(time_limit duration) const noexcept;

  /// The elements in place, on the node that owns them. Throws wrong_node elsewhere, and in another
  /// job; a GPU does not check.
  [[nodiscard]] FARCALL_HOST_DEVICE T* data() const {
#ifndef FARCALL_ON_GPU
    const bool is_of_job = mark_ == detail::only_mark.load(std::memory_order_relaxed) || mark_ == 0;
    if (node_ != detail::own_id() || !is_of_job) [[unlikely]]
      detail::require_on(node_, mark_);
#endif
    return reinterpret_cast<T*>(address_);
  }
  /// The elements as a std::span, checked once: for inner loops. Throws as data().
  [[nodiscard]] FARCALL_HOST_DEVICE std::span<T> local() const { return {data(), size_}; }
  /// Element `i`, which must exist. Throws as data().
  [[nodiscard]] FARCALL_HOST_DEVICE T& operator[](std::size_t i) const { return data()[i]; }
  /// The first element. Throws as data().
  [[nodiscard]] FARCALL_HOST_DEVICE T* begin() const { return data(); }
  /// Behind the last element. Throws as data().
  [[nodiscard]] FARCALL_HOST_DEVICE T* end() const { return data() + size_; }

 private:
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
  node_id node_ = no_node;
  std::uint32_t mark_ = 0; ///< job_core::mark, 0 if it is not known
};

/// Elements on a node, freed at the end of the buffer's life. Move-only. Made by node::allocate.
/// Used by one thread at a time; its views may be used by all.
template <class T>
class FARCALL_NODISCARD_CLASS buffer {
 public:
  buffer() noexcept = default;
  buffer(buffer&& other) noexcept
      : where_(other.where_), span_(std::exchange(other.span_, remote_span<T>{})) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(span_, other.span_);
    return *this;
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { reset(); }

  /// A view of all elements; valid as long as the buffer.
  [[nodiscard]] remote_span<T> span() const noexcept { return span_; }
  /// The same.
  operator remote_span<T>() const noexcept { return span_; }
  /// The same, to be read only.
  operator remote_span<const T>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return span_;
  }
  /// The node that the memory is on.
  [[nodiscard]] const farcall::node& node() const noexcept { return where_; }
  /// Number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }
  /// True when it has no elements, as after a move.
  [[nodiscard]] bool empty() const noexcept { return span_.empty(); }
  /// On the owner's node only; throws wrong_node elsewhere.
  [[nodiscard]] T* data() const { return span_.data(); }
  /// A part. Throws error when it does not lie inside.
  [[nodiscard]] remote_span<T> subspan(std::size_t offset, std::size_t count) const {
    return span_.subspan(offset, count);
  }

  /// All elements, with a deadline for the copy that they are given to; see put().
  [[nodiscard]] timed_span<T> within(time_limit duration) const noexcept;
  /// The same; reset() of it has the deadline, too. Refers to this buffer.
  [[nodiscard]] timed_buffer<T> within(time_limit duration) noexcept;

  /// Gives the memory up without freeing it.
  [[nodiscard]] remote_span<T> release() noexcept { return std::exchange(span_, remote_span<T>{}); }
  /// Takes over what release() gave up. `memory` must begin where it began. Throws error for memory
  /// of another job than the node's.
  [[nodiscard]] static buffer adopt(const farcall::node& where, const remote_span<T>& memory) {
    if (memory.mark() != 0 && memory.mark() != mark_of(where))
      detail::throw_other_job(memory.node());
    return buffer(where, memory.address(), memory.size());
  }

  /// Frees the memory now, in order behind this thread's earlier calls to the node, but for
  /// functions that wait there or answer later. Waits while the lane to the node is full, or until
  /// this thread has one, but at most for job_options::release_timeout: then a line is logged, and
  /// the memory stays taken until the job ends. The same holds for the destructor.
  void reset() noexcept {
    if (span_.address() != 0) detail::release_on(where_, span_.address());
    span_ = {};
  }

 private:
  friend class farcall::timed_node;
  friend class timed_buffer<T>;
  buffer(const farcall::node& where, std::uint64_t address, std::size_t n) noexcept
      : where_(where), span_(where.id(), address, n, mark_of(where)) {}
  [[nodiscard]] static std::uint32_t mark_of(const farcall::node& where) noexcept {
    return where.job() != nullptr ? where.job()->mark : 0;
  }

  farcall::node where_;
  remote_span<T> span_;
};

/// A view, and a point in time; see buffer::within(). A value, as a view is: any thread may use its
/// own copy.
template <class T>
class timed_span {
 public:
  /// `job`: whose memory it is, null for the only one's of the process.
  timed_span(const remote_span<T>& span, detail::job_core* job, time_point deadline) noexcept
      : span_(span), job_(job), deadline_(deadline) {}
  /// The view.
  [[nodiscard]] const remote_span<T>& span() const noexcept { return span_; }
  /// When its time is over.
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }
  /// For the library itself.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }

 private:
  remote_span<T> span_;
  detail::job_core* job_;
  time_point deadline_;
};

/// A buffer, and a point in time; see buffer::within(). Used as the buffer, by one thread at a
/// time, while that is there.
template <class T>
class timed_buffer : public timed_span<T> {
 public:
  /// Of `whose`, which stays where it is.
  timed_buffer(buffer<T>& whose, time_point deadline) noexcept
      : timed_span<T>(whose.span(), whose.node().job(), deadline), whose_(&whose) {}

  /// As buffer::reset(), but the wait ends at the deadline, and throws: timeout, error, and what a
  /// call throws. The buffer then has its memory still. Nothing for a node that has failed.
  void reset() const {
    const remote_span<T> memory = whose_->span();
    if (memory.address() != 0)
      detail::release_until(timed_node(whose_->node(), this->deadline()), memory.address());
    whose_->span_ = {};
  }

 private:
  buffer<T>* whose_;
};

template <class T>
timed_span<T> remote_span<T>::within(time_limit duration) const noexcept {
  return {*this, nullptr, deadline_after(duration)};
}
template <class T>
timed_span<T> buffer<T>::within(time_limit duration) const noexcept {
  return {span_, where_.job(), deadline_after(duration)};
}
template <class T>
timed_buffer<T> buffer<T>::within(time_limit duration) noexcept {
  return {*this, deadline_after(duration)};
}

template <class T>
inline constexpr bool detail::is_bound_to_node<buffer<T>> = true;
template <class T>
inline constexpr bool detail::is_bound_to_node<timed_span<T>> = true;
template <class T>
inline constexpr bool detail::is_bound_to_node<timed_buffer<T>> = true;

template <class T>
struct detail::refers_to<remote_span<T>> : std::type_identity<T> {};

template <class T>
buffer<T> timed_node::allocate(std::size_t n) const {
  return buffer<T>(where_, detail::allocate_on(*this, n, sizeof(T), alignof(T)), n);
}
template <class T>
buffer<T> node::allocate(std::size_t n) const {
  return timed_node(*this, no_deadline).allocate<T>(n);
}

} // namespace farcall
