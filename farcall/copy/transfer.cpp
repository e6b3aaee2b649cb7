// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/timed_event.hpp>
#include <farcall/async/call.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/copy/copy_plan.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/emulated_rma.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/held_window.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace farcall {
namespace {

using detail::copy_end;
using detail::copy_facts;
using detail::copy_state;
using detail::copy_way;
using detail::transfer;
using detail::transfer_mode;

} // namespace

namespace detail {

constinit const std::atomic<bool> no_window{true};
constinit thread_local direct_window last_window;

namespace {

/// Keeps the memory of `last_window` mapped. A separate variable, because each access to
/// `last_window` would be slower if that had a destructor.
struct last_window_owner {
  std::shared_ptr<const void> memory;
  last_window_owner() = default;
  last_window_owner(const last_window_owner&) = delete;
  last_window_owner& operator=(const last_window_owner&) = delete;
  ~last_window_owner() { last_window = {}; }
};
thread_local last_window_owner owner_of_last_window;

/// Works like find_in_last_window() in a process with several jobs. Returns null for a copy that is
/// not short.
std::byte* find_in_window_of(const job_core& job, node_id node, std::uint64_t address,
                             std::size_t bytes) noexcept {
  const direct_window& w = last_window;
  if (bytes > short_copy) return nullptr;
  if (w.job != &job || w.job_serial != job.serial || w.node != node) return nullptr;
  // Acquire, as in find_in_last_window().
  if (w.has_failed->load(std::memory_order_acquire)) return nullptr;
  return w.memory.find(address, bytes);
}

} // namespace

void take(future<void>&& copy) { copy.get(); }

void drop_last_window(const job_core& job) noexcept {
  if (last_window.job != &job) return;
  last_window = {};
  owner_of_last_window.memory.reset();
}

/// Handler of copy_by_destination(), which runs on the node that has the destination: gets the
/// bytes from the source's node. `left_ns` is the time until the caller's deadline; negative if
/// there is no deadline.
void fetch_here(node_id from, std::uint64_t from_address, std::uint64_t to_address,
                std::uint64_t bytes, std::int64_t left_ns) {
  const time_point deadline =
      left_ns < 0 ? no_deadline : deadline_after(std::chrono::nanoseconds(left_ns));
  if (!is_mapped(reinterpret_cast<const void*>(to_address), bytes)) {
    throw_not_there(to_address, bytes, "written to");
  }
  get_bytes(current_core(), from, from_address, reinterpret_cast<std::byte*>(to_address), bytes,
            transfer_mode::sync, deadline)
      .get();
}

} // namespace detail

namespace {

// ---- copies between this node and another -------------------------------------------------------

/// Copies a few bytes to or from a peer's memory domain by messages. Returns false if the domain
/// does not hold the memory.
bool by_messages(const transfer& t) {
  if (!t.copies->domain_of(t.peer)->holds(t.there, t.bytes)) return false;
  am::requester& lane = t.copies->engine().lane_to(t.peer, t.deadline);
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

/// Copies by RMA engines. Returns false if the engines cannot reach the memory.
bool by_rma(const transfer& t) {
  const detail::copy_plan& plan = t.plan;
  if (plan.way == copy_way::by_both_ends || plan.rival != plan.way) {
    return t.copies->helped.make(*t.rma, t.peer,
                                 {.ours = reinterpret_cast<std::uintptr_t>(t.here),
                                  .theirs = t.there,
                                  .bytes = t.bytes,
                                  .is_put = t.is_put},
                                 plan);
  }
  return t.is_put ? t.rma->put(t.peer, t.there, t.here, t.bytes, t.deadline)
                  : t.rma->get(t.peer, t.there, t.here, t.bytes, t.deadline);
}

/// Makes the copy now, on this thread. Throws the errors of the copy.
void move_now(const transfer& t) {
  if (const std::exception_ptr why = t.copies->engine().failure_of(t.peer))
    std::rethrow_exception(why);
  // Earlier puts may have ended at their deadlines although their bytes are still on the way. Wait
  // for them, because their bytes must not arrive after the bytes of this copy.
  if (!t.copies->settle_late_puts(t.peer, t.deadline)) std::rethrow_exception(t.lateness());
  copy_way way = t.plan.way;
  if (way == copy_way::by_rma || way == copy_way::by_both_ends) {
    if (by_rma(t)) return;
    way = t.plan.fallback;
  }
  if (t.is_late()) std::rethrow_exception(t.lateness());
  if (const std::exception_ptr why = t.copies->engine().failure_of(t.peer))
    std::rethrow_exception(why);
  if (t.end == copy_end::domain) {
    if (way == copy_way::by_messages && by_messages(t)) return;
    // Throw, because a memory domain has no program that could make the copy by calls.
    throw error("a copy " + std::string(t.is_put ? "to " : "from ") + node_text(t.peer) +
                    " was not possible" +
                    (t.rma == nullptr ? "" : ": " + t.rma->failure(t.peer, t.there, t.bytes)),
                t.peer);
  }
  // Before an emulated copy, also wait for late puts of the RMA engine. A copy by the engine does
  // not need this, because the engine waits by itself.
  if (t.rma != nullptr && !t.rma->settle(t.peer, t.deadline)) std::rethrow_exception(t.lateness());
  emulated_rma(t, way);
}

/// Describes how this process reaches memory of a node.
struct reach {
  copy_end end;
  rma_engine* rma = nullptr;
  held_window window{};      ///< for mapped memory
  std::byte* here = nullptr; ///< pointer to the memory if it is own or mapped, otherwise null
};

/// Finds how this process reaches memory of a node. If the memory is not mapped, connects the two
/// nodes first. Throws what members::meet() throws.
reach reach_of(const copy_state& copies, node_id node, std::uint64_t address, std::size_t bytes,
               time_point deadline = no_deadline) {
  if (node == detail::own_id())
    return {.end = copy_end::own, .here = reinterpret_cast<std::byte*>(address)};
  rma_engine* const m = copies.engine().rma_engine_for(node);
  if (m != nullptr) {
    held_window w = m->window_at(node, address);
    std::byte* const here = w.owner != nullptr ? w.range.find(address, bytes) : nullptr;
    if (here != nullptr) [[likely]]
      return {copy_end::mapped, m, std::move(w), here};
  }
  if (!copies.members().knows(node)) [[unlikely]] {
    copies.members().meet(node, deadline);
    return reach_of(copies, node, address, bytes, deadline);
  }
  transport* const way = copies.members().route_to(node).via;
  if (way == nullptr) return {copy_end::remote};
  if (way->memory() != nullptr) return {copy_end::domain, m};
  return {way->traits().shares_memory ? copy_end::machine : copy_end::remote, m};
}

/// Returns the facts `f` with the properties of the RMA engine `m`. Changes no fact if `m` is null.
copy_facts with_rma(copy_facts f, rma_engine* m, node_id peer) noexcept {
  if (m == nullptr) return f;
  f.rma_threshold = m->threshold();
  f.is_rma_mutual = m->copies_from_both_ends(peer);
  return f;
}

/// A large copy in pieces. The copy thread, and threads that wait for the copy, take the pieces and
/// copy them.
class chunked_copy final : public detail::large_copy {
 public:
  /// `direct.here` points to the peer's memory if it is own or mapped; otherwise it is null.
  chunked_copy(const transfer& t, held_bytes direct)
      : large_copy(&t.copies->engine()), all_(t), direct_(direct.here),
        mapping_(std::move(direct.owner)),
        chunk_bytes_(direct_ != nullptr ? copy_chunk_bytes : t.bytes),
        chunks_((t.bytes + chunk_bytes_ - 1) / chunk_bytes_) {}

  /// If the copy has a deadline, sets a timer, so that the copy ends at its deadline even if no
  /// thread works on it then. Throws error, std::bad_alloc and std::system_error.
  void keep_deadline() {
    if (all_.deadline == no_deadline) return;
    const counted_ptr<end> e(new end(*this));
    end_ = e;
    e->set(all_.deadline);
  }

  bool work() noexcept override {
    if (all_.is_late()) take_no_more();
    // Relaxed, because the counter only hands out the pieces' numbers.
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
    // Don't take a piece that goes over a connection, because copying it may last longer than
    // `until`. If `until` is not before the deadline of the copy, take the piece all the same,
    // because this deadline ends the piece in time.
    return (direct_ != nullptr || until >= all_.deadline) && work();
  }

 private:
  /// Timer that ends the copy at its deadline. Holds a reference to the copy.
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
    // Acquire-release, so that the thread that finishes the last piece sees the bytes and the
    // failure of all other threads.
    if (done_.fetch_add(chunks, std::memory_order_acq_rel) + chunks != chunks_) return;
    const counted_ptr<end> e = std::exchange(end_, {});
    complete(failure_seen_);
    if (e) e->cancel();
  }
  /// Fails the copy at its deadline, and ensures that no further piece is taken. Pieces in progress
  /// continue to their end.
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
  std::shared_ptr<const void> mapping_; ///< keeps the memory at `direct_` mapped
  std::size_t chunk_bytes_; ///< length of a piece. A copy of memory that is not mapped has one
                            ///< piece, because a connection is a single stream.
  std::size_t chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_seen_;
  counted_ptr<end> end_; ///< timer of the deadline; null once the copy has ended
};

/// Remembers the mapped window for this thread's next small copy.
void remember_window(const transfer& t, const reach& r) noexcept {
  if (r.end != copy_end::mapped) return;
  const std::atomic<bool>* const failed = t.copies->engine().peers().failed_flag(t.peer);
  thread_counters* const counters = t.copies->engine().counters_of_thread();
  if (failed == nullptr || counters == nullptr) return;
  // Remember no window in a traced job, since copies through last_window would not be traced.
  if (t.copies->engine().recorder() != nullptr) return;
  const detail::job_core& job = t.copies->job;
  detail::last_window = {.mark = job.mark,
                         .node = t.peer,
                         .has_failed = failed,
                         .memory = r.window.range,
                         .counters = counters,
                         .job = &job,
                         .job_serial = job.serial};
  detail::owner_of_last_window.memory = r.window.owner;
}

/// Copies by the CPU, and checks the deadline between pieces. Returns false if the deadline has
/// passed before the end.
bool copy_in_time(std::byte* to, const std::byte* from, const transfer& t) {
  constexpr std::size_t piece_bytes = 8 * copy_chunk_bytes;
  for (std::size_t done = 0; done < t.bytes; done += piece_bytes) {
    if (t.is_late()) return false;
    copy_bytes(to + done, from + done, std::min(piece_bytes, t.bytes - done));
  }
  return true;
}

future<void> copy_in_place(const transfer& t, std::byte* there) {
  std::byte* const to = t.is_put ? there : t.here;
  const std::byte* const from = t.is_put ? t.here : there;
  // Don't check the deadline of short copies, because they take less time than reading the clock.
  if (t.bytes <= detail::short_copy || t.deadline == no_deadline) [[likely]] {
    copy_bytes(to, from, t.bytes);
  } else if (!copy_in_time(to, from, t)) {
    return detail::failed_future<void>(t.lateness());
  }
  return detail::ready_future<void>();
}

/// Makes a planned copy now, or submits it to the copy thread. `there.here` points to the peer's
/// memory if it is own or mapped; otherwise it is null.
future<void> carry_out(const transfer& t, held_bytes there) {
  if (!t.plan.is_on_thread) {
    try {
      move_now(t);
    } catch (...) {
      return detail::failed_future<void>(std::current_exception());
    }
    return detail::ready_future<void>();
  }
  auto* copy = new chunked_copy(t, std::move(there));
  // Give the future no deadline, because the copy itself ends at its deadline, once the memory is
  // no longer accessed.
  future<void> f = detail::future_access::make<void>(copy);
  try {
    copy->keep_deadline();
  } catch (...) {
    copy->complete(std::current_exception());
    return f;
  }
  t.copies->thread.submit(*copy);
  return f;
}

future<void> start(transfer t, transfer_mode mode) {
  if (t.copies->engine().has_failed(t.peer))
    return detail::failed_future<void>(t.copies->engine().failure_of(t.peer));
  reach r{};
  try {
    r = reach_of(*t.copies, t.peer, t.there, t.bytes, t.deadline);
  } catch (...) {
    return detail::failed_future<void>(std::current_exception());
  }
  copy_facts facts{.from = t.is_put ? copy_end::own : r.end,
                   .to = t.is_put ? r.end : copy_end::own,
                   .bytes = t.bytes,
                   .has_deadline = t.deadline != no_deadline,
                   .is_sync = mode == transfer_mode::sync};
  if (r.here == nullptr) facts = with_rma(facts, r.rma, t.peer);
  t.plan = detail::plan_copy(facts);
  if (t.plan.way == copy_way::in_place) [[likely]] {
    remember_window(t, r);
    return copy_in_place(t, r.here);
  }
  t.end = r.end;
  t.rma = r.rma;
  return carry_out(t, {r.here, std::move(r.window.owner)});
}

// ---- copies between two other nodes -------------------------------------------------------------

/// Node and address of the memory at one end of a copy.
struct place {
  node_id node;
  std::uint64_t address;
};

/// Copies the bytes piece by piece through memory of this node.
future<void> copy_by_host(copy_state& copies, const place& from, const place& to, std::size_t bytes,
                          time_point deadline) {
  constexpr std::size_t most = std::size_t{256} << 10;
  try {
    std::vector<std::byte> piece(std::min(bytes, most));
    for (std::size_t done = 0; done < bytes; done += piece.size()) {
      const std::size_t n = std::min(piece.size(), bytes - done);
      detail::get_bytes(copies.job, from.node, from.address + done, piece.data(), n,
                        transfer_mode::sync, deadline)
          .get();
      detail::put_bytes(copies.job, to.node, to.address + done, piece.data(), n,
                        transfer_mode::sync, deadline)
          .get();
    }
  } catch (...) {
    return detail::failed_future<void>(std::current_exception());
  }
  return detail::ready_future<void>();
}

/// Calls the node of the destination, which then gets the bytes from the source's node.
future<void> copy_by_destination(copy_state& copies, const place& from, const place& to,
                                 std::size_t bytes, time_point deadline) {
  for (const node_id peer : {from.node, to.node}) {
    // Wait for earlier puts of this node whose bytes are still on the way, as move_now() does. The
    // destination's node cannot wait for them, because it does not know of these puts.
    if (!copies.settle_puts(peer, deadline)) {
      throw timeout("bytes of an earlier copy are still on their way to " + node_text(peer), peer);
    }
  }
  std::int64_t left_ns = -1;
  if (deadline != no_deadline) {
    const std::chrono::nanoseconds left = deadline - clock::now();
    left_ns = std::max<std::int64_t>(left.count(), 0);
  }
  return async(timed_node(node(copies.job, to.node), deadline), fn<&detail::fetch_here>, from.node,
               from.address, to.address, std::uint64_t{bytes}, left_ns);
}

} // namespace

namespace detail {

future<void> put_bytes(job_core& job, node_id to, std::uint64_t address, const std::byte* from,
                       std::size_t bytes, transfer_mode mode, time_point deadline) {
  copy_state& copies = copies_of(job);
  if (std::byte* const there = find_in_window_of(job, to, address, bytes)) {
    copy_bytes(there, from, bytes);
    last_window.counters->count_put(bytes);
    return ready_future<void>();
  }
  if (thread_counters* const c = copies.engine().counters_of_thread()) c->count_put(bytes);
  const trace::span copying(copies.engine().recorder(), trace::event_kind::put_begin, to, bytes);
  return start({&copies, to, address, const_cast<std::byte*>(from), bytes, true, deadline}, mode);
}

future<void> get_bytes(job_core& job, node_id from, std::uint64_t address, std::byte* to,
                       std::size_t bytes, transfer_mode mode, time_point deadline) {
  copy_state& copies = copies_of(job);
  if (const std::byte* const there = find_in_window_of(job, from, address, bytes)) {
    copy_bytes(to, there, bytes);
    last_window.counters->count_get(bytes);
    return ready_future<void>();
  }
  if (thread_counters* const c = copies.engine().counters_of_thread()) c->count_get(bytes);
  const trace::span copying(copies.engine().recorder(), trace::event_kind::get_begin, from, bytes);
  return start({&copies, from, address, to, bytes, false, deadline}, mode);
}

future<void> copy_between(job_core& job, node_id from, std::uint64_t from_address, node_id to,
                          std::uint64_t to_address, std::size_t bytes, time_point deadline) {
  copy_state& copies = copies_of(job);
  if (to == own_id()) {
    return get_bytes(job, from, from_address, reinterpret_cast<std::byte*>(to_address), bytes,
                     transfer_mode::async, deadline);
  }
  if (from == own_id()) {
    return put_bytes(job, to, to_address, reinterpret_cast<const std::byte*>(from_address), bytes,
                     transfer_mode::async, deadline);
  }
  if (thread_counters* const c = copies.engine().counters_of_thread()) c->count_copy(bytes);
  const trace::span copying(copies.engine().recorder(), trace::event_kind::copy_begin, to, bytes);
  const reach source = reach_of(copies, from, from_address, bytes);
  const reach target = reach_of(copies, to, to_address, bytes);
  // If the memory of one end is in a domain of this process, the copy is a put to this end or a get
  // from it.
  const bool is_put = target.end == copy_end::domain;
  const node_id peer = is_put ? to : from;
  rma_engine* const rma = is_put ? target.rma : source.rma;
  const copy_plan plan = plan_copy(with_rma({.from = source.end,
                                             .to = target.end,
                                             .bytes = bytes,
                                             .has_deadline = deadline != no_deadline},
                                            rma, peer));
  if (plan.way == copy_way::by_destination) {
    return copy_by_destination(copies, {from, from_address}, {to, to_address}, bytes, deadline);
  }
  if (plan.way == copy_way::by_host) {
    return copy_by_host(copies, {from, from_address}, {to, to_address}, bytes, deadline);
  }
  if (copies.engine().has_failed(peer))
    return failed_future<void>(copies.engine().failure_of(peer));
  transfer t{.copies = &copies,
             .peer = peer,
             .there = is_put ? to_address : from_address,
             .here = is_put ? source.here : target.here,
             .bytes = bytes,
             .is_put = is_put,
             .deadline = deadline,
             .end = copy_end::domain,
             .rma = rma,
             .plan = plan};
  // If the source is in a domain as well, use its address in the domain as the local address,
  // because the RMA engine of the domain understands it.
  if (source.end == copy_end::domain && is_put) t.here = reinterpret_cast<std::byte*>(from_address);
  return carry_out(t, {});
}

std::byte* map_bytes(job_core& job, node_id node, std::uint64_t address, std::size_t bytes) {
  return copies_of(job).map_until_end(node, address, bytes);
}

found_memory find_mapped(const copy_state& copies, node_id node, std::uint64_t address,
                         std::size_t bytes) {
  copies.members().meet(node);
  reach found = reach_of(copies, node, address, bytes);
  if (found.here != nullptr) return {found.here, std::move(found.window)};
  if (const std::exception_ptr why = copies.engine().failure_of(node)) std::rethrow_exception(why);
  throw error(
      "this memory of " + node_text(node) + " cannot be used in place here: it was not " +
          "allocated with node::allocate, or the node is on another machine; use get and put",
      node);
}

void throw_too_long(std::size_t local, std::size_t remote) {
  throw error("a copy of " + std::to_string(local) + " elements goes beyond a view of " +
              std::to_string(remote));
}

} // namespace detail
} // namespace farcall
