// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/helped_copy.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <new>
#include <string>
#include <thread>

namespace farcall::detail {
namespace {

std::atomic<std::uint64_t> chunks_for_others{0};

/// Most lanes that the threads of a job open only to ask peers for help.
constexpr unsigned max_lanes_opened = 8;

/// Returns the length of the chunks of a copy. Chunks are so short that both ends finish at about
/// the same time, and so long that the costs of taking a chunk and of its system call are small.
std::uint64_t chunk_bytes_of(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t page = 4096;
  constexpr std::uint64_t shortest = std::uint64_t{32} << 10;
  constexpr std::uint64_t longest = std::uint64_t{256} << 10;
  constexpr std::uint64_t parts = 8;
  return std::clamp(bytes / parts / page * page, shortest, longest);
}

bool copy_chunk(rma_engine& m, node_id peer, const offered_copy& c, offered_copy::chunk chunk) {
  auto* const here = reinterpret_cast<std::byte*>(c.ours + chunk.offset);
  const std::uint64_t there = c.theirs + chunk.offset;
  return c.is_put ? m.put(peer, there, here, chunk.bytes, no_deadline)
                  : m.get(peer, there, here, chunk.bytes, no_deadline);
}

/// Waits until the peer has finished `chunks` chunks. Returns false if the peer has failed.
bool wait_for_peer(const am::engine& engine, node_id peer, const chunk_offer& offer,
                   std::uint64_t chunks) {
  // Spin for about the time that a chunk takes; afterwards yield, because other threads may need
  // the CPU.
  constexpr unsigned spins = 1024;
  for (unsigned turn = 0; offer.ended_by_peer() < chunks; ++turn) {
    spin_pause();
    if (turn % 64 == 63 && engine.has_failed(peer)) return false;
    if (turn > spins) std::this_thread::yield();
  }
  return true;
}

/// Returns the class of a copy's length. way_choice measures each class separately.
std::size_t class_of(std::uint64_t bytes) noexcept {
  const auto doublings = static_cast<std::size_t>(std::bit_width(bytes / min_helped_copy));
  return std::clamp<std::size_t>(doublings, 1, copy_classes) - 1;
}

} // namespace

bool helped_copies::make(rma_engine& m, node_id peer, const offered_copy& c,
                         const copy_plan& plan) {
  if (plan.rival == plan.way) return make_by(plan.way, m, peer, c).is_made;
  way_choice& choice = choices_[static_cast<std::size_t>(c.is_put)][class_of(c.bytes)];
  const auto [way, is_timed] = choice.next();
  const time_point start = clock::now();
  const copy_result done = make_by(way == 0 ? plan.way : plan.rival, m, peer, c);
  // If the peer has not helped, it was busy with other work. The measured time then says nothing
  // about the strategy, so omit it.
  if (is_timed && done.is_made && done.is_helped) {
    const std::chrono::nanoseconds took = clock::now() - start;
    choice.add(way, c.bytes, static_cast<std::uint64_t>(took.count()));
  }
  return done.is_made;
}

copy_result helped_copies::make_by(copy_way way, rma_engine& m, node_id peer,
                                   const offered_copy& c) {
  if (way == copy_way::by_ring) return make_by_ring(m, peer, c);
  if (way == copy_way::by_both_ends) return make_by_both_ends(m, peer, c);
  return {copy_chunk(m, peer, c, {0, c.bytes}), true};
}

copy_result helped_copies::make_by_ring(rma_engine& m, node_id peer, const offered_copy& c) {
  constexpr std::uint64_t part_bytes = std::uint64_t{64} << 10;
  return owner_.pipelined.make(
      peer, c,
      {[&](offered_copy::chunk k) { return copy_chunk(m, peer, c, k); }, part_bytes, false});
}

copy_result helped_copies::make_by_both_ends(rma_engine& m, node_id peer,
                                             const offered_copy& wanted) {
  // Copy the first page alone, so that the peer is not asked for help if the system refuses the
  // memory.
  constexpr std::uint64_t page = 4096;
  if (!copy_chunk(m, peer, wanted, {0, page})) return {false, false};
  offered_copy c = wanted;
  c.ours += page;
  c.theirs += page;
  c.bytes -= page;
  c.chunk_bytes = chunk_bytes_of(c.bytes);
  chunk_offer* const offer = take_offer(peer);
  if (offer == nullptr) return {copy_chunk(m, peer, c, {0, c.bytes}), false};
  offer->open(c);
  bool is_made = true;
  std::uint64_t own = 0;
  ask(peer, *offer, c.bytes);
  while (is_made) {
    const std::optional<std::uint64_t> number = offer->take(c);
    if (!number) break;
    ++own;
    is_made = copy_chunk(m, peer, c, c.chunk_at(*number));
    // Ask the peer again after each chunk. The peer may have ended its help for other work, and may
    // now be idle.
    ask(peer, *offer, c.bytes);
  }
  const std::uint64_t by_peer = offer->close(c) - own;
  // If the peer has failed, its offer is never reused, because the peer may still access it.
  if (!wait_for_peer(owner_.engine(), peer, *offer, by_peer)) return {false, false};
  if (const auto refused = offer->refused(); refused && is_made) {
    is_made = copy_chunk(m, peer, c, c.chunk_at(*refused));
    // The peer cannot copy this memory, but this node can, so stop asking the peer.
    if (is_made) offer->give_up_peer();
  }
  give_back(peer, offer);
  return {is_made, by_peer != 0};
}

chunk_offer* helped_copies::take_offer(node_id peer) {
  {
    const std::lock_guard guard(mutex_);
    std::vector<chunk_offer*>& idle = idle_[peer];
    if (!idle.empty()) {
      chunk_offer* const last = idle.back();
      idle.pop_back();
      return last;
    }
  }
  try {
    // The offer is in memory that the peer can access. It is never freed, because a slow peer may
    // still access it later.
    return new (owner_.engine().heap().allocate(sizeof(chunk_offer), alignof(chunk_offer)))
        chunk_offer;
  } catch (const out_of_memory&) {
    return nullptr;
  }
}

void helped_copies::give_back(node_id peer, chunk_offer* offer) {
  const std::lock_guard guard(mutex_);
  idle_[peer].push_back(offer);
}

bool helped_copies::can_ask(node_id peer, bool wakes_peer) {
  // A thread that has no lane to the peer has to open one in order to ask. Lanes are scarce, and
  // calls need them, so only a few lanes are opened for this, and the thread does not wait for a
  // free lane.
  if (owner_.engine().find_lane(peer) == nullptr &&
      lanes_opened_.fetch_add(1, std::memory_order_relaxed) >= max_lanes_opened)
    return false;
  const am::requester& lane = owner_.engine().lane_to(peer, clock::now());
  return wakes_peer || !is_armed(lane.ends().out);
}

void helped_copies::ask(node_id peer, chunk_offer& offer, std::uint64_t bytes) {
  if (!offer.ask()) return;
  bool is_asked = false;
  try {
    if (can_ask(peer, bytes >= min_waking_copy)) {
      is_asked = try_post(node(owner_.job, peer), fn<&help_with_copy>, own_id(),
                          std::uint64_t{reinterpret_cast<std::uintptr_t>(&offer)});
    }
  } catch (const std::exception& e) {
    // Ignore the error, because the copy continues without the peer.
    log::debug(node_text(peer) + " cannot be asked to help with a copy: " + e.what());
  }
  if (!is_asked) offer.ask_later();
}

void help_with_copy(node_id maker, std::uint64_t offer) {
  am::engine& engine = current_copies().engine();
  rma_engine* const m = engine.rma_engine_for(maker);
  if (m == nullptr || offer % alignof(chunk_offer) != 0) return;
  const held_bytes memory = m->map(maker, offer, sizeof(chunk_offer));
  if (memory.here == nullptr) return;
  auto& shared = *std::launder(reinterpret_cast<chunk_offer*>(memory.here));
  const std::uint64_t made = shared.help(
      [&](const offered_copy& c, offered_copy::chunk chunk) {
        // Exchange the addresses and the direction, because the offer describes the copy as its
        // maker sees it.
        return copy_chunk(*m, maker, {c.theirs, c.ours, c.bytes, c.chunk_bytes, !c.is_put}, chunk);
      },
      [&] { return engine.workers().has_requests(); });
  note_chunks_for_others(made);
}

void note_chunks_for_others(std::uint64_t chunks) noexcept {
  chunks_for_others.fetch_add(chunks, std::memory_order_relaxed);
}

std::uint64_t chunks_copied_for_others() noexcept {
  return chunks_for_others.load(std::memory_order_relaxed);
}

} // namespace farcall::detail
