#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/ucx/rma_engine.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <sched.h>

namespace farcall::ucx {
namespace {

/// Shorter copies are quicker as messages.
constexpr std::uint64_t shortest_copy = 8192;
/// A message with data. A deadline, and other lanes, wait for one of them at most.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
/// How many are under way for one copy.
constexpr unsigned most_pieces = 4;
/// Pieces that go through memory of the engine's are shorter. So many blocks are kept: fresh ones
/// would cost a page fault for each page.
constexpr std::uint64_t bounce_bytes = std::uint64_t{256} << 10;
constexpr std::size_t most_kept_blocks = 8;

/// How long a copy polls without anything to do before it offers the processor to others, which may
/// keep it for a time slice; then before it sleeps, and how long it then sleeps at most.
constexpr std::chrono::microseconds spinning{50};
constexpr std::chrono::microseconds eagerness{200};
constexpr std::chrono::milliseconds look_interval{1};

/// More than UCX's queues in shared memory hold.
constexpr unsigned most_messages_waiting = 4096;

bool lies_in(const std::vector<memory_window>& windows, std::uint64_t address,
             std::uint64_t bytes) noexcept {
  return std::any_of(windows.begin(), windows.end(), [&](const memory_window& w) {
    const std::uint64_t offset = address - w.address;
    return offset <= w.bytes && bytes <= w.bytes - offset;
  });
}

ucp_request_param_t with_callback(void (*sent)(void*, ucs_status_t, void*), void* data) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = sent;
  param.user_data = data;
  return param;
}

} // namespace

/// What one call copies, on its stack.
struct active_message_rma::copy {
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

struct active_message_rma::piece {
  active_message_rma* engine = nullptr;
  copy* of = nullptr; ///< null: the copy was given up
  connection* to = nullptr;
  copy_header header;
  bool is_put = false;
  std::byte* memory = nullptr; ///< where UCX reads or writes
  std::byte* target = nullptr; ///< of a get that is bounced: where the bytes go in the end
  std::unique_ptr<std::byte[]> bounce;
  bool is_with_ucx = false; ///< it reads or writes `memory`, or reads the header
  bool has_ended = false;   ///< the peer has answered, or will not
  bool is_good = false;
};

struct active_message_rma::answer {
  active_message_rma* engine = nullptr;
  node_id to = no_node;
  message kind{};
  copy_header header;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// A put that is coming into a window of ours.
struct active_message_rma::arrival {
  active_message_rma* engine = nullptr;
  copy_header header;
};

active_message_rma::active_message_rma(worker& by, node_id self, std::vector<memory_window> own,
                                       directory& peers)
    : worker_(&by), self_(self), own_(std::move(own)), peers_(&peers) {
  kept_blocks_.reserve(most_kept_blocks);
}

active_message_rma::~active_message_rma() {
  for (answer* const a : sending_)
    delete a;
  for (arrival* const a : arriving_)
    delete a;
}

std::uint64_t active_message_rma::threshold() const noexcept { return shortest_copy; }

bool active_message_rma::is_own(std::uint64_t address, std::uint64_t bytes) const noexcept {
  return lies_in(own_, address, bytes);
}

// ---- our side of copies that we ask for ---------------------------------------------------------

bool active_message_rma::put(node_id peer, std::uint64_t to, const std::byte* from,
                             std::uint64_t bytes, time_point deadline) noexcept {
  copy c{peer, to, const_cast<std::byte*>(from), bytes, true, deadline};
  return run(c);
}

bool active_message_rma::get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                             time_point deadline) noexcept {
  copy c{peer, from, to, bytes, false, deadline};
  return run(c);
}

bool active_message_rma::run(copy& c) noexcept {
  if (worker_->is_forked()) return false;
  std::unique_lock guard(worker_->mutex());
  if (!peers_->is_inside(c.peer, c.there, c.bytes)) return false;
  try {
    // What is still on its way would be written over what we put now.
    if (!wait_for_late_puts(guard, c.peer, c.deadline)) return false;
    c.is_bounced = c.deadline != no_deadline;
    time_point idle_since{};
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
    // What is not bounced, UCX still reads or writes.
    time_point idle_since{};
    while (c.under_way != 0)
      wait(guard, idle_since, no_deadline);
    return false;
  }
}

/// Polls, or sleeps where there has been nothing for a while.
void active_message_rma::wait(std::unique_lock<std::mutex>& guard, time_point& idle_since,
                              time_point deadline) {
  if (worker_->poll() != 0) {
    idle_since = {};
    return;
  }
  const time_point now = clock::now();
  if (idle_since == time_point{}) idle_since = now;
  guard.unlock();
  if (now - idle_since < eagerness) {
    if (now - idle_since < spinning) {
      spin_pause();
    } else {
      ::sched_yield();
    }
    guard.lock();
    return;
  }
  worker_->arm();
  guard.lock();
  changed_.wait_until(guard, std::min(deadline, now + look_interval));
}

bool active_message_rma::start_piece(copy& c) {
  connection& to = peers_->connected(c.peer);
  if (to.has_failed || to.is_gone) return false;
  const std::uint64_t bytes = std::min(c.is_bounced ? bounce_bytes : piece_bytes, c.bytes - c.done);
  auto made = std::make_unique<piece>();
  piece& p = *made;
  p.engine = this;
  p.of = &c;
  p.to = &to;
  p.is_put = c.is_put;
  p.header = {to.key, self_, copy_status::done, next_id_++, c.there + c.done, bytes};
  p.memory = c.here + c.done;
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
  ucp_request_param_t param = with_callback(&active_message_rma::on_piece_sent, &p);
  p.is_with_ucx = true;
  void* const request = ::ucp_am_send_nbx(
      to.ep, static_cast<unsigned>(c.is_put ? message::put : message::get), &p.header,
      sizeof p.header, c.is_put ? p.memory : nullptr, c.is_put ? bytes : 0, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    p.is_with_ucx = false;
    if (request != nullptr) end(p, false);
  } else {
    worker_->begin_request();
  }
  return true;
}

void active_message_rma::on_piece_sent(void* request, ucs_status_t status, void* data) noexcept {
  auto& p = *static_cast<piece*>(data);
  p.engine->worker_->end_request(request);
  p.is_with_ucx = false;
  // The answer ends a piece whose bytes were sent.
  if (status == UCS_OK && !p.has_ended) return;
  p.engine->end(p, status == UCS_OK && p.is_good);
}

/// The peer has answered, or will not.
void active_message_rma::end(piece& p, bool is_good) noexcept {
  p.has_ended = true;
  p.is_good = is_good;
  release_if_unused(p);
}

void active_message_rma::release_if_unused(piece& p) noexcept {
  if (!p.has_ended || p.is_with_ucx) return;
  if (p.of != nullptr) {
    if (p.is_good && p.target != nullptr) std::memcpy(p.target, p.memory, p.header.bytes);
    --p.of->under_way;
    if (!p.is_good) p.of->has_failed = true;
  }
  if (p.bounce && kept_blocks_.size() < most_kept_blocks) {
    kept_blocks_.push_back(std::move(p.bounce)); // reserved in the constructor
  }
  pieces_.erase(p.header.id);
  changed_.notify_all();
}

/// Bounced pieces of the copy go on without it.
void active_message_rma::give_up(copy& c) noexcept {
  for (auto& [id, p] : pieces_) {
    if (p->of != &c || !p->bounce) continue;
    p->of = nullptr;
    --c.under_way;
  }
}

bool active_message_rma::has_late_puts(node_id peer) const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& p) {
    return p.second->of == nullptr && p.second->is_put && !p.second->has_ended &&
           p.second->to->node == peer;
  });
}

bool active_message_rma::wait_for_late_puts(std::unique_lock<std::mutex>& guard, node_id peer,
                                            time_point deadline) noexcept {
  time_point idle_since{};
  while (has_late_puts(peer)) {
    if (clock::now() >= deadline) return false;
    wait(guard, idle_since, deadline);
  }
  return true;
}

bool active_message_rma::settle(node_id peer, time_point deadline) noexcept {
  if (worker_->is_forked()) return true;
  std::unique_lock guard(worker_->mutex());
  return wait_for_late_puts(guard, peer, deadline);
}

std::string active_message_rma::failure(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(worker_->mutex());
  if (!peers_->is_inside(peer, address, bytes)) return {};
  const auto at = failures_.find(peer);
  return at == failures_.end() ? std::string() : at->second;
}

void active_message_rma::forget(node_id peer) noexcept {
  std::erase_if(answers_, [&](const auto& a) { return a->to == peer; });
  // What it has sent before may be meant for memory that its copies' callers get back now. Not by
  // poll(): what follows from messages can wait.
  for (unsigned seen = 0; seen < most_messages_waiting;) {
    const unsigned messages = ::ucp_worker_progress(worker_->handle());
    if (messages == 0) break;
    seen += messages;
  }
  std::vector<piece*> all;
  for (const auto& [id, p] : pieces_) {
    if (p->to->node == peer) all.push_back(p.get());
  }
  for (piece* const p : all) {
    // Where UCX does not notice that the peer is gone, it keeps its part for ever, and does nothing
    // more with it: it acts on messages, and no more come.
    if (p->is_with_ucx && !p->to->handles_errors && p->of != nullptr) {
      p->of->has_failed = true;
      --p->of->under_way;
      p->of = nullptr;
      changed_.notify_all();
    }
    end(*p, false);
  }
}

// ---- answers to us ------------------------------------------------------------------------------

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
    default: {
      const auto at = pieces_.find(h.id);
      if (at == pieces_.end()) return UCS_OK;
      piece& p = *at->second;
      if (p.to->node == h.from && p.is_put && !p.has_ended) {
        end(p, h.status == copy_status::done);
      }
      return UCS_OK;
    }
    }
  } catch (const std::bad_alloc&) {
    return UCS_ERR_NO_MEMORY;
  }
}

ucs_status_t active_message_rma::take_data(const copy_header& h, void* data, std::size_t bytes,
                                           bool is_rendezvous) {
  const auto at = pieces_.find(h.id);
  if (at == pieces_.end()) return UCS_OK;
  piece& p = *at->second;
  if (p.to->node != h.from || p.is_put || p.has_ended || p.is_with_ucx) return UCS_OK;
  if (h.status != copy_status::done || bytes != p.header.bytes) {
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
  param.user_data = &p;
  p.is_with_ucx = true;
  void* const request = ::ucp_am_recv_data_nbx(worker_->handle(), data, p.memory, bytes, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    p.is_with_ucx = false;
    end(p, request == nullptr);
  } else {
    worker_->begin_request();
  }
  return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
}

void active_message_rma::on_piece_received(void* request, ucs_status_t status,
                                           std::size_t /*bytes*/, void* data) noexcept {
  auto& p = *static_cast<piece*>(data);
  p.engine->worker_->end_request(request);
  p.is_with_ucx = false;
  p.engine->end(p, status == UCS_OK && !p.has_ended);
}

// ---- what peers ask for -------------------------------------------------------------------------

ucs_status_t active_message_rma::take_put(const copy_header& h, void* data, std::size_t bytes,
                                          bool is_rendezvous) {
  auto made = std::make_unique<answer>();
  made->engine = this;
  made->to = h.from;
  made->kind = message::done;
  made->header.id = h.id;
  auto* const to = reinterpret_cast<std::byte*>(h.address);
  if (bytes != h.bytes || !is_own(h.address, bytes)) {
    log::error(node_text(h.from) + " asks for a copy of memory that is not shared; refused");
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
      answers_.push_back(std::move(made));
      return UCS_PTR_STATUS(request);
    }
    answers_.push_back(std::move(made));
    return UCS_INPROGRESS;
  }
  answers_.push_back(std::move(made));
  return UCS_OK;
}

void active_message_rma::on_put_received(void* request, ucs_status_t status, std::size_t /*bytes*/,
                                         void* data) noexcept {
  const std::unique_ptr<arrival> a(static_cast<arrival*>(data));
  a->engine->worker_->end_request(request);
  a->engine->arriving_.erase(a.get());
  try {
    auto made = std::make_unique<answer>();
    made->engine = a->engine;
    made->to = a->header.from;
    made->kind = message::done;
    made->header.id = a->header.id;
    made->header.status = status == UCS_OK ? copy_status::done : copy_status::refused;
    a->engine->answers_.push_back(std::move(made));
  } catch (const std::bad_alloc&) {
    log::error("no memory to answer a copy");
  }
}

void active_message_rma::take_get(const copy_header& h) {
  auto made = std::make_unique<answer>();
  made->engine = this;
  made->to = h.from;
  made->kind = message::data;
  made->header.id = h.id;
  if (is_own(h.address, h.bytes)) {
    made->data = reinterpret_cast<const std::byte*>(h.address);
    made->bytes = h.bytes;
  } else {
    log::error(node_text(h.from) + " asks for a copy of memory that is not shared; refused");
    made->header.status = copy_status::refused;
  }
  answers_.push_back(std::move(made));
}

void active_message_rma::serve() noexcept {
  while (!answers_.empty()) {
    std::vector<std::unique_ptr<answer>> now;
    now.swap(answers_);
    for (auto& a : now)
      send(std::move(a));
  }
}

void active_message_rma::send(std::unique_ptr<answer> a) noexcept {
  try {
    connection& to = peers_->connected(a->to);
    if (to.has_failed || to.is_gone) return;
    a->header.key = to.key;
    a->header.from = self_;
    a->header.bytes = a->bytes;
    ucp_request_param_t param = with_callback(&active_message_rma::on_answer_sent, a.get());
    const auto at = sending_.insert(a.get()).first;
    void* const request = ::ucp_am_send_nbx(to.ep, static_cast<unsigned>(a->kind), &a->header,
                                            sizeof a->header, a->data, a->bytes, &param);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) {
      sending_.erase(at);
    } else {
      worker_->begin_request();
      a.release(); // NOLINT(bugprone-unused-return-value): on_answer_sent() has it
    }
  } catch (const std::exception& e) {
    log::warning(std::string("a copy cannot be answered: ") + e.what());
  }
}

void active_message_rma::on_answer_sent(void* request, ucs_status_t /*status*/,
                                        void* data) noexcept {
  const std::unique_ptr<answer> a(static_cast<answer*>(data));
  a->engine->worker_->end_request(request);
  a->engine->sending_.erase(a.get());
}

} // namespace farcall::ucx
