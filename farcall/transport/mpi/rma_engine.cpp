// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/mpi/rma_engine.hpp>

#include <algorithm>
#include <utility>

namespace farcall::mpi {
namespace {

/// Limit of the stored requests of nodes that are not admitted yet. The limit is higher than the
/// number of requests that such nodes can have in flight.
constexpr std::size_t max_early = 4096;

} // namespace

struct tagged_rma::sent_piece final : piece {
  tagged_rma* engine = nullptr;
  engine::transfer transfer;
};

/// Bytes that this node sends for a peer's get, or receives for a peer's put.
struct tagged_rma::response {
  tagged_rma* engine = nullptr;
  connection* to = nullptr;
  std::uint64_t id = 0;
  bool is_put = false;
  std::unique_ptr<std::byte[]> instead; ///< memory that receives the bytes of a put that was
                                        ///< refused
  engine::transfer transfer;
};

tagged_rma::tagged_rma(engine& by, node_id self, std::vector<memory_window> own, peer_table& peers)
    : message_rma(by, std::move(own)), engine_(&by), self_(self), peers_(&peers) {}

tagged_rma::~tagged_rma() = default;

// ---- copies that this node requests -------------------------------------------------------------

std::unique_ptr<message_rma::piece> tagged_rma::make_piece() {
  auto made = std::make_unique<sent_piece>();
  made->engine = this;
  made->transfer = {&tagged_rma::on_piece, made.get()};
  return made;
}

void tagged_rma::start(piece& p) noexcept {
  auto& sent = static_cast<sent_piece&>(p);
  auto& to = static_cast<connection&>(*p.to);
  p.is_with_network = true;
  if (p.is_put) {
    const std::uint32_t tag = next_tag(copy_way::put);
    if (!announce(message::put, sent, tag) ||
        !engine_->start_send(sent.transfer, to, tag, p.memory, p.bytes)) {
      was_sent(p, false);
    }
    return;
  }
  // Post the receive before the request is sent, so that the bytes need not wait for the receive.
  const std::uint32_t tag = next_tag(copy_way::get);
  if (!engine_->start_receive(sent.transfer, to, tag, p.memory, p.bytes)) {
    was_sent(p, false);
  } else if (!announce(message::get, sent, tag)) {
    engine_->cancel(sent.transfer);
  }
}

bool tagged_rma::announce(message kind, const sent_piece& p, std::uint32_t tag) noexcept {
  auto& to = static_cast<connection&>(*p.to);
  const copy_header h{to.key, self_, copy_status::done, p.id, p.there, p.bytes, tag};
  return engine_->post(to, static_cast<std::uint16_t>(kind), std::as_bytes(std::span(&h, 1)));
}

void tagged_rma::on_piece(void* data, bool is_good) noexcept {
  auto& p = *static_cast<sent_piece*>(data);
  tagged_rma& self = *p.engine;
  if (p.is_put) {
    self.was_sent(p, is_good);
  } else {
    p.is_with_network = false;
    self.end(p, is_good);
  }
}

/// Cancels the receive of a get, unless its bytes are already arriving.
void tagged_rma::withdraw(piece& p) noexcept {
  if (!p.is_put) engine_->cancel(static_cast<sent_piece&>(p).transfer);
}

void tagged_rma::forget(node_id peer) noexcept {
  end_all(peer);
  std::vector<response*> coming;
  for (const auto& [a, owned] : replies_) {
    if (a->is_put && a->to->node == peer) coming.push_back(a);
  }
  // Collect the responses before cancelling them, because cancel() may at once erase a response
  // from the table.
  for (response* const a : coming)
    engine_->cancel(a->transfer);
}

// ---- copies that peers request, and replies -----------------------------------------------------

void tagged_rma::take(message kind, int rank, const copy_header& h) noexcept {
  try {
    if (kind == message::done) {
      take_done(h);
      return;
    }
    if (!peers_->is_admitted(h.from) && early_.size() < max_early) {
      // Keep the request until the peer is admitted here. The peer can be early, because it may get
      // our card before we get its card.
      early_.push_back({kind, rank, h});
      return;
    }
    connection& from = peers_->connected(h.from);
    const copy_way way = kind == message::put ? copy_way::put : copy_way::get;
    if (from.rank != rank || !is_copy_tag(h.tag, way) || h.bytes > piece_bytes) {
      static auto& lines = *new log::limited_log("more copies were refused");
      lines.error(node_text(h.from) + " asks for an impossible copy; refused");
      return;
    }
    kind == message::put ? take_put(from, h) : take_get(from, h);
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more copies got no reply");
    lines.warning(std::string("no reply to a copy: ") + e.what());
  }
}

void tagged_rma::resume(node_id peer) noexcept {
  const auto its = std::partition(early_.begin(), early_.end(),
                                  [&](const early& e) { return e.header.from != peer; });
  // take() handles all these requests now, and stores none of them again, because the peer is
  // admitted.
  std::for_each(its, early_.end(), [&](const early& e) { take(e.kind, e.rank, e.header); });
  early_.erase(its, early_.end());
}

void tagged_rma::take_done(const copy_header& h) noexcept {
  piece* const p = find(h.id, h.from);
  if (p == nullptr) return;
  if (p->is_put) {
    end(*p, h.status == copy_status::done);
  } else if (h.status != copy_status::done) {
    // The peer has refused the get and sends no bytes. The piece ends now, and is released once MPI
    // has cancelled the receive.
    end(*p, false);
    withdraw(*p);
  }
}

void tagged_rma::take_put(connection& from, const copy_header& h) {
  auto made = std::make_unique<response>();
  response& a = *made;
  a.engine = this;
  a.to = &from;
  a.id = h.id;
  a.is_put = true;
  a.transfer = {&tagged_rma::on_reply, &a};
  auto* to = reinterpret_cast<std::byte*>(h.address);
  if (!check_own(from.node, h.address, h.bytes)) {
    // Receive the bytes of a refused put into other memory. The bytes are already in flight, and
    // MPI would keep them until they are received.
    a.instead = std::make_unique_for_overwrite<std::byte[]>(h.bytes);
    to = a.instead.get();
  }
  replies_.emplace(&a, std::move(made));
  if (engine_->start_receive(a.transfer, from, h.tag, to, h.bytes)) return;
  replies_.erase(&a);
  reply(from, h.id, copy_status::refused);
}

void tagged_rma::take_get(connection& from, const copy_header& h) {
  if (!check_own(from.node, h.address, h.bytes)) {
    reply(from, h.id, copy_status::refused);
    return;
  }
  auto made = std::make_unique<response>();
  response& a = *made;
  a.engine = this;
  a.to = &from;
  a.transfer = {&tagged_rma::on_reply, &a};
  replies_.emplace(&a, std::move(made));
  if (engine_->start_send(a.transfer, from, h.tag, reinterpret_cast<const std::byte*>(h.address),
                          h.bytes)) {
    return;
  }
  replies_.erase(&a);
  reply(from, h.id, copy_status::refused);
}

void tagged_rma::on_reply(void* data, bool is_good) noexcept {
  auto* const a = static_cast<response*>(data);
  tagged_rma& self = *a->engine;
  if (a->is_put) {
    self.reply(*a->to, a->id, is_good && !a->instead ? copy_status::done : copy_status::refused);
  }
  self.replies_.erase(a);
}

void tagged_rma::reply(connection& to, std::uint64_t id, copy_status status) noexcept {
  const copy_header h{to.key, self_, status, id, 0, 0, 0};
  (void)engine_->post(to, static_cast<std::uint16_t>(message::done),
                      std::as_bytes(std::span(&h, 1)));
}

} // namespace farcall::mpi
