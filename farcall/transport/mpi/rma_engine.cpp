#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/mpi/rma_engine.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

namespace farcall::mpi {
namespace {

/// Shorter copies are quicker as messages.
constexpr std::uint64_t shortest_copy = 8192;
/// One message of MPI's. A deadline, and other lanes, wait for one of them at most.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
/// How many are under way for one copy.
constexpr unsigned most_pieces = 4;
/// Pieces that go through memory of the engine's are shorter. So many blocks are kept: fresh ones
/// would cost a page fault for each page.
constexpr std::uint64_t bounce_bytes = std::uint64_t{256} << 10;
constexpr std::size_t most_kept_blocks = 8;
/// Of nodes that are not admitted yet: more than they can have under way.
constexpr std::size_t most_early = 4096;

/// How long a copy polls without anything to do before it offers the processor to others, then
/// before it sleeps, and how long it then sleeps at most.
constexpr std::chrono::microseconds spinning{50};
constexpr std::chrono::microseconds eagerness{200};
constexpr std::chrono::milliseconds look_interval{1};

} // namespace

/// What one call copies, on its stack.
struct message_rma::copy {
  node_id peer;
  std::uint64_t there;
  std::byte* here;
  std::uint64_t bytes;
  bool is_put;
  time_point deadline;
  bool is_bounced = false;
  std::uint64_t done = 0; ///< up to here pieces were started
  unsigned under_way = 0;
  bool has_failed = false;
};

struct message_rma::piece {
  message_rma* engine = nullptr;
  copy* of = nullptr; ///< null: the copy was given up
  connection* to = nullptr;
  copy_header header;
  bool is_put = false;
  std::byte* memory = nullptr; ///< where MPI reads or writes
  std::byte* target = nullptr; ///< of a get that is bounced: where the bytes go in the end
  std::unique_ptr<std::byte[]> bounce;
  engine::transfer transfer;
  bool is_with_mpi = false; ///< it reads or writes `memory`
  bool has_ended = false;   ///< the peer has answered, or will not
  bool is_good = false;
};

/// Bytes that a peer has asked for, or that come into a window of ours.
struct message_rma::answer {
  message_rma* engine = nullptr;
  connection* to = nullptr;
  std::uint64_t id = 0;
  bool is_put = false;
  std::unique_ptr<std::byte[]> instead; ///< where refused bytes go
  engine::transfer transfer;
};

message_rma::message_rma(engine& by, node_id self, std::vector<memory_window> own,
                         peer_table& peers)
    : engine_(&by), self_(self), own_(std::move(own)), peers_(&peers) {
  kept_blocks_.reserve(most_kept_blocks);
}

message_rma::~message_rma() = default;

std::uint64_t message_rma::threshold() const noexcept { return shortest_copy; }

bool message_rma::is_own(std::uint64_t address, std::uint64_t bytes) const noexcept {
  return std::any_of(own_.begin(), own_.end(), [&](const memory_window& w) {
    const std::uint64_t offset = address - w.address;
    return offset <= w.bytes && bytes <= w.bytes - offset;
  });
}

// ---- our side of copies that we ask for ---------------------------------------------------------

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
  if (engine_->is_forked() || !peers_->is_inside(c.peer, c.there, c.bytes)) return false;
  std::unique_lock guard(engine_->mutex());
  time_point idle_since{};
  try {
    // What is still on its way would be written over what we put now.
    if (!wait_for_late_puts(guard, c.peer, c.deadline)) return false;
    c.is_bounced = c.deadline != no_deadline;
    while (c.under_way != 0 || (c.done != c.bytes && !c.has_failed)) {
      while (c.done != c.bytes && c.under_way < most_pieces && !c.has_failed) {
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
    log::warning("a copy to or from " + node_text(c.peer) + ": " + e.what());
    c.has_failed = true;
    give_up(c);
    // What is not bounced, MPI still reads or writes.
    while (c.under_way != 0)
      wait(guard, idle_since, no_deadline);
    return false;
  }
}

/// Polls, or sleeps where there has been nothing for a while.
void message_rma::wait(std::unique_lock<std::mutex>& guard, time_point& idle_since,
                       time_point deadline) {
  if (engine_->poll() != 0) {
    idle_since = {};
    return;
  }
  const time_point now = clock::now();
  if (idle_since == time_point{}) idle_since = now;
  if (now - idle_since < eagerness) {
    guard.unlock();
    if (now - idle_since < spinning) {
      spin_pause();
    } else {
      ::sched_yield();
    }
    guard.lock();
    return;
  }
  engine_->arm();
  changed_.wait_until(guard, std::min(deadline, now + look_interval));
}

bool message_rma::start_piece(copy& c) {
  connection& to = peers_->connected(c.peer);
  const std::uint64_t bytes = std::min(c.is_bounced ? bounce_bytes : piece_bytes, c.bytes - c.done);
  auto made = std::make_unique<piece>();
  piece& p = *made;
  p.engine = this;
  p.of = &c;
  p.to = &to;
  p.is_put = c.is_put;
  const copy_way way = c.is_put ? copy_way::put : copy_way::get;
  p.header = {to.key,
              self_,
              copy_status::done,
              next_id_++,
              c.there + c.done,
              static_cast<std::uint32_t>(bytes),
              next_tag(way)};
  p.memory = c.here + c.done;
  p.transfer = {&message_rma::on_piece, &p};
  if (c.is_bounced) {
    if (kept_blocks_.empty()) {
      p.bounce = std::make_unique_for_overwrite<std::byte[]>(bounce_bytes);
    } else {
      p.bounce = std::move(kept_blocks_.back());
      kept_blocks_.pop_back();
    }
    if (c.is_put) {
      std::memcpy(p.bounce.get(), p.memory, bytes);
    } else {
      p.target = p.memory;
    }
    p.memory = p.bounce.get();
  }
  pieces_.emplace(p.header.id, std::move(made));
  c.done += bytes;
  ++c.under_way;
  p.is_with_mpi = true;
  // The receive first, so that the bytes need not wait for it.
  const bool is_posted =
      c.is_put ? engine_->post(to, static_cast<std::uint16_t>(message::put),
                               std::as_bytes(std::span(&p.header, 1)))
               : engine_->start_receive(p.transfer, to, p.header.tag, p.memory, bytes);
  if (!is_posted) {
    p.is_with_mpi = false;
    end(p, false);
    return true;
  }
  if (c.is_put) {
    if (!engine_->start_send(p.transfer, to, p.header.tag, p.memory, bytes)) {
      p.is_with_mpi = false;
      end(p, false);
    }
  } else if (!engine_->post(to, static_cast<std::uint16_t>(message::get),
                            std::as_bytes(std::span(&p.header, 1)))) {
    engine_->cancel(p.transfer);
  }
  return true;
}

void message_rma::on_piece(void* data, bool is_good) noexcept {
  auto& p = *static_cast<piece*>(data);
  p.is_with_mpi = false;
  if (p.is_put && is_good) {
    // The answer ends it.
    p.engine->release_if_unused(p);
  } else {
    p.engine->end(p, is_good && !p.has_ended);
  }
}

/// The peer has answered, or will not.
void message_rma::end(piece& p, bool is_good) noexcept {
  if (!p.has_ended) p.is_good = is_good;
  p.has_ended = true;
  release_if_unused(p);
}

/// Its copy goes on without it.
void message_rma::leave(piece& p) noexcept {
  --p.of->under_way;
  p.of = nullptr;
  changed_.notify_all();
}

void message_rma::release_if_unused(piece& p) noexcept {
  if (!p.has_ended || p.is_with_mpi) return;
  if (p.of != nullptr) {
    if (p.is_good && p.target != nullptr) std::memcpy(p.target, p.memory, p.header.bytes);
    if (!p.is_good) p.of->has_failed = true;
    leave(p);
  }
  if (p.bounce && kept_blocks_.size() < most_kept_blocks) {
    kept_blocks_.push_back(std::move(p.bounce)); // reserved in the constructor
  }
  pieces_.erase(p.header.id);
  changed_.notify_all();
}

/// Bounced pieces of the copy go on without it.
void message_rma::give_up(copy& c) noexcept {
  for (auto& [id, p] : pieces_) {
    if (p->of != &c || !p->bounce) continue;
    leave(*p);
  }
}

bool message_rma::has_late_puts(node_id peer) const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& p) {
    return p.second->of == nullptr && p.second->is_put && !p.second->has_ended &&
           p.second->to->node == peer;
  });
}

/// Until no put that was given up can change the peer's memory. With the lock, which it lets go.
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
  if (engine_->is_forked()) return true;
  std::unique_lock guard(engine_->mutex());
  return wait_for_late_puts(guard, peer, deadline);
}

std::string message_rma::failure(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(engine_->mutex());
  if (!peers_->is_inside(peer, address, bytes)) return {};
  const auto at = failures_.find(peer);
  return at == failures_.end() ? std::string() : at->second;
}

void message_rma::forget(node_id peer) noexcept {
  std::vector<piece*> all;
  for (const auto& [id, p] : pieces_) {
    if (p->to->node == peer) all.push_back(p.get());
  }
  for (piece* const p : all) {
    if (p->is_with_mpi) {
      // A receive can be taken back, unless its bytes are coming. A send to a process that is gone
      // stays with MPI for ever, which reads nothing for it any more.
      if (!p->is_put) engine_->cancel(p->transfer);
      if (p->of != nullptr) {
        p->of->has_failed = true;
        leave(*p);
      }
    }
    end(*p, false);
  }
  for (const auto& [a, owned] : answers_) {
    if (a->is_put && a->to->node == peer) engine_->cancel(a->transfer);
  }
}

// ---- what peers ask for, and answer -------------------------------------------------------------

void message_rma::take(message kind, int rank, const copy_header& h) noexcept {
  try {
    if (kind == message::done) {
      take_done(h);
      return;
    }
    if (!peers_->is_admitted(h.from) && early_.size() < most_early) {
      // It has had our card before we have had its.
      early_.push_back({kind, rank, h});
      return;
    }
    connection& from = peers_->connected(h.from);
    const copy_way way = kind == message::put ? copy_way::put : copy_way::get;
    if (from.rank != rank || !is_copy_tag(h.tag, way) || h.bytes > piece_bytes) {
      log::error(node_text(h.from) + " asks for an impossible copy; refused");
      return;
    }
    kind == message::put ? take_put(from, h) : take_get(from, h);
  } catch (const std::exception& e) {
    log::warning(std::string("a copy cannot be answered: ") + e.what());
  }
}

void message_rma::resume(node_id peer) noexcept {
  const auto its = std::partition(early_.begin(), early_.end(),
                                  [&](const early& e) { return e.header.from != peer; });
  // Admitted, so that none is put back.
  std::for_each(its, early_.end(), [&](const early& e) { take(e.kind, e.rank, e.header); });
  early_.erase(its, early_.end());
}

void message_rma::take_done(const copy_header& h) noexcept {
  const auto at = pieces_.find(h.id);
  if (at == pieces_.end()) return;
  piece& p = *at->second;
  if (p.to->node != h.from || p.has_ended) return;
  if (p.is_put) {
    end(p, h.status == copy_status::done);
  } else if (h.status != copy_status::done) {
    // No bytes come. Once MPI has taken the receive back, the piece ends.
    p.has_ended = true;
    engine_->cancel(p.transfer);
  }
}

void message_rma::take_put(connection& from, const copy_header& h) {
  auto made = std::make_unique<answer>();
  answer& a = *made;
  a.engine = this;
  a.to = &from;
  a.id = h.id;
  a.is_put = true;
  a.transfer = {&message_rma::on_answer, &a};
  auto* to = reinterpret_cast<std::byte*>(h.address);
  if (!is_own(h.address, h.bytes)) {
    log::error(node_text(h.from) + " asks for a copy of memory that is not shared; refused");
    // They are on their way, and stay with MPI until somebody takes them.
    a.instead = std::make_unique_for_overwrite<std::byte[]>(h.bytes);
    to = a.instead.get();
  }
  answers_.emplace(&a, std::move(made));
  if (engine_->start_receive(a.transfer, from, h.tag, to, h.bytes)) return;
  answers_.erase(&a);
  reply(from, h.id, copy_status::refused);
}

void message_rma::take_get(connection& from, const copy_header& h) {
  if (!is_own(h.address, h.bytes)) {
    log::error(node_text(h.from) + " asks for a copy of memory that is not shared; refused");
    reply(from, h.id, copy_status::refused);
    return;
  }
  auto made = std::make_unique<answer>();
  answer& a = *made;
  a.engine = this;
  a.to = &from;
  a.transfer = {&message_rma::on_answer, &a};
  answers_.emplace(&a, std::move(made));
  if (engine_->start_send(a.transfer, from, h.tag, reinterpret_cast<const std::byte*>(h.address),
                          h.bytes)) {
    return;
  }
  answers_.erase(&a);
  reply(from, h.id, copy_status::refused);
}

void message_rma::on_answer(void* data, bool is_good) noexcept {
  auto* const a = static_cast<answer*>(data);
  message_rma& self = *a->engine;
  if (a->is_put) {
    self.reply(*a->to, a->id, is_good && !a->instead ? copy_status::done : copy_status::refused);
  }
  self.answers_.erase(a);
}

void message_rma::reply(connection& to, std::uint64_t id, copy_status status) noexcept {
  const copy_header h{to.key, self_, status, id, 0, 0, 0};
  (void)engine_->post(to, static_cast<std::uint16_t>(message::done),
                      std::as_bytes(std::span(&h, 1)));
}

} // namespace farcall::mpi
