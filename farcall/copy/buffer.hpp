// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/async/node.hpp>
#include <farcall/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace farcall {

namespace detail {
/// Throws wrong_node unless the calling thread acts for node `owner`, and `mark` is 0 or the mark
/// of a job of this process.
void require_on(node_id owner, std::uint32_t mark);
/// Throws error, because the memory of that node belongs to another job.
[[noreturn]] void throw_other_job(node_id owner);
[[noreturn]] void throw_out_of_range(std::size_t offset, std::size_t count, std::size_t size);
/// Allocates memory on a node, and returns the address that it has on that node. Throws
/// out_of_memory and timeout.
[[nodiscard]] std::uint64_t allocate_on(const timed_node& where, std::uint64_t count,
                                        std::uint64_t element_bytes, std::uint64_t alignment);
/// Frees memory of a node; throws timeout. Does nothing if the node has failed, or its job has
/// ended.
void release_until(const timed_node& where, std::uint64_t address);
/// Frees memory like release_until(), within release_timeout. Logs errors instead of throwing them.
void release_on(const node& where, std::uint64_t address) noexcept;
} // namespace detail

template <class T>
class timed_span;
template <class T>
class timed_buffer;

/// A view of elements in the memory of one node. Trivially copyable, so that a view can be sent as
/// an argument of a call. The node that has the memory uses the elements in place; other nodes use
/// put, get, copy and map. A view does not own the memory. A value: any thread may use its own
/// copy. Threads that access the same elements must synchronise.
template <class T>
class remote_span {
  static_assert(std::is_trivially_copyable_v<T>,
                "farcall: remote memory holds trivially copyable types");

 public:
  using element_type = T;                 ///< element type, as in std::span
  using value_type = std::remove_cv_t<T>; ///< element type without const

  remote_span() noexcept = default;
  /// Views memory at `address` on node `where`.
  FARCALL_HOST_DEVICE remote_span(node_id where, std::uint64_t address, std::size_t size) noexcept
      : address_(address), size_(size), node_(where) {}
  /// Views memory of this node, for use by other nodes.
  explicit remote_span(std::span<T> local) noexcept
      : remote_span(detail::own_id(), reinterpret_cast<std::uintptr_t>(local.data()), local.size(),
                    detail::only_mark.load(std::memory_order_relaxed)) {}
  /// For the library itself: views memory of the job that has the given mark, or of an unknown job
  /// if the mark is 0.
  FARCALL_HOST_DEVICE remote_span(node_id where, std::uint64_t address, std::size_t size,
                                  std::uint32_t mark) noexcept
      : address_(address), size_(size), node_(where), mark_(mark) {}
  /// Converts a view of T to a view of const T.
  template <class U>
    requires std::is_convertible_v<U (*)[], T (*)[]>
  FARCALL_HOST_DEVICE remote_span(const remote_span<U>& other) noexcept
      : remote_span(other.node(), other.address(), other.size(), other.mark()) {}

  /// Returns the node that has the memory.
  [[nodiscard]] FARCALL_HOST_DEVICE node_id node() const noexcept { return node_; }
  /// For the library itself: returns the mark of the job; 0 if the job is unknown.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t mark() const noexcept { return mark_; }
  /// Returns the address of the first element on its node.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint64_t address() const noexcept { return address_; }
  /// Returns the number of elements.
  [[nodiscard]] FARCALL_HOST_DEVICE std::size_t size() const noexcept { return size_; }
  /// Returns the number of bytes.
  [[nodiscard]] FARCALL_HOST_DEVICE std::size_t size_bytes() const noexcept {
    return size_ * sizeof(T);
  }
  /// True if there are no elements.
  [[nodiscard]] FARCALL_HOST_DEVICE bool empty() const noexcept { return size_ == 0; }

  /// Returns a view of a part. Throws error if the part is not inside this view; a GPU, which
  /// cannot throw, does not check.
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span subspan(std::size_t offset,
                                                        std::size_t count) const {
#ifndef FARCALL_ON_GPU
    if (offset > size_ || count > size_ - offset) detail::throw_out_of_range(offset, count, size_);
#endif
    return {node_, address_ + offset * sizeof(T), count, mark_};
  }
  /// Returns a view of all elements from `offset` on. Throws error like the other overload.
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span subspan(std::size_t offset) const {
#ifndef FARCALL_ON_GPU
    if (offset > size_) detail::throw_out_of_range(offset, 0, size_);
#endif
    return subspan(offset, size_ - offset);
  }
  /// Returns a view of the first `count` elements. Throws error like subspan().
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span first(std::size_t count) const {
    return subspan(0, count);
  }
  /// Returns a view of the last `count` elements. Throws error like subspan().
  [[nodiscard]] FARCALL_HOST_DEVICE remote_span last(std::size_t count) const {
#ifndef FARCALL_ON_GPU
    if (count > size_) detail::throw_out_of_range(0, count, size_);
#endif
    return subspan(size_ - count, count);
  }

  /// Returns this view with a deadline; see put(). The deadline limits the copy to which the view
  /// is passed.
  [[nodiscard]] timed_span<T> within(time_limit duration) const noexcept;

  /// Returns a pointer to the elements, on the node that has them. Throws wrong_node on other
  /// nodes, and in another job; a GPU does not check.
  [[nodiscard]] FARCALL_HOST_DEVICE T* data() const {
#ifndef FARCALL_ON_GPU
    const bool is_of_job = mark_ == detail::only_mark.load(std::memory_order_relaxed) || mark_ == 0;
    if (node_ != detail::own_id() || !is_of_job) [[unlikely]]
      detail::require_on(node_, mark_);
#endif
    return reinterpret_cast<T*>(address_);
  }
  /// Returns the elements as a std::span, for inner loops, because the node is checked only once.
  /// Throws like data().
  [[nodiscard]] FARCALL_HOST_DEVICE std::span<T> local() const { return {data(), size_}; }
  /// Returns element `i`, which must exist. Throws like data().
  [[nodiscard]] FARCALL_HOST_DEVICE T& operator[](std::size_t i) const { return data()[i]; }
  /// Returns a pointer to the first element. Throws like data().
  [[nodiscard]] FARCALL_HOST_DEVICE T* begin() const { return data(); }
  /// Returns a pointer past the last element. Throws like data().
  [[nodiscard]] FARCALL_HOST_DEVICE T* end() const { return data() + size_; }

 private:
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
  node_id node_ = no_node;
  std::uint32_t mark_ = 0; ///< job_core::mark; 0 if unknown
};

/// Owns elements in the memory of a node; the destructor frees the memory. Made by node::allocate.
/// Move-only. One thread at a time may use a buffer, and any thread may use views of it.
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

  /// Returns a view of all elements; valid as long as the buffer.
  [[nodiscard]] remote_span<T> span() const noexcept {
    // By parts: compilers copy the whole by way of the stack, which delays a short copy.
    return {span_.node(), span_.address(), span_.size(), span_.mark()};
  }
  /// Converts to a view of all elements.
  operator remote_span<T>() const noexcept { return span_; }
  /// Converts to a read-only view of all elements.
  operator remote_span<const T>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return span_;
  }
  /// Returns the node that has the memory.
  [[nodiscard]] const farcall::node& node() const noexcept { return where_; }
  /// Returns the number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }
  /// True if there are no elements, as after a move.
  [[nodiscard]] bool empty() const noexcept { return span_.empty(); }
  /// Returns a pointer to the elements, on the node that has them. Throws wrong_node on other
  /// nodes.
  [[nodiscard]] T* data() const { return span_.data(); }
  /// Returns a view of a part. Throws error if the part is not inside the buffer.
  [[nodiscard]] remote_span<T> subspan(std::size_t offset, std::size_t count) const {
    return span_.subspan(offset, count);
  }

  /// Returns a view of all elements with a deadline; see put(). The deadline limits the copy to
  /// which the view is passed.
  [[nodiscard]] timed_span<T> within(time_limit duration) const noexcept;
  /// Returns the buffer with a deadline. The deadline limits copies of its elements, and its
  /// reset(). The result refers to this buffer.
  [[nodiscard]] timed_buffer<T> within(time_limit duration) noexcept;

  /// Gives up ownership of the memory without freeing it.
  [[nodiscard]] remote_span<T> release() noexcept { return std::exchange(span_, remote_span<T>{}); }
  /// Takes ownership of memory that release() has returned. `memory` must start at the same
  /// address. Throws error if the memory belongs to another job than the node.
  [[nodiscard]] static buffer adopt(const farcall::node& where, const remote_span<T>& memory) {
    if (memory.mark() != 0 && memory.mark() != mark_of(where))
      detail::throw_other_job(memory.node());
    return buffer(where, memory.address(), memory.size());
  }

  /// Frees the memory after this thread's earlier calls to the node. Called functions that wait on
  /// the node, or that reply later, may still be running at that time. Blocks while the lane to the
  /// node is full, or until this thread gets a lane, but at most for job_options::release_timeout.
  /// After this time, it logs a line, and the memory stays allocated until the job ends. The
  /// destructor does the same.
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

/// A view with a deadline; see buffer::within(). A value, like a view: any thread may use its own
/// copy.
template <class T>
class timed_span {
 public:
  /// `job` is the job of the memory; null if it is the process's only job.
  timed_span(const remote_span<T>& span, detail::job_core* job, time_point deadline) noexcept
      : span_(span), job_(job), deadline_(deadline) {}
  /// Returns the view.
  [[nodiscard]] const remote_span<T>& span() const noexcept { return span_; }
  /// Returns the deadline.
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }
  /// For the library itself: returns the job of the memory.
  [[nodiscard]] detail::job_core* job() const noexcept { return job_; }

 private:
  remote_span<T> span_;
  detail::job_core* job_;
  time_point deadline_;
};

/// A buffer with a deadline; see buffer::within(). Used like the buffer, by one thread at a time,
/// during the buffer's life.
template <class T>
class timed_buffer : public timed_span<T> {
 public:
  /// Refers to the buffer `whose`, which must not move.
  timed_buffer(buffer<T>& whose, time_point deadline) noexcept
      : timed_span<T>(whose.span(), whose.node().job(), deadline), whose_(&whose) {}

  /// Frees the memory like buffer::reset(), but waits at most until the deadline, and throws errors
  /// instead of logging them. Throws timeout, error, and what a call throws; after an exception,
  /// the buffer still has its memory. Does nothing if the node has failed.
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
