// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/helped_copy.hpp>
#include <farcall/copy/pipelined_copy.hpp>
#include <farcall/memory/access_check.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_kernels.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <thread>

namespace farcall::detail {
namespace {

/// Maximum number of rings of a node; each ring takes half a MiB. A ring is never freed, because a
/// slow peer may still access it after a copy, but it is reused for later copies with the same
/// peer. If a peer fails during a copy, its ring is never used again.
constexpr std::size_t max_rings = 64;

/// Returns the length of the chunks of a copy. It is so short that both ends work most of the time,
/// and so long that the cost of handing over a chunk is small.
std::uint64_t slot_bytes_used_for(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t page = 4096;
  constexpr std::uint64_t shortest = std::uint64_t{8} << 10;
  constexpr std::uint64_t parts = 8;
  return std::clamp<std::uint64_t>(bytes / parts / page * page, shortest, copy_ring::slot_bytes);
}

/// Fills a slot by streaming stores, because the other end, which may use other caches, reads it
/// next.
void fill_slot(std::byte* slot, const std::byte* from, std::uint64_t bytes) noexcept {
  streaming_copy().copy(slot, from, bytes);
}

void empty_slot(std::byte* to, const std::byte* slot, std::uint64_t bytes, bool is_large) noexcept {
  if (is_large) {
    streaming_copy().copy(to, slot, bytes);
  } else {
    copy_bytes(to, slot, bytes);
  }
}

/// Waits one iteration for the other end: first spins, later yields, because the other end may need
/// this CPU.
void wait_a_turn(std::uint64_t turn) noexcept {
  constexpr std::uint64_t spins = 1024; // the spins last longer than a chunk takes
  if (turn < spins) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

} // namespace

class pipelined_copies::one_copy {
 public:
  one_copy(pipelined_copies& all, node_id peer, const offered_copy& c, const other_way& other,
           ring_end& end)
      : all_(all), peer_(peer), c_(c), other_(other), end_(end), ring_(*end.ring),
        is_large_(c.bytes >= large_copy_from),
        number_(all.copies_.fetch_add(1, std::memory_order_relaxed)), retired_(end.posted) {
    c_.chunk_bytes = slot_bytes_used_for(c.bytes);
  }

  /// Copies like make(). The caller must call settle() afterwards, also after an exception.
  [[nodiscard]] bool run() {
    ring_.open();
    ask();
    for (unsigned idle = 0; retired_ != end_.posted || next_ < c_.bytes;) {
      const std::uint64_t before = retired_;
      if (!retire()) return false;
      if (retired_ != before) idle = 0;
      if (ring_.is_attended() && idle < max_wait) {
        end_.has_come = true;
        if (next_ < c_.bytes && end_.posted - retired_ < copy_ring::slots) {
          if (!post_next()) return false;
          idle = 0;
        } else {
          wait_a_turn(++idle);
        }
        continue;
      }
      idle = 0;
      // Check for a failure, because a peer that has failed while it served the ring seems to serve
      // it still.
      if (all_.owner_.engine().has_failed(peer_)) return false;
      // If the peer does not serve the ring, wait for it a short time before copying a part without
      // it. If the other strategy needs the peer, too, wait each time. Otherwise, a peer for which
      // a wait was in vain is busy, so don't wait again until it has served the ring.
      if (!ring_.is_attended() && (other_.needs_peer || end_.has_come)) {
        end_.has_come = wait_for_peer();
        if (end_.has_come) continue;
      }
      if (!go_on_alone()) return false;
      ask();
    }
    return true;
  }

  /// Ends the copy, also one that has failed: takes back the slots that the peer has not taken, and
  /// waits until the peer has finished the others. Returns false if the peer has failed, so that
  /// the ring must not be reused.
  [[nodiscard]] bool settle() noexcept {
    while (const auto number = ring_.take_back())
      is_ours_[*number % copy_ring::slots] = true;
    ring_.close();
    for (; retired_ != end_.posted; ++retired_) {
      if (is_ours_[retired_ % copy_ring::slots]) continue;
      for (unsigned turn = 0; ring_.ended_by_peer() == end_.ended_by_peer; ++turn) {
        wait_a_turn(turn);
        if (turn % 64 == 63 && all_.owner_.engine().has_failed(peer_)) return false;
      }
      ++end_.ended_by_peer;
    }
    return true;
  }

  [[nodiscard]] bool is_helped() const noexcept { return bytes_by_peer_ >= c_.bytes / 2; }

 private:
  /// Maximum number of iterations in a row that wait for a peer that is serving the ring. Together
  /// they last some tens of µs, which is longer than a chunk takes. If they pass without progress,
  /// the peer's CPU is probably doing other work.
  static constexpr unsigned max_wait = 2048;

  void ask() {
    is_asked_ = !end_.is_given_up &&
                all_.ask(peer_, ring_, other_.needs_peer || c_.bytes >= min_waking_copy);
  }

  /// Waits for a short time until the peer serves the ring. Returns false if the peer was not
  /// asked, or does not begin to serve in this time.
  [[nodiscard]] bool wait_for_peer() const {
    if (!is_asked_) return false;
    // Wait as long as a call to a polling peer takes. If the copy needs the peer, wait as long as a
    // call to a sleeping peer takes.
    const auto spin_time =
        other_.needs_peer ? std::chrono::microseconds(200) : std::chrono::microseconds(2);
    const time_point until = clock::now() + spin_time;
    for (unsigned turn = 1; !ring_.is_attended(); ++turn) {
      wait_a_turn(turn);
      if (turn % 16 == 0 && clock::now() >= until) return false;
    }
    return true;
  }

  [[nodiscard]] std::byte* here(offered_copy::chunk k) const noexcept {
    return reinterpret_cast<std::byte*>(c_.ours + k.offset);
  }

  /// Posts the next chunk in a slot. If the bytes go to the peer, fills the slot before. If this
  /// node's CPU cannot access the chunk's memory, copies the chunk by the other strategy instead;
  /// returns false if that fails, too.
  [[nodiscard]] bool post_next() {
    const offered_copy::chunk k{next_, std::min(c_.chunk_bytes, c_.bytes - next_)};
    next_ += k.bytes;
    const bool is_ours =
        c_.is_put ? check_.can_read(here(k), k.bytes) : check_.can_write(here(k), k.bytes);
    if (!is_ours) return other_.copy(k);
    if (c_.is_put) fill_slot(ring_.slot(end_.posted), here(k), k.bytes);
    chunks_[end_.posted % copy_ring::slots] = k;
    is_ours_[end_.posted % copy_ring::slots] = false;
    ring_.post(end_.posted++, {.address = c_.theirs + k.offset,
                               .bytes = k.bytes,
                               .copy = number_,
                               .is_put = c_.is_put,
                               .is_large = is_large_});
    return true;
  }

  /// Retires finished slots in their order. If the bytes come from the peer, empties the slot. If
  /// the peer has refused the chunk, copies the chunk by the other strategy; returns false if that
  /// fails.
  [[nodiscard]] bool retire() {
    for (; retired_ != end_.posted; ++retired_) {
      if (is_ours_[retired_ % copy_ring::slots]) continue;
      if (ring_.ended_by_peer() == end_.ended_by_peer) break;
      ++end_.ended_by_peer;
      const offered_copy::chunk k = chunks_[retired_ % copy_ring::slots];
      if (ring_.refused() == retired_) {
        is_ours_[retired_ % copy_ring::slots] = true; // settled in any case
        if (!other_.copy(k)) return false;
        // The peer cannot copy this memory, but this node can, so stop asking the peer.
        end_.is_given_up = true;
        continue;
      }
      if (!c_.is_put) empty_slot(here(k), ring_.slot(retired_), k.bytes, is_large_);
      bytes_by_peer_ += k.bytes;
    }
    return true;
  }

  /// Copies a part by the other strategy, because the peer does not serve the ring. Prefers a slot
  /// that was posted and can be taken back. Returns false if the part cannot be copied.
  [[nodiscard]] bool go_on_alone() {
    if (const auto number = ring_.take_back()) {
      is_ours_[*number % copy_ring::slots] = true;
      return other_.copy(chunks_[*number % copy_ring::slots]);
    }
    if (next_ < c_.bytes) {
      const offered_copy::chunk k{next_, std::min(other_.part_bytes, c_.bytes - next_)};
      next_ += k.bytes;
      return other_.copy(k);
    }
    std::this_thread::yield(); // the peer has taken a slot, and has not finished it yet
    return true;
  }

  pipelined_copies& all_;
  node_id peer_;
  offered_copy c_;
  const other_way& other_;
  ring_end& end_;
  copy_ring& ring_;
  bool is_large_;
  bool is_asked_ = false;
  std::uint64_t number_;

  access_check check_;     ///< checks the memory here
  std::uint64_t next_ = 0; ///< offset of the first byte that is neither posted nor copied
  std::uint64_t retired_;  ///< number of the first slot that is not retired
  std::array<offered_copy::chunk, copy_ring::slots> chunks_{};
  std::array<bool, copy_ring::slots> is_ours_{}; ///< for each slot, true if the peer does not work
                                                 ///< on it
  std::uint64_t bytes_by_peer_ = 0;
};

copy_result pipelined_copies::make(node_id peer, const offered_copy& c, const other_way& other) {
  std::optional<ring_end> end = take_ring(peer);
  if (!end) return {other.copy({0, c.bytes}), false};
  if (end->is_given_up) {
    give_back(peer, *end);
    return {other.copy({0, c.bytes}), false};
  }
  one_copy copy(*this, peer, c, other, *end);
  bool is_made = false;
  try {
    is_made = copy.run();
  } catch (...) {
    if (copy.settle()) give_back(peer, *end);
    throw;
  }
  if (!copy.settle()) return {false, false};
  give_back(peer, *end);
  return {is_made, copy.is_helped()};
}

std::optional<pipelined_copies::ring_end> pipelined_copies::take_ring(node_id peer) {
  {
    const std::lock_guard guard(mutex_);
    std::vector<ring_end>& idle = idle_[peer];
    if (!idle.empty()) {
      const ring_end last = idle.back();
      idle.pop_back();
      return last;
    }
    if (rings_ == max_rings) return std::nullopt;
    ++rings_;
  }
  try {
    // The ring is in memory that the peer can access. It is never freed, because a slow peer may
    // still access it later.
    constexpr std::size_t page = 4096;
    std::byte* const at = owner_.engine().heap().allocate(copy_ring::bytes_with_slots(), page);
    return ring_end{new (at) copy_ring};
  } catch (const out_of_memory&) {
    const std::lock_guard guard(mutex_);
    --rings_;
    return std::nullopt;
  }
}

void pipelined_copies::give_back(node_id peer, const ring_end& end) {
  const std::lock_guard guard(mutex_);
  idle_[peer].push_back(end);
}

bool pipelined_copies::ask(node_id peer, copy_ring& ring, bool wakes_peer) {
  if (!ring.ask()) return true;
  bool is_asked = false;
  try {
    if (owner_.helped.can_ask(peer, wakes_peer)) {
      is_asked = try_post(node(owner_.job, peer), fn<&help_by_ring>, own_id(),
                          std::uint64_t{reinterpret_cast<std::uintptr_t>(&ring)});
    }
  } catch (const std::exception& e) {
    // Ignore the error, because the copy continues without the peer.
    log::debug(node_text(peer) + " cannot be asked to help with a copy: " + e.what());
  }
  if (!is_asked) ring.ask_later();
  return is_asked;
}

void help_by_ring(node_id maker, std::uint64_t ring) {
  am::engine& engine = current_copies().engine();
  rma_engine* const m = engine.rma_engine_for(maker);
  if (m == nullptr || ring % alignof(copy_ring) != 0) return;
  const held_bytes memory = m->map(maker, ring, copy_ring::bytes_with_slots());
  if (memory.here == nullptr) return;
  // Maximum number of iterations in a row without a posted slot, which together last some tens of
  // µs. If they pass, the maker is probably doing other work, so stop serving.
  constexpr std::uint64_t max_idle = 2048;
  std::optional<access_check> check;
  std::uint64_t checked = 0; // number of the copy whose memory was checked last
  auto& shared = *std::launder(reinterpret_cast<copy_ring*>(memory.here));
  const std::uint64_t made = shared.serve(
      [&](std::byte* slot, const copy_ring::order& what) {
        auto* const here = reinterpret_cast<std::byte*>(what.address);
        if (!check || checked != what.copy) check.emplace();
        checked = what.copy;
        if (what.is_put) {
          if (!check->can_write(here, what.bytes)) return false;
          empty_slot(here, slot, what.bytes, what.is_large);
        } else {
          if (!check->can_read(here, what.bytes)) return false;
          fill_slot(slot, here, what.bytes);
        }
        return true;
      },
      [&] { return engine.workers().has_requests(); },
      [](std::uint64_t turns) {
        wait_a_turn(turns);
        return turns < max_idle;
      });
  note_chunks_for_others(made);
}

} // namespace farcall::detail
