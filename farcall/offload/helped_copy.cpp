#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/helped_copy.hpp>
#include <farcall/offload/job_state.hpp>

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

/// By all threads of a job.
constexpr unsigned most_lanes_opened = 8;

/// Many enough that both end at about the same time; long enough that taking one, and the system
/// call, cost little.
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

/// Until the peer has ended with so many chunks; false when it has failed.
bool wait_for_peer(const am::engine& engine, node_id peer, const chunk_offer& offer,
                   std::uint64_t chunks) {
  constexpr unsigned spins = 1024; // as long as a chunk takes; then others may need the processor
  for (unsigned turn = 0; offer.ended_by_peer() < chunks; ++turn) {
    spin_pause();
    if (turn % 64 == 63 && engine.has_failed(peer)) return false;
    if (turn > spins) std::this_thread::yield();
  }
  return true;
}

/// Of lengths that are made alike.
std::size_t class_of(std::uint64_t bytes) noexcept {
  const auto doublings = static_cast<std::size_t>(std::bit_width(bytes / shortest_helped_copy));
  return std::clamp<std::size_t>(doublings, 1, copy_classes) - 1;
}

} // namespace

bool helped_copies::make(rma_engine& m, node_id peer, const offered_copy& c) {
  if (c.bytes >= shortest_copy_by_attach_only) return make_by_attach(m, peer, c).is_made;
  enum : std::size_t { by_attach, by_ring };
  way_choice& choice = choices_[static_cast<std::size_t>(c.is_put)][class_of(c.bytes)];
  const auto [way, is_timed] = choice.next();
  const time_point start = clock::now();
  const copy_result done = way == by_ring ? make_by_ring(m, peer, c) : make_by_attach(m, peer, c);
  // What the peer has not helped with tells of the peer, which is busy.
  if (is_timed && done.is_made && done.is_helped) {
    const std::chrono::nanoseconds took = clock::now() - start;
    choice.add(way, c.bytes, static_cast<std::uint64_t>(took.count()));
  }
  return done.is_made;
}

copy_result helped_copies::make_by_ring(rma_engine& m, node_id peer, const offered_copy& c) {
  constexpr std::uint64_t part_bytes = std::uint64_t{64} << 10;
  return job_.pipelined.make(
      peer, c,
      {[&](offered_copy::chunk k) { return copy_chunk(m, peer, c, k); }, part_bytes, false});
}

copy_result helped_copies::make_by_attach(rma_engine& m, node_id peer, const offered_copy& wanted) {
  if (wanted.bytes < shortest_copy_from_both_ends)
    return {copy_chunk(m, peer, wanted, {0, wanted.bytes}), true};
  // The peer is left alone where the system refuses it.
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
    // It has left for other work, and may be done with that.
    ask(peer, *offer, c.bytes);
  }
  const std::uint64_t by_peer = offer->close(c) - own;
  // The offer of one that has failed is not used again.
  if (!wait_for_peer(*job_.engine, peer, *offer, by_peer)) return {false, false};
  if (const auto refused = offer->refused(); refused && is_made) {
    is_made = copy_chunk(m, peer, c, c.chunk_at(*refused));
    // It is the peer that cannot, not the memory.
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
    // In memory that the peer sees, and as long as that: the peer may come late.
    return new (job_.engine->heap().allocate(sizeof(chunk_offer), alignof(chunk_offer)))
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
  // Calls need the lanes that there are: threads that only copy get a few, and wait for none.
  if (job_.engine->find_lane(peer) == nullptr &&
      lanes_opened_.fetch_add(1, std::memory_order_relaxed) >= most_lanes_opened)
    return false;
  const am::requester& lane = job_.engine->lane_to(peer, clock::now());
  return wakes_peer || !is_armed(lane.ends().out);
}

void helped_copies::ask(node_id peer, chunk_offer& offer, std::uint64_t bytes) {
  if (!offer.ask()) return;
  bool is_asked = false;
  try {
    if (can_ask(peer, bytes >= shortest_waking_copy)) {
      is_asked = try_post(node(job_, peer), fn<&help_with_copy>, own_id(),
                          std::uint64_t{reinterpret_cast<std::uintptr_t>(&offer)});
    }
  } catch (const std::exception& e) {
    // The copy does without.
    log::debug(node_text(peer) + " cannot be asked to help with a copy: " + e.what());
  }
  if (!is_asked) offer.ask_later();
}

void help_with_copy(node_id maker, std::uint64_t offer) {
  job_state& job = current_job();
  rma_engine* const m = job.engine->rma_engine_for(maker);
  std::byte* const here = m == nullptr ? nullptr : m->map(maker, offer, sizeof(chunk_offer));
  if (here == nullptr || offer % alignof(chunk_offer) != 0) return;
  auto& shared = *std::launder(reinterpret_cast<chunk_offer*>(here));
  const std::uint64_t made = shared.help(
      [&](const offered_copy& c, offered_copy::chunk chunk) {
        // From here it goes the other way.
        return copy_chunk(*m, maker, {c.theirs, c.ours, c.bytes, c.chunk_bytes, !c.is_put}, chunk);
      },
      [&] { return job.engine->has_requests(); });
  note_chunks_for_others(made);
}

void note_chunks_for_others(std::uint64_t chunks) noexcept {
  chunks_for_others.fetch_add(chunks, std::memory_order_relaxed);
}

std::uint64_t chunks_copied_for_others() noexcept {
  return chunks_for_others.load(std::memory_order_relaxed);
}

} // namespace farcall::detail
