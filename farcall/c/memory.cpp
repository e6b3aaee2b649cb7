// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fork.hpp>
#include <farcall/c/future.hpp>
#include <farcall/c/spans.hpp>
#include <farcall/copy/mapped.hpp>
#include <farcall/copy/transfer.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

using namespace farcall;
using namespace farcall::c;
using detail::transfer_mode;

namespace {

/// Memory of nodes that the C program holds mapped, by its address in this process. Any thread may
/// use it, also in the child of a fork.
class held_mappings final : private fork_observer {
 public:
  static held_mappings& instance() {
    // The object is never destroyed, because the program may use the memory during exit().
    static auto* const all = new held_mappings;
    return *all;
  }

  void add(void* here, std::shared_ptr<const void> owner) {
    const std::lock_guard guard(mutex_);
    held& entry = all_[here];
    entry.owner = std::move(owner);
    ++entry.count;
  }

  /// Removes one hold of the address. Returns false if there is none.
  [[nodiscard]] bool remove(void* here) {
    // Declared before the guard, so that the memory is unmapped after the mutex was unlocked.
    std::shared_ptr<const void> unused;
    const std::lock_guard guard(mutex_);
    const auto at = all_.find(here);
    if (at == all_.end()) return false;
    if (--at->second.count != 0) return true;
    unused = std::move(at->second.owner);
    all_.erase(at);
    return true;
  }

 private:
  struct held {
    std::shared_ptr<const void> owner;
    std::size_t count = 0;
  };

  held_mappings() { watch_forks(); }
  void before_fork() noexcept override { mutex_.lock(); }
  void after_fork_in_parent() noexcept override { mutex_.unlock(); }
  void after_fork_in_child() noexcept override { mutex_.unlock(); }

  std::mutex mutex_;
  std::map<void*, held> all_;
};

/// Timeout for no deadline.
constexpr std::int64_t none = -1;

future<void> put(fc_job* job, const fc_span& to, const void* from, std::size_t bytes,
                 transfer_mode mode, std::int64_t timeout_ns) {
  require_inside(bytes, to);
  if (bytes != 0) require(from, "from");
  return detail::put_bytes(job_with(job, to), to.node, to.address,
                           static_cast<const std::byte*>(from), bytes, mode,
                           deadline_in(timeout_ns));
}

future<void> get(fc_job* job, const fc_span& from, void* to, std::size_t bytes, transfer_mode mode,
                 std::int64_t timeout_ns) {
  require_inside(bytes, from);
  if (bytes != 0) require(to, "to");
  return detail::get_bytes(job_with(job, from), from.node, from.address,
                           static_cast<std::byte*>(to), bytes, mode, deadline_in(timeout_ns));
}

future<void> copy(fc_job* job, const fc_span& from, const fc_span& to, std::int64_t timeout_ns) {
  require_inside(from.bytes, to);
  (void)job_with(job, from);
  return detail::copy_between(job_with(job, to), from.node, from.address, to.node, to.address,
                              from.bytes, deadline_in(timeout_ns));
}

} // namespace

fc_status fc_allocate(fc_node where, uint64_t bytes, fc_span* memory) {
  return guarded([&] {
    require(memory, "memory");
    const timed_node timed(node_of(where), deadline_of(where));
    const remote_span<std::byte> made = timed.allocate<std::byte>(bytes).release();
    *memory = {made.address(), made.size(), made.node(), made.mark()};
  });
}

fc_status fc_release(fc_job* job, fc_span memory) {
  return guarded([&] {
    const node owner(job_with(job, memory), memory.node);
    auto ended = buffer<std::byte>::adopt(owner, {memory.node, memory.address, memory.bytes});
    ended.reset();
  });
}

fc_status fc_release_within(fc_job* job, fc_span memory, int64_t timeout_ns) {
  return guarded([&] {
    const node owner(job_with(job, memory), memory.node);
    if (memory.address != 0)
      detail::release_until(timed_node(owner, deadline_in(timeout_ns)), memory.address);
  });
}

fc_span fc_own_memory(const void* address, size_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(address), bytes, detail::own_id(),
          detail::only_mark.load(std::memory_order_relaxed)};
}

fc_status fc_part(fc_span whole, uint64_t offset, uint64_t bytes, fc_span* part) {
  return guarded([&] {
    require(part, "part");
    if (offset > whole.bytes || bytes > whole.bytes - offset) {
      detail::throw_out_of_range(offset, bytes, whole.bytes);
    }
    *part = {whole.address + offset, bytes, whole.node, whole.reserved};
  });
}

fc_status fc_put(fc_job* job, fc_span to, const void* from, size_t bytes) {
  return fc_put_within(job, to, from, bytes, none);
}

fc_status fc_get(fc_job* job, fc_span from, void* to, size_t bytes) {
  return fc_get_within(job, from, to, bytes, none);
}

fc_status fc_copy(fc_job* job, fc_span from, fc_span to) {
  return fc_copy_within(job, from, to, none);
}

fc_status fc_put_async(fc_job* job, fc_span to, const void* from, size_t bytes,
                       fc_future** future) {
  return fc_put_async_within(job, to, from, bytes, none, future);
}

fc_status fc_get_async(fc_job* job, fc_span from, void* to, size_t bytes, fc_future** future) {
  return fc_get_async_within(job, from, to, bytes, none, future);
}

fc_status fc_copy_async(fc_job* job, fc_span from, fc_span to, fc_future** future) {
  return fc_copy_async_within(job, from, to, none, future);
}

fc_status fc_put_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                        int64_t timeout_ns) {
  return guarded([&] { put(job, to, from, bytes, transfer_mode::sync, timeout_ns).get(); });
}

fc_status fc_get_within(fc_job* job, fc_span from, void* to, size_t bytes, int64_t timeout_ns) {
  return guarded([&] { get(job, from, to, bytes, transfer_mode::sync, timeout_ns).get(); });
}

fc_status fc_copy_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns) {
  return guarded([&] { copy(job, from, to, timeout_ns).get(); });
}

fc_status fc_put_async_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                              int64_t timeout_ns, fc_future** future) {
  return guarded([&] {
    require(future, "future");
    *future = new fc_future(put(job, to, from, bytes, transfer_mode::async, timeout_ns));
  });
}

fc_status fc_get_async_within(fc_job* job, fc_span from, void* to, size_t bytes, int64_t timeout_ns,
                              fc_future** future) {
  return guarded([&] {
    require(future, "future");
    *future = new fc_future(get(job, from, to, bytes, transfer_mode::async, timeout_ns));
  });
}

fc_status fc_copy_async_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns,
                               fc_future** future) {
  return guarded([&] {
    require(future, "future");
    *future = new fc_future(copy(job, from, to, timeout_ns));
  });
}

fc_status fc_map(fc_job* job, fc_span shared, void** here) {
  return guarded([&] {
    require(here, "here");
    *here = detail::map_bytes(job_with(job, shared), shared.node, shared.address, shared.bytes);
  });
}

fc_status fc_map_hold(fc_job* job, fc_span shared, void** here) {
  return guarded([&] {
    require(here, "here");
    held_bytes held =
        detail::hold_bytes(job_with(job, shared), shared.node, shared.address, shared.bytes);
    held_mappings::instance().add(held.here, std::move(held.owner));
    *here = held.here;
  });
}

fc_status fc_unmap(void* here) {
  return guarded([&] {
    require(here, "here");
    if (!held_mappings::instance().remove(here)) {
      throw invalid_argument("this address was not returned by fc_map_hold(), or was passed to "
                             "fc_unmap() as often already");
    }
  });
}
