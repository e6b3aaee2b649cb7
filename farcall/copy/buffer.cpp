// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/job_registry.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/copy/transfer.hpp>

#include <exception>
#include <string>

namespace farcall::detail {

namespace {

[[nodiscard]] memory_domain* domain_of(const node& where) {
  return where.job() == nullptr ? nullptr : copies_of(*where.job()).domain_of(where.id());
}

/// Lane and deadline of a release of memory, which follows the earlier calls of the lane. The lane
/// is `by`, or the calling thread's lane to the node if `by` is null.
struct release_place {
  timed_node where;
  const lane* by;

  friend call_place place_of(const release_place& t) {
    call_place p = t.by != nullptr ? detail::place_of(*t.by) : detail::place_of(t.where);
    p.deadline = t.where.deadline();
    return p;
  }
};

/// Returns a future that is ready once all earlier calls of the lane have ended.
[[nodiscard]] future<void> fence_in(const release_place& lane) {
  const call_place p = place_of(lane);
  return future_access::make<void>(
      send<call_mode::awaited, void>(p.messages, am::fence_key, {}, p.deadline), p.deadline);
}

/// True if memory can be freed at once, because all calls of the lane have ended, or the calling
/// thread has no lane and has therefore made no calls.
[[nodiscard]] bool has_no_calls(const release_place& lane) {
  if (lane.by != nullptr) return place_of(lane).messages.is_quiet();
  const am::requester* const own =
      lane.where.where().job()->client->find_lane(lane.where.where().id());
  return own == nullptr || own->is_quiet();
}

/// Allocates memory on the node by a call of allocate_here(). If the reply comes after the
/// deadline, the memory is freed.
[[nodiscard]] allocation ask_for_memory(const timed_node& where, std::uint64_t bytes,
                                        std::uint64_t alignment) {
  future<allocation> asked = async(where, fn<&allocate_here>, bytes, alignment);
  try {
    asked.wait();
  } catch (const timeout&) {
    static_cast<void>(asked.then([node = where.where()](future<allocation> late) {
      if (const allocation a = late.get(); a.address != 0) release_on(node, a.address);
    }));
    throw;
  }
  return asked.get();
}

} // namespace

std::uint64_t allocate_on(const timed_node& timed, std::uint64_t count, std::uint64_t element_bytes,
                          std::uint64_t alignment) {
  const node& where = timed.where();
  if (count > UINT64_MAX / element_bytes) {
    throw out_of_memory(std::to_string(count) + " elements of " + std::to_string(element_bytes) +
                            " bytes are more than any memory",
                        where.id());
  }
  const std::uint64_t bytes = count * element_bytes;
  if (memory_domain* const domain = domain_of(where)) {
    if (const std::exception_ptr why = copies_of(*where.job()).engine().failure_of(where.id()))
      std::rethrow_exception(why);
    try {
      return domain->allocate(bytes, alignment, timed.deadline());
    } catch (const out_of_memory&) {
      // The program may have released blocks that are freed only after this thread's earlier calls.
      // Wait for the end of these calls and try again.
      fence_in({timed, nullptr}).get();
      return domain->allocate(bytes, alignment, timed.deadline());
    }
  }
  const auto [address, why] = where.id() == own_id()
                                  ? allocate_in(copies_of(*where.job()), bytes, alignment)
                                  : ask_for_memory(timed, bytes, alignment);
  if (address == 0) throw out_of_memory(node_text(where.id()) + ": " + why, where.id());
  return address;
}

namespace {

/// Releases the memory like release_until(), but after the earlier calls of the lane that `lane`
/// names.
void release_in(const release_place& lane, std::uint64_t address) {
  const timed_node& timed = lane.where;
  const node& where = timed.where();
  // If the job or the node has ended, all its memory is already freed.
  if (!where.has_job() || !where.alive()) return;
  try {
    if (memory_domain* const domain = domain_of(where)) {
      // If the thread has no lane to the node, it has made no calls to wait for. Don't open a lane
      // for the release, because opening a lane may fail.
      if (lane.by == nullptr && where.job()->client->find_lane(where.id()) == nullptr) {
        domain->release(address);
        return;
      }
      // Release the memory after the calls of this lane, which may use it. The domain itself waits
      // for calls of other lanes that have begun.
      static_cast<void>(fence_in(lane).then(
          [domain, address](const future<void>& /*done*/) { domain->release(address); }));
    } else if (where.id() == own_id() && has_no_calls(lane)) {
      (void)copies_of(*where.job()).engine().heap().release(reinterpret_cast<std::byte*>(address));
    } else {
      if (!copies_of(*where.job()).settle_puts(where.id(), timed.deadline())) {
        throw timeout("a copy to " + node_text(where.id()) + " that was given up may go on there",
                      where.id());
      }
      post(lane, fn<&release_here>, address);
    }
  } catch (const node_failed&) {
    // The node has failed since the check above, and its memory is gone.
  }
}

} // namespace

void release_until(const timed_node& timed, std::uint64_t address) {
  release_in({timed, nullptr}, address);
}

void release_behind(const node& where, const lane* by, std::uint64_t address) noexcept {
  if (!where.has_job()) return;
  std::chrono::milliseconds limit{};
  try {
    limit = copies_of(*where.job()).release_timeout;
    release_in({{where, deadline_after(limit)}, by}, address);
  } catch (const timeout& e) {
    log::warning("a buffer on " + node_text(where.id()) + " could not be freed within " +
                 std::to_string(limit.count()) + " ms (release_timeout), and its memory stays " +
                 "taken until the job ends: " + e.what());
  } catch (const std::exception& e) {
    log::warning("a buffer on " + node_text(where.id()) + " could not be freed: " + e.what());
  }
}

void release_on(const node& where, std::uint64_t address) noexcept {
  release_behind(where, nullptr, address);
}

void require_on(node_id owner, std::uint32_t mark) {
  const node_id here = acting_node != no_node ? acting_node : own_id();
  // Relaxed, because the mark is constant while its job lasts.
  const bool is_of_job = mark == 0 || mark == only_mark.load(std::memory_order_relaxed) ||
                         job_registry::instance().has_marked(mark);
  if (here == owner && is_of_job) return;
  if (owner == no_node) {
    throw wrong_node("this view is empty: it was made without memory, or its buffer was moved from",
                     owner);
  }
  if (!is_of_job) {
    throw wrong_node("memory of " + node_text(owner) +
                         " of another job, or of one that has ended, " + "is used in place on " +
                         node_text(here) +
                         "; pass its content instead: a remote span means something in its own "
                         "job only",
                     owner);
  }
  throw wrong_node("memory of " + node_text(owner) + " is used in place on " + node_text(here) +
                       "; use fc::get, fc::put or fc::map there",
                   owner);
}

void throw_other_job(node_id owner) {
  throw error("memory of " + node_text(owner) +
                  " of another job, or of one that has ended, is used in this one; copy by way of "
                  "memory of the host: fc::get in that job, then fc::put in this one",
              owner);
}

void throw_out_of_range(std::size_t offset, std::size_t count, std::size_t size) {
  throw error("elements " + std::to_string(offset) + " to " + std::to_string(offset + count) +
              " do not lie inside a span of " + std::to_string(size));
}

} // namespace farcall::detail
