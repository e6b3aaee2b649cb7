#include <farcall/am/deadline_thread.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/emulated_rma.hpp>
#include <farcall/offload/job_registry.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/memory_handlers.hpp>
#include <farcall/offload/transfer.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

namespace farcall {
namespace {

using detail::job_state;
using detail::transfer;
using detail::transfer_mode;

} // namespace

namespace detail {

constinit thread_local direct_window last_window;

/// `left_ns` until the deadline of whoever waits for it; less than 0: without one.
void fetch_here(node_id from, std::uint64_t from_address, std::uint64_t to_address,
                std::uint64_t bytes, std::int64_t left_ns) {
  const time_point deadline =
      left_ns < 0 ? no_deadline : deadline_after(std::chrono::nanoseconds(left_ns));
  if (!is_mapped(reinterpret_cast<const void*>(to_address), bytes)) {
    throw_not_there(to_address, bytes, "written to");
  }
  get_bytes(current_job(), from, from_address, reinterpret_cast<std::byte*>(to_address), bytes,
            transfer_mode::sync, deadline)
      .get();
}

} // namespace detail

namespace {

// ---- one direction ------------------------------------------------------------------------------

/// Such calls to the node have ended; false when `deadline` passed. They come from any lane.
bool settle_late_puts(job_state& job, node_id peer, time_point deadline) {
  return job.late_puts.settle([=](const auto& put) { return put.peer == peer; }, deadline);
}

/// The memory of a node that this process hands out; null for a node that does so itself.
memory_domain* domain_of(const job_state& job, node_id node) {
  transport* const way = job.members->route_to(node).via;
  return way == nullptr ? nullptr : way->memory();
}

/// Few bytes to or from a peer's memory domain, as messages. False when the memory is not its.
bool by_messages(const transfer& t, const memory_domain& domain) {
  if (!domain.holds(t.there, t.bytes)) return false;
  am::requester& lane = t.job->engine->lane_to(t.peer, t.deadline);
  const auto key = t.is_put ? am::write_memory_key : am::read_memory_key;
  if (t.is_put) {
    detail::future_access::make<void>(
        detail::send<detail::call_mode::awaited, void>(lane, key, {}, t.deadline, t.there,
                                                       detail::bytes_sent{{t.here, t.bytes}}),
        t.deadline)
        .get();
    return true;
  }
  const std::vector<std::byte> got =
      detail::future_access::make<detail::bytes_read>(
          detail::send<detail::call_mode::awaited, detail::bytes_read>(
              lane, key, {}, t.deadline, t.there, std::uint64_t{t.bytes}),
          t.deadline)
          .get()
          .bytes;
  if (got.size() != t.bytes) throw malformed_message("a get came back short");
  copy_bytes(t.here, got.data(), got.size());
  return true;
}

bool move_by(rma_engine& m, const transfer& t) {
  // Who helps may be kept from going on, and would not leave the memory alone at a deadline.
  const bool is_helped = t.bytes >= detail::shortest_helped_copy && t.deadline == no_deadline &&
                         m.copies_from_both_ends(t.peer) &&
                         m.map(t.peer, t.there, t.bytes) == nullptr;
  if (is_helped) {
    return t.job->helped.make(m, t.peer,
                              {.ours = reinterpret_cast<std::uintptr_t>(t.here),
                               .theirs = t.there,
                               .bytes = t.bytes,
                               .is_put = t.is_put});
  }
  return t.is_put ? m.put(t.peer, t.there, t.here, t.bytes, t.deadline)
                  : m.get(t.peer, t.there, t.here, t.bytes, t.deadline);
}

/// By this thread, now. Throws.
void move_now(const transfer& t) {
  if (const std::exception_ptr why = t.job->engine->failure_of(t.peer)) std::rethrow_exception(why);
  // Bytes of a put that has ended at its deadline must not come behind these.
  if (!settle_late_puts(*t.job, t.peer, t.deadline)) std::rethrow_exception(t.lateness());
  rma_engine* m = t.job->engine->rma_engine_for(t.peer);
  if (m != nullptr && t.bytes >= m->threshold() && move_by(*m, t)) return;
  if (t.is_late()) std::rethrow_exception(t.lateness());
  if (const std::exception_ptr why = t.job->engine->failure_of(t.peer)) std::rethrow_exception(why);
  if (const memory_domain* const domain = domain_of(*t.job, t.peer)) {
    if (m != nullptr && t.bytes < m->threshold() && by_messages(t, *domain)) return;
    // There is no program at the other end that could do it.
    throw error("a copy " + std::string(t.is_put ? "to " : "from ") + node_text(t.peer) +
                    " was not possible" +
                    (m == nullptr ? "" : ": " + m->failure(t.peer, t.there, t.bytes)),
                t.peer);
  }
  // As above; the other ways look for themselves.
  if (m != nullptr && !m->settle(t.peer, t.deadline)) std::rethrow_exception(t.lateness());
  emulated_rma(t);
}

/// Where memory of `node` can be touched directly, or null.
std::byte* directly(job_state& job, node_id node, std::uint64_t address, std::size_t bytes) {
  if (node == detail::own_id()) return reinterpret_cast<std::byte*>(address);
  rma_engine* m = job.engine->rma_engine_for(node);
  return m == nullptr ? nullptr : m->map(node, address, bytes);
}

/// Pieces of a large copy, taken by the copy thread and by whoever waits.
class chunked_copy final : public detail::large_copy {
 public:
  explicit chunked_copy(const transfer& t)
      : large_copy(t.job->engine.get()), all_(t),
        direct_(directly(*t.job, t.peer, t.there, t.bytes)),
        chunk_bytes_(direct_ != nullptr ? copy_chunk_bytes : t.bytes),
        chunks_((t.bytes + chunk_bytes_ - 1) / chunk_bytes_) {}

  /// Has it end at its deadline, if it has one, also while nobody works on it. Throws.
  void keep_deadline() {
    if (all_.deadline == no_deadline) return;
    const counted_ptr<end> e(new end(*this));
    am::deadline_thread::of_process().prepare();
    end_ = e;
    am::deadline_thread::of_process().set(*e, all_.deadline);
  }

  bool work() noexcept override {
    if (all_.is_late()) take_no_more();
    // Relaxed: hands out numbers only.
    const std::size_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks_) return false;
    const std::size_t offset = chunk * chunk_bytes_;
    const std::size_t bytes = std::min(chunk_bytes_, all_.bytes - offset);
    try {
      if (direct_ != nullptr) {
        copy_directly(offset, bytes);
      } else {
        move_now(all_.part(offset, bytes));
      }
    } catch (...) {
      fail(std::current_exception());
    }
    finish(1);
    return true;
  }

  bool help(time_point until) noexcept override {
    // A piece by a connection takes as long as the peer likes.
    return (direct_ != nullptr || until >= all_.deadline) && work();
  }

 private:
  /// What happens at the deadline. Holds the copy.
  class end final : public am::timed_event {
   public:
    explicit end(chunked_copy& copy) : timed_event(copy.owner()), copy_(&copy) { copy.retain(); }
    ~end() override { copy_->release(); }

   private:
    void happen() noexcept override { copy_->take_no_more(); }

    chunked_copy* copy_;
  };

  void fail(std::exception_ptr why) noexcept {
    const std::lock_guard guard(failure_mutex_);
    failure_seen_ = std::move(why);
  }
  void finish(std::size_t chunks) noexcept {
    // Acquire-release: the last one sees the bytes, and the failure, of all.
    if (done_.fetch_add(chunks, std::memory_order_acq_rel) + chunks != chunks_) return;
    const counted_ptr<end> e = std::exchange(end_, {});
    complete(failure_seen_);
    if (e) am::deadline_thread::of_process().take_back(*e);
  }
  /// Nobody takes another piece. Those that were taken come to their end.
  void take_no_more() noexcept {
    // Relaxed: as in work().
    const std::size_t first = next_.exchange(chunks_, std::memory_order_relaxed);
    if (first >= chunks_) return;
    fail(all_.lateness());
    finish(chunks_ - first);
  }

  void copy_directly(std::size_t offset, std::size_t bytes) noexcept {
    std::byte* to = all_.is_put ? direct_ + offset : all_.here + offset;
    const std::byte* from = all_.is_put ? all_.here + offset : direct_ + offset;
    if (all_.bytes >= large_copy_from) {
      copy_large(to, from, bytes);
    } else {
      copy_bytes(to, from, bytes);
    }
  }

  transfer all_;
  std::byte* direct_;
  std::size_t chunk_bytes_; ///< a connection is one stream, memory has many
  std::size_t chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_seen_;
  counted_ptr<end> end_; ///< until it has ended
};

/// For the next small copy of this thread.
void remember_window(const transfer& t) noexcept {
  rma_engine* const m = t.job->engine->rma_engine_for(t.peer);
  const std::atomic<bool>* const failed = t.job->engine->failed_flag(t.peer);
  thread_counters* const counters = t.job->engine->counters_of_thread();
  if (m == nullptr || failed == nullptr || counters == nullptr) return; // the memory of this node
  // What goes by it is not recorded.
  if (t.job->engine->recorder() != nullptr) return;
  detail::last_window = {t.job,  t.job->serial, t.peer, m->window_at(t.peer, t.there),
                         failed, counters};
}

/// A copy by the processor that looks at its deadline. False when that came first.
bool copy_in_time(std::byte* to, const std::byte* from, const transfer& t) {
  constexpr std::size_t piece_bytes = 8 * copy_chunk_bytes;
  for (std::size_t done = 0; done < t.bytes; done += piece_bytes) {
    if (t.is_late()) return false;
    copy_bytes(to + done, from + done, std::min(piece_bytes, t.bytes - done));
  }
  return true;
}

future<void> start(const transfer& t, transfer_mode mode) {
  if (t.job->engine->has_failed(t.peer))
    return detail::failed_future<void>(t.job->engine->failure_of(t.peer));
  const bool is_done_here = mode == transfer_mode::sync || t.bytes < async_copy_from;
  if (is_done_here) {
    if (std::byte* there = directly(*t.job, t.peer, t.there, t.bytes)) [[likely]] {
      remember_window(t);
      std::byte* const to = t.is_put ? there : t.here;
      const std::byte* const from = t.is_put ? t.here : there;
      // Small ones are done sooner than the clock is read.
      if (t.bytes <= detail::short_copy || t.deadline == no_deadline) [[likely]] {
        copy_bytes(to, from, t.bytes);
      } else if (!copy_in_time(to, from, t)) {
        return detail::failed_future<void>(t.lateness());
      }
      return detail::ready_future<void>();
    }
  }
  if (!t.job->members->knows(t.peer)) [[unlikely]] {
    try {
      t.job->members->meet(t.peer, t.deadline);
    } catch (...) {
      return detail::failed_future<void>(std::current_exception());
    }
    return start(t, mode);
  }
  if (is_done_here) {
    try {
      move_now(t);
    } catch (...) {
      return detail::failed_future<void>(std::current_exception());
    }
    return detail::ready_future<void>();
  }
  auto* copy = new chunked_copy(t);
  // No deadline for who waits: the copy ends at its own, when nobody touches the memory any more.
  future<void> f = detail::future_access::make<void>(copy);
  try {
    copy->keep_deadline();
  } catch (...) {
    copy->complete(std::current_exception());
    return f;
  }
  t.job->copies.submit(*copy);
  return f;
}

} // namespace

namespace detail {

namespace {

/// This process hands out the memory of one of the two nodes, so it copies.
future<void> copy_with_domain(job_state& job, node_id from, std::uint64_t from_address, node_id to,
                              std::uint64_t to_address, std::size_t bytes, time_point deadline) {
  const memory_domain* const source = domain_of(job, from);
  const memory_domain* const target = domain_of(job, to);
  if (target != nullptr) {
    // Memory of a domain has addresses that its owner's copies know.
    std::byte* const here = source != nullptr ? reinterpret_cast<std::byte*>(from_address)
                                              : directly(job, from, from_address, bytes);
    rma_engine& m = *job.engine->rma_engine_for(to);
    if (source != nullptr && bytes < m.threshold()) {
      // Not as a message: this processor cannot read that address.
      if (const std::exception_ptr why = job.engine->failure_of(to))
        return failed_future<void>(why);
      if (m.put(to, to_address, here, bytes, deadline)) return ready_future<void>();
      try {
        throw error("a copy to " + node_text(to) +
                        " was not possible: " + m.failure(to, to_address, bytes),
                    to);
      } catch (...) {
        return failed_future<void>(std::current_exception());
      }
    }
    if (here != nullptr)
      return put_bytes(job, to, to_address, here, bytes, transfer_mode::async, deadline);
  } else if (std::byte* const here = directly(job, to, to_address, bytes)) {
    return get_bytes(job, from, from_address, here, bytes, transfer_mode::async, deadline);
  }
  try {
    constexpr std::size_t most = std::size_t{256} << 10;
    std::vector<std::byte> piece(std::min(bytes, most));
    for (std::size_t done = 0; done < bytes; done += piece.size()) {
      const std::size_t n = std::min(piece.size(), bytes - done);
      get_bytes(job, from, from_address + done, piece.data(), n, transfer_mode::sync, deadline)
          .get();
      put_bytes(job, to, to_address + done, piece.data(), n, transfer_mode::sync, deadline).get();
    }
  } catch (...) {
    return failed_future<void>(std::current_exception());
  }
  return ready_future<void>();
}

} // namespace

future<void> put_bytes(job_core& job, node_id to, std::uint64_t address, const std::byte* from,
                       std::size_t bytes, transfer_mode mode, time_point deadline) {
  if (thread_counters* const c = state_of(job).engine->counters_of_thread()) c->count_put(bytes);
  const trace::span copying(state_of(job).engine->recorder(), trace::event_kind::put_begin, to,
                            bytes);
  return start({&state_of(job), to, address, const_cast<std::byte*>(from), bytes, true, deadline},
               mode);
}

future<void> get_bytes(job_core& job, node_id from, std::uint64_t address, std::byte* to,
                       std::size_t bytes, transfer_mode mode, time_point deadline) {
  if (thread_counters* const c = state_of(job).engine->counters_of_thread()) c->count_get(bytes);
  const trace::span copying(state_of(job).engine->recorder(), trace::event_kind::get_begin, from,
                            bytes);
  return start({&state_of(job), from, address, to, bytes, false, deadline}, mode);
}

future<void> copy_between(job_core& core, node_id from, std::uint64_t from_address, node_id to,
                          std::uint64_t to_address, std::size_t bytes, time_point deadline) {
  job_state& job = state_of(core);
  if (to == own_id()) {
    return get_bytes(job, from, from_address, reinterpret_cast<std::byte*>(to_address), bytes,
                     transfer_mode::async, deadline);
  }
  if (from == own_id()) {
    return put_bytes(job, to, to_address, reinterpret_cast<const std::byte*>(from_address), bytes,
                     transfer_mode::async, deadline);
  }
  if (thread_counters* const c = job.engine->counters_of_thread()) c->count_copy(bytes);
  const trace::span copying(job.engine->recorder(), trace::event_kind::copy_begin, to, bytes);
  if (domain_of(job, from) != nullptr || domain_of(job, to) != nullptr) {
    return copy_with_domain(job, from, from_address, to, to_address, bytes, deadline);
  }
  for (const node_id peer : {from, to}) {
    // As in move_now(): the other node knows nothing of puts from here.
    rma_engine* const m = job.engine->rma_engine_for(peer);
    if ((m != nullptr && !m->settle(peer, deadline)) || !settle_late_puts(job, peer, deadline)) {
      throw timeout("bytes of an earlier copy are still on their way to " + node_text(peer), peer);
    }
  }
  std::int64_t left_ns = -1;
  if (deadline != no_deadline) {
    const std::chrono::nanoseconds left = deadline - clock::now();
    left_ns = std::max<std::int64_t>(left.count(), 0);
  }
  return async(timed_node(node(job, to), deadline), fn<&fetch_here>, from, from_address, to_address,
               std::uint64_t{bytes}, left_ns);
}

std::byte* map_bytes(job_core& job, node_id node, std::uint64_t address, std::size_t bytes) {
  state_of(job).members->meet(node);
  if (std::byte* here = directly(state_of(job), node, address, bytes)) return here;
  throw error(
      "this memory of " + node_text(node) + " cannot be used in place here: it was not " +
          "allocated with node::allocate, or the node is on another machine; use get and put",
      node);
}

namespace {

[[nodiscard]] memory_domain* domain_of(const node& where) {
  return where.job() == nullptr ? nullptr : farcall::domain_of(state_of(*where.job()), where.id());
}

/// The lane of the calling thread, or `by`, with a deadline.
struct release_place {
  timed_node where;
  const lane* by;

  friend call_place place_of(const release_place& t) {
    call_place p = t.by != nullptr ? detail::place_of(*t.by) : detail::place_of(t.where);
    p.deadline = t.where.deadline();
    return p;
  }
};

/// Ready when the calls that were made in the lane have ended.
[[nodiscard]] future<void> fence_in(const release_place& lane) {
  const call_place p = place_of(lane);
  return future_access::make<void>(
      send<call_mode::awaited, void>(p.messages, am::fence_key, {}, p.deadline), p.deadline);
}

/// No call in the lane may still use memory that is freed now. True where there is no lane.
[[nodiscard]] bool has_no_calls(const release_place& lane) {
  if (lane.by != nullptr) return place_of(lane).messages.is_quiet();
  const am::requester* const own =
      lane.where.where().job()->client->find_lane(lane.where.where().id());
  return own == nullptr || own->is_quiet();
}

/// As allocate_here(), on the node. Memory that comes after the deadline is freed.
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
    if (const std::exception_ptr why = state_of(*where.job()).engine->failure_of(where.id()))
      std::rethrow_exception(why);
    try {
      return domain->allocate(bytes, alignment, timed.deadline());
    } catch (const out_of_memory&) {
      // Blocks that were freed may still wait for the calls before them.
      fence_in({timed, nullptr}).get();
      return domain->allocate(bytes, alignment, timed.deadline());
    }
  }
  const auto [address, why] = where.id() == own_id()
                                  ? allocate_in(state_of(*where.job()), bytes, alignment)
                                  : ask_for_memory(timed, bytes, alignment);
  if (address == 0) throw out_of_memory(node_text(where.id()) + ": " + why, where.id());
  return address;
}

namespace {

/// As release_until(), in order behind the calls of that lane.
void release_in(const release_place& lane, std::uint64_t address) {
  const timed_node& timed = lane.where;
  const node& where = timed.where();
  // All memory goes with the job, and with its node.
  if (!where.has_job() || !where.alive()) return;
  try {
    if (memory_domain* const domain = domain_of(where)) {
      // Who has no lane has made no calls, and may not get one.
      if (lane.by == nullptr && where.job()->client->find_lane(where.id()) == nullptr) {
        domain->release(address);
        return;
      }
      // Behind the calls that may use it; the domain knows of what else is under way.
      static_cast<void>(fence_in(lane).then(
          [domain, address](const future<void>& /*done*/) { domain->release(address); }));
    } else if (where.id() == own_id() && has_no_calls(lane)) {
      (void)state_of(*where.job()).engine->heap().release(reinterpret_cast<std::byte*>(address));
    } else {
      job_state& job = state_of(*where.job());
      rma_engine* const m = job.engine->rma_engine_for(where.id());
      if ((m != nullptr && !m->settle(where.id(), timed.deadline())) ||
          !settle_late_puts(job, where.id(), timed.deadline())) {
        throw timeout("a copy to " + node_text(where.id()) + " that was given up may go on there",
                      where.id());
      }
      post(lane, fn<&release_here>, address);
    }
  } catch (const node_failed&) {
    // It has failed now.
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
    limit = state_of(*where.job()).release_timeout;
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
  // Relaxed: a mark stays as it is while its job lasts.
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

void throw_too_long(std::size_t local, std::size_t remote) {
  throw error("a copy of " + std::to_string(local) + " elements goes beyond a view of " +
              std::to_string(remote));
}

} // namespace detail
} // namespace farcall
