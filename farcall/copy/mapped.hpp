// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/copy/transfer.hpp>
#include <farcall/memory/held_window.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace farcall {
namespace detail {

/// Returns memory of a node for use in place, with an object that keeps the memory mapped. Throws
/// what map_bytes() throws, and error for memory of this process that was not allocated by
/// node::allocate.
[[nodiscard]] held_bytes hold_bytes(job_core& job, node_id node, std::uint64_t address,
                                    std::size_t bytes);

} // namespace detail

/// Memory of a node for use in place, like the result of map(), that this object keeps mapped in
/// this process. The memory can be read and written as long as this object or a copy of it exists,
/// also after it was freed, after its node has failed or was removed, and after the end of the job.
/// Once the memory was freed, its node may give it to other allocations, so its content is
/// unspecified. The object does not keep the memory allocated, but keeps the pages of all shared
/// memory of the node in use. Any thread may use the object, but only one at a time may assign to
/// it.
template <class T>
class mapped {
 public:
  /// Makes an object without memory.
  mapped() noexcept = default;
  /// Maps the memory of a buffer or a view. Works for memory that was allocated by node::allocate
  /// on a node of this machine; throws error for other memory.
  template <detail::remote_range Remote>
    requires std::is_convertible_v<detail::element<Remote> (*)[], T (*)[]>
  explicit mapped(const Remote& shared) {
    const auto span = detail::span_of(shared);
    held_bytes held =
        detail::hold_bytes(detail::job_of(shared), span.node(), span.address(), span.size_bytes());
    memory_ = {reinterpret_cast<T*>(held.here), span.size()};
    owner_ = std::move(held.owner);
  }

  /// Returns the memory. The span is valid as long as this object or a copy of it exists.
  [[nodiscard]] std::span<T> span() const noexcept { return memory_; }
  /// Returns the address of the memory; null if the object has none.
  [[nodiscard]] T* data() const noexcept { return memory_.data(); }
  /// Returns the number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  /// Returns the element with the index `i`, which must be less than size().
  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return memory_[i]; }

 private:
  std::span<T> memory_;
  std::shared_ptr<const void> owner_;
};

/// Deduces the type of the elements from a buffer or a view. Never fails.
template <detail::remote_range Remote>
mapped(const Remote&) -> mapped<detail::element<Remote>>;

} // namespace farcall
