// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/message_rma.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

namespace farcall {
namespace {

/// Threshold of the engine in bytes: shorter copies are quicker if they are sent as messages.
constexpr std::uint64_t min_copy = 8192;
/// Largest number of pieces that are in flight for one copy.
constexpr unsigned max_pieces = 4;
/// Size of pieces that go through bounce blocks. Other pieces are longer. The engine keeps some
/// blocks for reuse, because a fresh block costs one page fault for each of its pages.
constexpr std::uint32_t bounce_bytes = std::uint32_t{256} << 10;
constexpr std::size_t max_kept_blocks = 8;

/// Limits for a copy that polls and finds nothing. After `spinning`, it yields the CPU between two
/// polls, which may take a time slice. After `eagerness`, it sleeps between two polls, for at most
/// `poll_interval` each time.
constexpr std::chrono::microseconds spinning{50};
constexpr std::chrono::microseconds eagerness{200};
constexpr std::chrono::milliseconds poll_interval{1};

} // namespace

/// State of the copy that one call makes. The state is on the caller's stack.
struct message_rma::copy {
  node_id peer;
  std::uint64_t there;
  std::byte* here;
  std::uint64_t bytes;
  bool is_put;
  time_point deadline;
  bool is_bounced = false;
  std::uint64_t done = 0; ///< number of bytes for which pieces have been started
  unsigned under_way = 0;
  bool has_failed = false;
};

message_rma::message_rma(message_link& link, std::vector<memory_window> own)
    : link_(&link), own_(std::move(own)) {
  kept_blocks_.reserve(max_kept_blocks);
}

message_rma::~message_rma() = default;

std::uint64_t message_rma::threshold() const noexcept { return min_copy; }

bool message_rma::check_own(node_id peer, std::uint64_t address,
                            std::uint64_t bytes) const noexcept {
  const bool is_own = std::any_of(own_.begin(), own_.end(), [&](const memory_window& w) {
    const std::uint64_t offset = address - w.address;
    return offset <= w.bytes && bytes <= w.bytes - offset;
  });
  if (!is_own) {
    static auto& lines = *new log::limited_log("more copies were refused");
    lines.error(node_text(peer) + " asks for a copy of memory that is not shared; refused");
  }
  return is_own;
}

bool message_rma::put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                      time_point deadline) noexcept {
  copy c{peer, to, const_cast<std::byte*>(from), bytes, true, deadline};
  return run(c);
}

bool message_rma::get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                      time_point deadline) noexcept {
  copy c{peer, from, to, bytes, false, deadline};
  return run(c);
}

bool message_rma::run(copy& c) noexcept {
  if (is_forked()) return false;
  std::unique_lock guard(link_->mutex());
  if (!is_inside(c.peer, c.there, c.bytes)) return false;
  time_point idle_since{};
  try {
    // Wait for earlier puts that were given up. Their bytes may still arrive, and would then
    // overwrite the bytes of this copy.
    if (!wait_for_late_puts(guard, c.peer, c.deadline)) return false;
    c.is_bounced = c.deadline != no_deadline;
    while (c.under_way != 0 || (c.done != c.bytes && !c.has_failed)) {
      while (c.done != c.bytes && c.under_way < max_pieces && !c.has_failed) {
        if (!start_piece(c)) c.has_failed = true;
      }
      if (c.under_way == 0) break;
      if (c.deadline != no_deadline && clock::now() >= c.deadline) {
        give_up(c);
        failures_[c.peer] = "the peer has kept it from going on";
        return false;
      }
      wait(guard, idle_since, c.deadline);
    }
    if (c.has_failed) failures_[c.peer] = "the peer has refused it, or is gone";
    return !c.has_failed;
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more copies have failed");
    lines.warning("a copy to or from " + node_text(c.peer) + ": " + e.what());
    c.has_failed = true;
    give_up(c);
    // Wait for the pieces without bounce blocks. For these pieces the network still reads or writes
    // the caller's memory, which the caller may release after the return.
    while (c.under_way != 0)
      wait(guard, idle_since, no_deadline);
    return false;
  }
}

/// Polls the link, and sleeps if polls have found nothing for a while.
void message_rma::wait(std::unique_lock<std::mutex>& guard, time_point& idle_since,
                       time_point deadline) {
  if (link_->poll() != 0) {
    idle_since = {};
    return;
  }
  const time_point now = clock::now();
  if (idle_since == time_point{}) idle_since = now;
  guard.unlock();
  if (now - idle_since >= eagerness) {
    link_->arm();
    guard.lock();
    changed_.wait_until(guard, std::min(deadline, now + poll_interval));
    return;
  }
  if (now - idle_since < spinning) {
    spin_pause();
  } else {
    ::sched_yield();
  }
  guard.lock();
}

bool message_rma::start_piece(copy& c) {
  message_peer& to = connected(c.peer);
  if (to.has_failed || to.is_gone) return false;
  auto made = make_piece();
  piece& p = *made;
  p.of = &c;
  p.to = &to;
  p.id = next_id_++;
  p.there = c.there + c.done;
  p.bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(c.is_bounced ? bounce_bytes : piece_bytes, c.bytes - c.done));
  p.is_put = c.is_put;
  p.memory = c.here + c.done;
  if (c.is_bounced) {
    if (kept_blocks_.empty()) {
      p.bounce = std::make_unique_for_overwrite<std::byte[]>(bounce_bytes);
    } else {
      p.bounce = std::move(kept_blocks_.back());
      kept_blocks_.pop_back();
    }
    if (c.is_put) {
      std::memcpy(p.bounce.get(), p.memory, p.bytes);
    } else {
      p.target = p.memory;
    }
    p.memory = p.bounce.get();
  }
  pieces_.emplace(p.id, std::move(made));
  c.done += p.bytes;
  ++c.under_way;
  start(p);
  return true;
}

void message_rma::was_sent(piece& p, bool is_good) noexcept {
  p.is_with_network = false;
  // If the piece was sent, the peer's reply ends it, which may have arrived already. If the piece
  // was not sent, it ends now, because no reply will come.
  if (is_good) {
    release_if_unused(p);
  } else {
    end(p, false);
  }
}

void message_rma::end(piece& p, bool is_good) noexcept {
  if (!p.has_ended) p.is_good = is_good;
  p.has_ended = true;
  release_if_unused(p);
}

/// Detaches a piece from its copy, which no longer waits for the piece.
void message_rma::leave(piece& p) noexcept {
  --p.of->under_way;
  p.of = nullptr;
  changed_.notify_all();
}

void message_rma::release_if_unused(piece& p) noexcept {
  if (!p.has_ended || p.is_with_network) return;
  if (p.of != nullptr) {
    if (p.is_good && p.target != nullptr) std::memcpy(p.target, p.memory, p.bytes);
    if (!p.is_good) p.of->has_failed = true;
    leave(p);
  }
  if (p.bounce && kept_blocks_.size() < max_kept_blocks) {
    kept_blocks_.push_back(std::move(p.bounce)); // reserved in the constructor
  }
  pieces_.erase(p.id);
  changed_.notify_all();
}

/// Called for a copy that ends early. Detaches its pieces with bounce blocks, so that the copy no
/// longer waits for them. The pieces stay, because the network may still use their blocks.
void message_rma::give_up(copy& c) noexcept {
  for (auto& [id, p] : pieces_) {
    if (p->of == &c && p->bounce) leave(*p);
  }
}

message_rma::piece* message_rma::find(std::uint64_t id, node_id peer) noexcept {
  const auto at = pieces_.find(id);
  if (at == pieces_.end() || at->second->to->node != peer || at->second->has_ended) return nullptr;
  return at->second.get();
}

bool message_rma::has_late_puts(node_id peer) const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& p) {
    return p.second->of == nullptr && p.second->is_put && !p.second->has_ended &&
           p.second->to->node == peer;
  });
}

/// Waits until no put that was given up can change the peer's memory any more. Releases the lock
/// while it waits.
bool message_rma::wait_for_late_puts(std::unique_lock<std::mutex>& guard, node_id peer,
                                     time_point deadline) noexcept {
  time_point idle_since{};
  while (has_late_puts(peer)) {
    if (clock::now() >= deadline) return false;
    wait(guard, idle_since, deadline);
  }
  return true;
}

bool message_rma::settle(node_id peer, time_point deadline) noexcept {
  if (is_forked()) return true;
  std::unique_lock guard(link_->mutex());
  return wait_for_late_puts(guard, peer, deadline);
}

std::string message_rma::failure(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(link_->mutex());
  if (!is_inside(peer, address, bytes)) return {};
  const auto at = failures_.find(peer);
  return at == failures_.end() ? std::string() : at->second;
}

void message_rma::end_all(node_id peer) noexcept {
  std::vector<piece*> all;
  for (const auto& [id, p] : pieces_) {
    if (p->to->node == peer) all.push_back(p.get());
  }
  for (piece* const p : all) {
    if (!p->is_with_network) {
      end(*p, false);
      continue;
    }
    if (p->of != nullptr && may_stay(*p)) {
      p->of->has_failed = true;
      leave(*p);
    }
    end(*p, false);
    withdraw(*p);
  }
}

} // namespace farcall
