// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"
#include "handler_call.hpp"
#include "message_bytes.hpp"
#include "process.hpp"

#include <farcall/memory/copy.hpp>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

namespace farcall::am2 {
namespace {

/// Fills the token that a handler gets, and marks the handler as running on this thread while this
/// object exists.
class handler_run {
 public:
  handler_run(am2_endpoint& ep, peer* source, endpoint_name from, const message_header& h,
              bool is_request, bool can_reply) noexcept
      : handler_run(process::thread(), ep, source, from, h.tag, h.handler(), h.payload(),
                    is_request, can_reply) {}
  handler_run(thread_state& t, am2_endpoint& ep, peer* source, endpoint_name from, tag_t tag,
              std::uint8_t handler, category payload, bool is_request, bool can_reply) noexcept
      : state_(t), token_(state_.tokens[state_.running]) {
    // Set each member separately. Copying a token that was just built would stall the processor,
    // because the wide loads of the copy cannot be forwarded from the narrower stores.
    token_.at = &ep;
    token_.source = source;
    token_.from = from;
    token_.tag = tag;
    token_.handler = handler;
    token_.payload = payload;
    token_.is_request = is_request;
    token_.is_running = true;
    token_.can_reply = can_reply;
    ++state_.running;
  }
  handler_run(const handler_run&) = delete;
  handler_run& operator=(const handler_run&) = delete;
  ~handler_run() {
    --state_.running;
    token_.is_running = false;
    token_.can_reply = false;
  }

  [[nodiscard]] token& its_token() const noexcept { return token_; }

 private:
  thread_state& state_;
  token& token_;
};

/// Minimum size of a long payload that the sender itself copies into the receiver's segment, if it
/// can access the segment. A shorter payload is as fast in the message's record, because the record
/// brings it into the receiver's cache.
constexpr std::uint64_t min_placed = 4096;

struct named_number {
  int number;
  const char* name;
};

constexpr std::array statuses{
    named_number{EBADARGS, "EBADARGS, bad arguments"},
    named_number{EBADENTRY, "EBADENTRY, an unbound entry of the translation table"},
    named_number{EBADTAG, "EBADTAG, the receiver has another tag"},
    named_number{EBADHANDLER, "EBADHANDLER, the receiver has no such handler"},
    named_number{EBADSEGOFF, "EBADSEGOFF, the receiver has no segment at that offset"},
    named_number{EBADLENGTH, "EBADLENGTH, it goes beyond the receiver's segment"},
    named_number{EBADENDPOINT, "EBADENDPOINT, no such endpoint, or it does not know the sender"},
    named_number{ECONGESTION, "ECONGESTION"},
    named_number{EUNREACHABLE, "EUNREACHABLE, the receiver's process has ended"},
    named_number{EREPLYREJECTED, "EREPLYREJECTED, its reply was not accepted here"},
};
constexpr std::array<const char*, 7> op_codes{
    "message", "request", "medium request", "long request", "reply", "medium reply", "long reply"};

int op_code(bool is_request, category c) noexcept {
  return (is_request ? AM_REQUEST_M : AM_REPLY_M) + static_cast<int>(c);
}

/// Default for handler 0, if the program sets none: prints which message was returned and why, and
/// aborts.
void handle_returned_by_default(int status, int op, const token& t) noexcept {
  const char* why = "an unknown reason";
  for (const named_number& n : statuses)
    if (n.number == status) why = n.name;
  fatal("a %s of handler %d, with endpoint %d of process %d, was returned: %s. Handler 0 of an "
        "endpoint gets such messages where the program has set it.",
        op_codes[static_cast<std::size_t>(op)], int{t.handler}, t.from.endpoint, t.from.node, why);
}

/// Returns the address at `offset` in the endpoint's segment. The address is computed as an
/// integer, because an endpoint without a segment may get an empty long message.
void* in_segment(const am2_endpoint& ep, std::uint64_t offset) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(ep.segment.load(std::memory_order_relaxed));
  return reinterpret_cast<void*>(begin + offset);
}

/// Checks whether the message may be run. Returns 0 if so, otherwise the status with which the
/// message is returned to its sender.
int check(const am2_endpoint& ep, const message& m, const peer* source) noexcept {
  const message_header& h = m.header;
  const tag_t own = ep.tag.load(std::memory_order_relaxed);
  if (own == AM_NONE || (own != h.tag && own != AM_ALL)) return EBADTAG;
  if (h.arguments() > max_arguments) return EBADARGS;
  const bool is_get = h.kind() == message_kind::get;
  if (!is_get &&
      (h.handler() == 0 || ep.handlers[h.handler()].load(std::memory_order_relaxed) == nullptr))
    return EBADHANDLER;
  if (h.payload() == category::long_message && m.bytes != 0) {
    const std::uint64_t size = ep.segment_bytes.load(std::memory_order_relaxed);
    // Test the size rather than the address, because a segment of all addresses begins at NULL.
    if (size == 0) return EBADSEGOFF;
    if (m.offset > size || m.bytes > size - m.offset) return EBADLENGTH;
  }
  if (source == nullptr) return EBADENDPOINT;
  return 0;
}

/// Returns the index of the word in the endpoint's statistics that counts received messages of this
/// kind and category.
std::size_t received_at(const message_header& h) noexcept {
  return (h.kind() == message_kind::reply ? AM2_STATISTIC(replies_received)
                                          : AM2_STATISTIC(requests_received)) +
         static_cast<std::size_t>(h.payload());
}

void run(am2_endpoint& ep, token& t, const message& m) noexcept {
  const message_header& h = m.header;
  const amx_handler_fn_t f = ep.handlers[h.handler()].load(std::memory_order_relaxed);
  void* payload = nullptr;
  if (h.payload() == category::medium) {
    payload = const_cast<void*>(m.payload);
  } else if (h.payload() == category::long_message) {
    payload = in_segment(ep, m.offset);
  }
  if (const amx_handler_prefn_t before = ep.before.load(std::memory_order_relaxed))
    before(amx_category_t(h.payload()), t.is_request ? 1 : 0, h.handler(), &t, payload, m.bytes,
           h.arguments(), reinterpret_cast<std::uint32_t*>(const_cast<std::int32_t*>(m.arguments)));
  if (h.payload() == category::short_message) {
    call_short(f, &t, m.arguments, h.arguments());
  } else {
    call_with_payload(f, &t, payload, m.bytes, m.arguments, h.arguments());
  }
  if (const amx_handler_postfn_t after = ep.after.load(std::memory_order_relaxed))
    after(amx_category_t(h.payload()), t.is_request ? 1 : 0);
}

void place(const am2_endpoint& ep, const message& m) noexcept {
  if (m.header.payload() != category::long_message || m.bytes == 0 || m.payload == nullptr) {
    return;
  }
  std::memmove(in_segment(ep, m.offset), m.payload, m.bytes);
}

void tell_segment(const am2_endpoint& ep, endpoint_name to) noexcept {
  if (ep.card == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(ep.card);
  const std::array<std::int32_t, 2> words{static_cast<std::int32_t>(address),
                                          static_cast<std::int32_t>(address >> 32)};
  message m{message_header(message_kind::segment, category::short_message, 0, words.size())};
  m.header.from = ep.name.endpoint;
  m.header.to = to.endpoint;
  m.arguments = words.data();
  process::instance().send_or_keep(to.node, m);
}

void note_segment(peer& p, const message& m) noexcept {
  const std::byte* const card = process::instance().network().map(
      p.name.node, card_address(m.arguments), sizeof(segment_card));
  // Release pairs with the acquire load in try_place(), which reads the card through this pointer.
  // The pointer is null if the peer's memory is not shared.
  p.card.store(reinterpret_cast<const segment_card*>(card), std::memory_order_release);
}

/// Returns the address at which the peer's segment is mapped in this process; null if the peer's
/// memory is not shared.
std::byte* map_segment(const am2_endpoint& ep, peer& p, const segment_card::values& v) noexcept {
  std::unique_lock<std::mutex> guard;
  if (ep.bundle->is_parallel) guard = std::unique_lock(p.mapped_mutex);
  if (p.mapped.address != v.address || p.mapped.bytes != v.bytes) {
    p.mapped = {v.address, v.bytes,
                process::instance().network().map(p.name.node, v.address, v.bytes)};
  }
  return p.mapped.here;
}

void send_back(endpoint_name to, const message& m, std::int32_t from, int status) noexcept {
  const bool is_reply = m.header.kind() == message_kind::reply;
  message back{
      message_header(is_reply ? message_kind::returned_reply : message_kind::returned_request,
                     m.header.payload(), m.header.handler(), status)};
  back.header.tag = m.header.tag;
  back.header.from = from;
  back.header.to = to.endpoint;
  if (!is_reply) {
    credits slot{};
    slot[std::size_t(m.header.payload())] = 1;
    back.header.set_credits(slot);
  }
  process::instance().send_or_keep(to.node, back);
}

/// Replies to a get request with the requested part of the segment.
void reply_get(am2_endpoint& ep, peer& source, const message& m) noexcept {
  message reply{message_header(message_kind::reply, category::long_message, m.header.handler(),
                               m.header.arguments())};
  reply.header.tag =
      ep.table[static_cast<std::size_t>(source.index)].tag.load(std::memory_order_relaxed);
  reply.header.from = ep.name.endpoint;
  reply.header.to = source.name.endpoint;
  reply.header.set_request_payload(category::long_message);
  reply.arguments = m.arguments;
  reply.offset = m.get_offset;
  reply.payload = in_segment(ep, m.offset);
  reply.bytes = m.bytes;
  if (source.name == ep.name) {
    accept_own(ep, reply);
    return;
  }
  owe_slot(ep, source, category::long_message);
  reply.header.set_credits(take_owed(ep, source));
  process::instance().send_or_keep(source.name.node, reply);
}

void run_handler_0(am2_endpoint& ep, peer* source, endpoint_name from, int status, int op,
                   bool is_request, const message_header& header) noexcept {
  handler_run here(ep, source, from, header, is_request, false);
  const amx_handler_fn_t f = ep.handlers[0].load(std::memory_order_relaxed);
  if (f == nullptr) {
    handle_returned_by_default(status, op, here.its_token());
  } else {
    reinterpret_cast<void (*)(int, op_t, void*)>(f)(status, op, &here.its_token());
  }
}

} // namespace

void fatal(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  vprint_line("*** AM-2", format, arguments);
  va_end(arguments);
  std::abort();
}

void run_returned(am2_endpoint& ep, peer* source, endpoint_name from, int status, bool is_request,
                  const message_header& header) noexcept {
  ep.count(AM2_STATISTIC(returned));
  run_handler_0(ep, source, from, status, op_code(is_request, header.payload()), is_request,
                header);
}

void run_end_of(am2_endpoint& ep, peer& p) noexcept {
  constexpr int no_operation = 0;
  run_handler_0(ep, &p, p.name, EUNREACHABLE, no_operation, false, message_header());
}

void try_place(const am2_endpoint& ep, peer& p, message& m, bool may_wait) noexcept {
  if (m.bytes < min_placed || p.name.node == ep.name.node) return;
  // Acquire pairs with the release store in note_segment(), which has mapped the card.
  const segment_card* const card = p.card.load(std::memory_order_acquire);
  if (card == nullptr) {
    if (!p.has_asked.load(std::memory_order_relaxed) && !p.has_asked.exchange(true))
      m.header.ask_for_segment();
    return;
  }
  const std::optional<segment_card::values> v = card->read();
  // Copy nothing if the receiver would refuse the message, because a returned message must not
  // change the receiver's segment.
  if (!v || v->bytes == 0 || (v->tag != m.header.tag && v->tag != AM_ALL) || m.offset > v->bytes ||
      m.bytes > v->bytes - m.offset)
    return;
  if (std::byte* const here = map_segment(ep, p, *v)) {
    copy_bytes(here + m.offset, m.payload, m.bytes);
  } else if (!may_wait || !process::instance().network().put(p.name.node, v->address + m.offset,
                                                             m.payload, m.bytes)) {
    return;
  }
  m.place = payload_place::segment;
  m.payload = nullptr;
}

void send_credits(am2_endpoint& ep, peer& p) noexcept {
  while (p.owed_total.load(std::memory_order_relaxed) != 0) {
    message m{message_header(message_kind::credit, category::short_message, 0, 0)};
    m.header.from = ep.name.endpoint;
    m.header.to = p.name.endpoint;
    m.header.set_credits(take_owed(ep, p));
    if (!m.header.has_credits()) return;
    process::instance().send_or_keep(p.name.node, m);
  }
}

namespace {

/// Notes that a request was handled without a reply, so that the receiver must give the request's
/// slot back. If `at_once`, the receiver now sends a message that gives the slot back; otherwise a
/// later message or poll gives it back.
void note_no_reply(am2_endpoint& ep, peer& source, category c, bool at_once) noexcept {
  owe_slot(ep, source, c);
  if (at_once) {
    send_credits(ep, source);
  } else if (!ep.owes.load(std::memory_order_relaxed)) {
    ep.owes.store(true);
  }
}

void take_part(am2_endpoint& ep, peer& source, int node, const message& m) noexcept {
  // Check the whole long message to which the part belongs: if the long message will be refused,
  // none of its parts may be written.
  message whole = m;
  whole.offset = m.whole_offset;
  whole.bytes = m.whole_bytes;
  const bool is_inside = m.offset >= whole.offset && m.bytes <= whole.bytes &&
                         m.offset - whole.offset <= whole.bytes - m.bytes;
  const int status = is_inside ? check(ep, whole, &source) : EBADLENGTH;
  if (status == 0) place(ep, m);
  if (const auto last = source.parts.add(m.transfer, m.bytes, status)) accept(ep, node, last->m);
}

} // namespace

void accept(am2_endpoint& ep, int node, const message& m) noexcept {
  const message_header& h = m.header;
  const endpoint_name from{node, h.from};
  peer* const source = ep.find_peer(from);
  int status_of_parts = 0;
  if (source != nullptr && h.payload() == category::long_message && m.place >= payload_place::part)
      [[unlikely]] {
    if (m.place == payload_place::part) {
      take_part(ep, *source, node, m);
      return;
    }
    if (!source->parts.has_all(node, m)) return;
    status_of_parts = source->parts.end(m.transfer);
  }
  if (source != nullptr && h.has_credits()) {
    give_slots_back(ep, *source, h.given_back());
    if (ep.bundle->is_parallel) process::instance().wake();
  }
  switch (h.kind()) {
  case message_kind::request:
  case message_kind::get:
  case message_kind::reply:
    break;
  case message_kind::segment:
    if (source != nullptr) note_segment(*source, m);
    return;
  case message_kind::returned_request:
  case message_kind::returned_reply:
    // Ignore the message if its source is not in the table, because this endpoint cannot have sent
    // it a message that could be returned.
    if (source != nullptr)
      run_returned(ep, source, from, h.arguments(), h.kind() == message_kind::returned_request, h);
    return;
  default:
    return;
  }
  ep.count(received_at(h));
  const bool is_reply = h.kind() == message_kind::reply;
  const int status = status_of_parts != 0 ? status_of_parts : check(ep, m, source);
  if (status != 0 || source == nullptr) [[unlikely]] {
    send_back(from, m, ep.name.endpoint, status);
    if (!is_reply || source == nullptr) return;
    message_header request(message_kind::request, h.request_payload(), h.handler(), 0);
    request.tag = h.tag;
    run_returned(ep, source, from, EREPLYREJECTED, true, request);
    return;
  }
  if (h.kind() == message_kind::get) {
    reply_get(ep, *source, m);
    return;
  }
  place(ep, m);
  if (h.asks_for_segment()) [[unlikely]]
    tell_segment(ep, source->name);
  bool has_replied = false;
  {
    handler_run here(ep, source, from, h, !is_reply, !is_reply);
    run(ep, here.its_token(), m);
    has_replied = !here.its_token().can_reply;
  }
  if (!is_reply && !has_replied) note_no_reply(ep, *source, h.payload(), h.asks_for_slots());
}

namespace {

/// Runs the handler of a compact message by `call(token, handler)`. Returns false without any
/// effect if the caller must use accept() instead.
template <category C, class Call>
[[gnu::always_inline]] inline bool accept_compact(am2_endpoint& ep, thread_state& t, int node,
                                                  const compact_message& m,
                                                  const Call& call) noexcept {
  const endpoint_name from{node, m.from()};
  peer* const source = ep.mapped_at(from.node);
  const tag_t own = ep.tag.load(std::memory_order_relaxed);
  const std::uint8_t handler = m.handler();
  const category of_request = m.request_payload();
  const amx_handler_fn_t f = ep.handlers[handler].load(std::memory_order_relaxed);
  if (source == nullptr || source->name != from || own == AM_NONE ||
      (own != m.tag && own != AM_ALL) || f == nullptr || handler == 0 ||
      of_request > category::long_message || ep.bundle->is_parallel ||
      ep.before.load(std::memory_order_relaxed) != nullptr ||
      ep.after.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
    return false;
  }
  if (m.is_reply()) {
    give_one_slot_back(*source, of_request);
    ep.count(AM2_STATISTIC(replies_received) + static_cast<std::size_t>(C));
    const handler_run here(t, ep, source, from, m.tag, handler, C, false, false);
    call(&here.its_token(), f);
    return true;
  }
  ep.count(AM2_STATISTIC(requests_received) + static_cast<std::size_t>(C));
  bool has_replied = false;
  {
    const handler_run here(t, ep, source, from, m.tag, handler, C, true, true);
    call(&here.its_token(), f);
    has_replied = !here.its_token().can_reply;
  }
  if (!has_replied) note_no_reply(ep, *source, C, m.asks_for_slots());
  return true;
}

} // namespace

bool accept_at_once(am2_endpoint& ep, thread_state& t, int node, const compact_message& m,
                    std::span<const std::byte> payload) noexcept {
  if (m.payload() == category::short_message) {
    return accept_compact<category::short_message>(
        ep, t, node, m,
        [&](token* at, amx_handler_fn_t f) { call_short(f, at, &m.argument, m.arguments()); });
  }
  return accept_compact<category::medium>(ep, t, node, m, [&](token* at, amx_handler_fn_t f) {
    // The cast is valid, because the interface allows handlers to write to their payload and the
    // receiver's ring is writable.
    call_with_payload(f, at, const_cast<std::byte*>(payload.data()), payload.size(), &m.argument,
                      m.arguments());
  });
}

void accept_own(am2_endpoint& ep, const message& m) noexcept {
  const message_header& h = m.header;
  peer* const source = ep.find_peer(ep.name);
  ep.count(received_at(h));
  const bool is_reply = h.kind() == message_kind::reply;
  if (const int status = check(ep, m, source); status != 0) [[unlikely]] {
    run_returned(ep, source, ep.name, status, !is_reply, h);
    if (!is_reply) return;
    message_header request(message_kind::request, h.request_payload(), h.handler(), 0);
    request.tag = h.tag;
    run_returned(ep, source, ep.name, EREPLYREJECTED, true, request);
    return;
  }
  if (h.kind() == message_kind::get) {
    reply_get(ep, *source, m);
    return;
  }
  place(ep, m);
  message copy = m;
  if (h.payload() == category::medium) {
    // Copy the payload, because the handler may write to it and expects it to be aligned.
    thread_state& t = process::thread();
    std::vector<std::uint64_t>& to = t.payloads[t.running];
    to.resize((m.bytes + 7) / 8 + 1);
    if (m.bytes != 0) std::memcpy(to.data(), m.payload, m.bytes);
    copy.payload = to.data();
  }
  handler_run here(ep, source, ep.name, h, !is_reply, !is_reply);
  run(ep, here.its_token(), copy);
}

void refuse_unknown(int node, const message& m) noexcept {
  // Drop a part without a notice to the sender, because the long message to which it belongs is
  // refused, too.
  if (m.place == payload_place::part) return;
  switch (m.header.kind()) {
  case message_kind::request:
  case message_kind::get:
  case message_kind::reply:
    send_back({node, m.header.from}, m, m.header.to, EBADENDPOINT);
    return;
  default:
    return;
  }
}

} // namespace farcall::am2
