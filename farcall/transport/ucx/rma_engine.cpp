// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/ucx/rma_engine.hpp>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace farcall::ucx {
namespace {

/// Upper bound of the messages that can wait in UCX's queues in shared memory.
constexpr unsigned max_messages_waiting = 4096;
/// Limit of the stored replies to nodes that are not admitted yet. The limit is higher than the
/// number of requests that such nodes can have in flight.
constexpr std::size_t max_early = 4096;

ucp_request_param_t with_callback(void (*sent)(void*, ucs_status_t, void*), void* data) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = sent;
  param.user_data = data;
  return param;
}

} // namespace

struct active_message_rma::sent_piece final : piece {
  active_message_rma* engine = nullptr;
  copy_header header; ///< header, which UCX reads until the message was sent
};

struct active_message_rma::response {
  active_message_rma* engine = nullptr;
  node_id to = no_node;
  message kind{};
  copy_header header;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// A put whose bytes are being received into a window of this node.
struct active_message_rma::arrival {
  active_message_rma* engine = nullptr;
  copy_header header;
};

active_message_rma::active_message_rma(worker& by, node_id self, std::vector<memory_window> own,
                                       peer_table& peers)
    : message_rma(by, std::move(own)), worker_(&by), self_(self), peers_(&peers) {}

active_message_rma::~active_message_rma() {
  for (response* const a : sending_)
    delete a;
  for (arrival* const a : arriving_)
    delete a;
}

// ---- copies that this node requests -------------------------------------------------------------

std::unique_ptr<message_rma::piece> active_message_rma::make_piece() {
  auto made = std::make_unique<sent_piece>();
  made->engine = this;
  return made;
}

void active_message_rma::start(piece& p) noexcept {
  auto& sent = static_cast<sent_piece&>(p);
  auto& to = static_cast<connection&>(*p.to);
  sent.header = {to.key, self_, copy_status::done, p.id, p.there, p.bytes};
  ucp_request_param_t param = with_callback(&active_message_rma::on_piece_sent, &sent);
  p.is_with_network = true;
  void* const request = ::ucp_am_send_nbx(
      to.ep, static_cast<unsigned>(p.is_put ? message::put : message::get), &sent.header,
      sizeof sent.header, p.is_put ? p.memory : nullptr, p.is_put ? p.bytes : 0, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    was_sent(p, request == nullptr);
  } else {
    worker_->begin_request();
  }
}

void active_message_rma::on_piece_sent(void* request, ucs_status_t status, void* data) noexcept {
  auto& p = *static_cast<sent_piece*>(data);
  p.engine->worker_->end_request(request);
  p.engine->was_sent(p, status == UCS_OK);
}

/// True if UCX does not detect that the peer is gone. UCX then never continues the piece, because
/// only a message of the peer would make it do so.
bool active_message_rma::may_stay(const piece& p) const noexcept {
  return !static_cast<const connection&>(*p.to).handles_errors;
}

void active_message_rma::forget(node_id peer) noexcept {
  for (auto* const waiting : {&replies_, &early_})
    std::erase_if(*waiting, [&](const auto& a) { return a->to == peer; });
  // First receive the messages that the peer has sent before it was gone. If they arrived later,
  // they could change memory that callers get back when end_all() ends the copies. Do not call
  // poll(), because the work that follows from these messages can wait.
  for (unsigned seen = 0; seen < max_messages_waiting;) {
    const unsigned messages = ::ucp_worker_progress(worker_->handle());
    if (messages == 0) break;
    seen += messages;
  }
  end_all(peer);
}

// ---- replies to this node -----------------------------------------------------------------------

ucs_status_t active_message_rma::take(message kind, const copy_header& h, void* data,
                                      std::size_t bytes, bool is_rendezvous) noexcept {
  try {
    switch (kind) {
    case message::put:
      return take_put(h, data, bytes, is_rendezvous);
    case message::get:
      take_get(h);
      return UCS_OK;
    case message::data:
      return take_data(h, data, bytes, is_rendezvous);
    default:
      if (piece* const p = find(h.id, h.from); p != nullptr && p->is_put) {
        end(*p, h.status == copy_status::done);
      }
      return UCS_OK;
    }
  } catch (const std::bad_alloc&) {
    return UCS_ERR_NO_MEMORY;
  }
}

ucs_status_t active_message_rma::take_data(const copy_header& h, void* data, std::size_t bytes,
                                           bool is_rendezvous) {
  piece* const found = find(h.id, h.from);
  if (found == nullptr || found->is_put || found->is_with_network) return UCS_OK;
  piece& p = *found;
  if (h.status != copy_status::done || bytes != p.bytes) {
    end(p, false);
    return UCS_OK;
  }
  if (!is_rendezvous) {
    std::memcpy(p.memory, data, bytes);
    end(p, true);
    return UCS_OK;
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &active_message_rma::on_piece_received;
  param.user_data = static_cast<sent_piece*>(found);
  p.is_with_network = true;
  void* const request = ::ucp_am_recv_data_nbx(worker_->handle(), data, p.memory, bytes, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    p.is_with_network = false;
    end(p, request == nullptr);
  } else {
    worker_->begin_request();
  }
  return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
}

void active_message_rma::on_piece_received(void* request, ucs_status_t status,
                                           std::size_t /*bytes*/, void* data) noexcept {
  auto& p = *static_cast<sent_piece*>(data);
  p.engine->worker_->end_request(request);
  p.is_with_network = false;
  p.engine->end(p, status == UCS_OK);
}

// ---- copies that peers request ------------------------------------------------------------------

ucs_status_t active_message_rma::take_put(const copy_header& h, void* data, std::size_t bytes,
                                          bool is_rendezvous) {
  auto made = std::make_unique<response>();
  made->engine = this;
  made->to = h.from;
  made->kind = message::done;
  made->header.id = h.id;
  auto* const to = reinterpret_cast<std::byte*>(h.address);
  if (bytes != h.bytes || !check_own(h.from, h.address, bytes)) {
    made->header.status = copy_status::refused;
  } else if (!is_rendezvous) {
    std::memcpy(to, data, bytes);
  } else {
    auto coming = std::make_unique<arrival>(arrival{this, h});
    arriving_.insert(coming.get());
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv_am = &active_message_rma::on_put_received;
    param.user_data = coming.get();
    void* const request = ::ucp_am_recv_data_nbx(worker_->handle(), data, to, bytes, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
      worker_->begin_request();
      coming.release(); // NOLINT(bugprone-unused-return-value): on_put_received() has it
      return UCS_INPROGRESS;
    }
    arriving_.erase(coming.get());
    if (request != nullptr) {
      made->header.status = copy_status::refused;
      replies_.push_back(std::move(made));
      return UCS_PTR_STATUS(request);
    }
    replies_.push_back(std::move(made));
    return UCS_INPROGRESS;
  }
  replies_.push_back(std::move(made));
  return UCS_OK;
}

void active_message_rma::on_put_received(void* request, ucs_status_t status, std::size_t /*bytes*/,
                                         void* data) noexcept {
  const std::unique_ptr<arrival> a(static_cast<arrival*>(data));
  a->engine->worker_->end_request(request);
  a->engine->arriving_.erase(a.get());
  try {
    auto made = std::make_unique<response>();
    made->engine = a->engine;
    made->to = a->header.from;
    made->kind = message::done;
    made->header.id = a->header.id;
    made->header.status = status == UCS_OK ? copy_status::done : copy_status::refused;
    a->engine->replies_.push_back(std::move(made));
  } catch (const std::bad_alloc&) {
    static auto& lines = *new log::limited_log("more copies got no reply");
    lines.error("no memory for the reply to a copy");
  }
}

void active_message_rma::take_get(const copy_header& h) {
  auto made = std::make_unique<response>();
  made->engine = this;
  made->to = h.from;
  made->kind = message::data;
  made->header.id = h.id;
  if (check_own(h.from, h.address, h.bytes)) {
    made->data = reinterpret_cast<const std::byte*>(h.address);
    made->bytes = h.bytes;
  } else {
    made->header.status = copy_status::refused;
  }
  replies_.push_back(std::move(made));
}

void active_message_rma::serve() noexcept {
  while (!replies_.empty()) {
    std::vector<std::unique_ptr<response>> now;
    now.swap(replies_);
    for (auto& a : now) {
      if (!keep_early(a)) send(std::move(a));
    }
  }
}

bool active_message_rma::keep_early(std::unique_ptr<response>& a) noexcept {
  if (peers_->is_admitted(a->to) || early_.size() >= max_early) return false;
  try {
    early_.emplace_back();
  } catch (const std::bad_alloc&) {
    return false;
  }
  early_.back() = std::move(a);
  return true;
}

void active_message_rma::resume(node_id peer) noexcept {
  for (auto& a : early_) {
    if (a->to == peer) send(std::move(a));
  }
  std::erase(early_, nullptr);
}

void active_message_rma::send(std::unique_ptr<response> a) noexcept {
  try {
    connection& to = peers_->connected(a->to);
    if (to.has_failed || to.is_gone) return;
    a->header.key = to.key;
    a->header.from = self_;
    a->header.bytes = a->bytes;
    ucp_request_param_t param = with_callback(&active_message_rma::on_reply_sent, a.get());
    const auto at = sending_.insert(a.get()).first;
    void* const request = ::ucp_am_send_nbx(to.ep, static_cast<unsigned>(a->kind), &a->header,
                                            sizeof a->header, a->data, a->bytes, &param);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) {
      sending_.erase(at);
    } else {
      worker_->begin_request();
      a.release(); // NOLINT(bugprone-unused-return-value): on_reply_sent() has it
    }
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more copies got no reply");
    lines.warning(std::string("no reply to a copy: ") + e.what());
  }
}

void active_message_rma::on_reply_sent(void* request, ucs_status_t /*status*/,
                                       void* data) noexcept {
  const std::unique_ptr<response> a(static_cast<response*>(data));
  a->engine->worker_->end_request(request);
  a->engine->sending_.erase(a.get());
}

} // namespace farcall::ucx
