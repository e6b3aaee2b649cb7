// SPDX-License-Identifier: Apache-2.0

// Functions of the AM-2 interface that send requests, replies and gets.
#include "errors.hpp"
#include "process.hpp"

#include <array>
#include <cstdarg>
#include <cstdint>

using namespace farcall::am2;

namespace {

/// Arguments of a message, read from the arguments of a variadic function. Types smaller than int
/// arrive promoted to int.
class call_arguments {
 public:
  call_arguments(int count, va_list from) noexcept : is_sound_(count >= 0 && count <= 16) {
    for (int i = 0; is_sound_ && i < count; ++i)
      values_[static_cast<std::size_t>(i)] = va_arg(from, int);
  }
  [[nodiscard]] bool is_sound() const noexcept { return is_sound_; }
  [[nodiscard]] const std::int32_t* data() const noexcept { return values_.data(); }

 private:
  bool is_sound_;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only the first `count` are read
  std::array<std::int32_t, max_arguments> values_;
};

void count_sent(am2_endpoint& ep, std::size_t kind, const message& m) noexcept {
  const auto c = static_cast<std::size_t>(m.header.payload());
  ep.count(kind + c);
  const std::uint64_t payload = m.header.kind() == message_kind::get ? 0 : m.bytes;
  ep.count(AM2_STATISTIC(bytes_sent) + c,
           payload + 4 * static_cast<std::uint64_t>(m.header.arguments()));
}

/// Runs handler 0 for a request that is not sent because the receiver's process has ended. For the
/// program, the request thus comes back at once.
int return_unreachable(am2_endpoint& ep, peer& p, const message_header& h) noexcept {
  run_returned(ep, &p, p.name, EUNREACHABLE, true, h);
  return AM_OK;
}

/// Returns the reason why the arguments or the payload of a message are invalid; null if they are
/// valid.
const char* find_fault(const message& m, const call_arguments& arguments) noexcept {
  if (!arguments.is_sound()) return "there are 0 to 16 arguments";
  if (m.bytes > PTRDIFF_MAX) return "no memory has so many bytes; is the length a negative number?";
  if (m.payload == nullptr && m.bytes != 0 && m.header.kind() != message_kind::get)
    return "the payload is at NULL";
  return nullptr;
}

/// Returns the reason why a request to index `dest` of the translation table is invalid; null if it
/// is valid.
const char* find_fault(const am2_endpoint& ep, int dest, const message& m,
                       const call_arguments& arguments) noexcept {
  if (const char* const fault = find_fault(m, arguments)) return fault;
  if (ep.mapped_at(dest) == nullptr)
    return "nothing is mapped at this index of the translation table";
  return nullptr;
}

/// True if the next request to the peer should ask the peer to give slots back. Every n-th request
/// asks, and n is a quarter of the slots, rounded up.
bool asks_for_slots(const am2_endpoint& ep, peer& p) noexcept {
  const std::uint32_t n = p.sent.load(std::memory_order_relaxed) + 1;
  const bool asks = n >= (ep.depth.load(std::memory_order_relaxed) + 3) / 4;
  p.sent.store(asks ? 0 : n, std::memory_order_relaxed);
  return asks;
}

/// Number of compact requests after which send_compact_request() polls the bundle, because a
/// program may send many requests without polling itself.
constexpr unsigned requests_per_poll = 4;

/// Payload of a compact message: none for a short message, bytes in memory for a medium message.
struct no_payload {
  static constexpr category kind = category::short_message;
  static constexpr std::uint64_t bytes = 0;
  static constexpr bool is_sound = true;
};
struct medium_payload {
  static constexpr category kind = category::medium;
  const void* data;
  std::uint64_t bytes;
  bool is_sound = (data != nullptr || bytes == 0) && bytes <= PTRDIFF_MAX;
};

template <class Payload>
void count_compact_sent(am2_endpoint& ep, std::size_t kind, int count,
                        const Payload& payload) noexcept {
  constexpr auto c = static_cast<std::size_t>(Payload::kind);
  ep.count(kind + c);
  const std::uint64_t bytes = payload.bytes + sizeof(std::int32_t) * static_cast<unsigned>(count);
  if (bytes != 0) ep.count(AM2_STATISTIC(bytes_sent) + c, bytes);
}

/// Fast path of send_request() for requests with at most one argument. If there is an error or a
/// special case, returns false without sending anything, and the caller must use send_request().
/// Even then, the bundle may have been polled.
template <class Payload>
[[gnu::always_inline]] inline bool
send_compact_request(am2_endpoint* ep, int dest, handler_t handler, int count,
                     std::int32_t argument, const Payload& payload) {
  process& p = process::instance();
  if (!p.is_initialised() || ep == nullptr) return false;
  peer* const there = ep->mapped_at(dest);
  am2_bundle& b = *ep->bundle;
  thread_state& t = process::thread();
  if (there == nullptr || !there->route || b.is_parallel || t.running != 0 || !payload.is_sound)
    return false;
  // Poll only in one of several calls, because few messages have arrived shortly after a poll.
  const unsigned requests = b.requests_since_poll.load(std::memory_order_relaxed) + 1;
  b.requests_since_poll.store(requests, std::memory_order_relaxed);
  if (requests >= requests_per_poll) (void)p.poll(t, b);
  const std::uint32_t taken = there->outstanding_total.load(std::memory_order_relaxed);
  if (taken >= ep->depth.load(std::memory_order_relaxed) || p.some_have_ended() ||
      there->owed_total.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  const auto m = compact_message::request(
      Payload::kind, ep->table[static_cast<std::size_t>(dest)].tag.load(std::memory_order_relaxed),
      *there->route, handler, count, argument, asks_for_slots(*ep, *there));
  std::atomic<std::uint32_t>& of_kind = there->outstanding[std::size_t(Payload::kind)];
  there->outstanding_total.store(taken + 1, std::memory_order_relaxed);
  of_kind.store(of_kind.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  count_compact_sent(*ep, AM2_STATISTIC(requests_sent), count, payload);
  if constexpr (Payload::kind == category::short_message) {
    (void)p.send(b, there->name.node, m);
  } else if (p.send(b, there->name.node, m, payload.data, payload.bytes) == sending::no_memory)
      [[unlikely]] {
    give_one_slot_back(*there, Payload::kind);
    return false;
  }
  return true;
}

/// Fast path of send_reply() for replies with at most one argument. Returns false without any
/// effect if the caller must use send_reply().
template <class Payload>
[[gnu::always_inline]] inline bool send_compact_reply(void* to, handler_t handler, int count,
                                                      std::int32_t argument,
                                                      const Payload& payload) noexcept {
  if (to == nullptr) return false;
  token& t = *static_cast<token*>(to);
  if (!t.can_reply || t.source == nullptr || !payload.is_sound) return false;
  am2_endpoint& ep = *t.at;
  peer& there = *t.source;
  if (!there.route || ep.bundle->is_parallel ||
      there.owed_total.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  t.can_reply = false;
  const auto m = compact_message::reply(
      Payload::kind,
      ep.table[static_cast<std::size_t>(there.index)].tag.load(std::memory_order_relaxed),
      *there.route, handler, count, argument, t.payload);
  count_compact_sent(ep, AM2_STATISTIC(replies_sent), count, payload);
  if constexpr (Payload::kind == category::short_message) {
    process::instance().send_or_keep(there.name.node, m);
  } else {
    process::instance().send_or_keep(there.name.node, m, payload.data, payload.bytes);
  }
  return true;
}

/// Sends a request. `m` has the payload and the offsets. `function` is the name of the calling AM-2
/// function, for error reports. Returns the status that the calling function has to return.
// send_request() and send_reply() are inlined, because each caller sends messages of one kind only.
// The compiler can then remove the branches for other kinds.
[[gnu::always_inline]] inline int send_request(const char* function, am2_endpoint* ep, int dest,
                                               message& m, bool is_async,
                                               const call_arguments& arguments) {
  process& p = process::instance();
  if (!p.is_initialised()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, not_initialised);
  if (ep == nullptr) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the endpoint is NULL");
  if (!ep->is_ready()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, "AM_SetExpectedResources was not called");
  if (const char* const fault = find_fault(*ep, dest, m, arguments)) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, fault);
  if (process::thread().running != 0) [[unlikely]]
    return failed(AM_ERR_RESOURCE, function, "handlers may not send requests");

  const translation& to = ep->table[static_cast<std::size_t>(dest)];
  peer& there = *ep->mapped_at(dest);
  am2_bundle& b = *ep->bundle;
  m.arguments = arguments.data();
  m.header.tag = to.tag.load(std::memory_order_relaxed);
  m.header.from = ep->name.endpoint;
  m.header.to = there.name.endpoint;

  (void)p.poll(b);
  if (there.name == ep->name) {
    count_sent(*ep, AM2_STATISTIC(requests_sent), m);
    accept_own(*ep, m);
    return AM_OK;
  }
  const category c = m.header.payload();
  bool has_slot = take_slot(*ep, there, c);
  if (!has_slot) [[unlikely]] {
    // Return the status directly, because programs repeat the call until it succeeds. failed()
    // would report an error.
    if (is_async) return AM_ERR_IN_USE;
    ep->count(AM2_STATISTIC(slot_waits));
    p.wait_until(b, [&] {
      has_slot = has_slot || take_slot(*ep, there, c);
      return has_slot || p.has_ended(there.name.node);
    });
  }
  if (p.has_ended(there.name.node)) [[unlikely]] {
    if (has_slot) {
      credits slot{};
      slot[std::size_t(c)] = 1;
      give_slots_back(*ep, there, slot);
    }
    return return_unreachable(*ep, there, m.header);
  }
  if (asks_for_slots(*ep, there)) m.header.ask_for_slots();
  m.header.set_credits(take_owed(*ep, there));
  count_sent(*ep, AM2_STATISTIC(requests_sent), m);
  if (c == category::long_message && m.header.kind() == message_kind::request)
    try_place(*ep, there, m, true);
  // Return AM_OK also for sending::unreachable, which means that the receiver's node has ended. The
  // next poll returns all outstanding requests to that node to this endpoint, including the request
  // of this call.
  if (p.send(b, there.name.node, m) != sending::no_memory) return AM_OK;
  credits slot{};
  slot[std::size_t(c)] = 1;
  give_slots_back(*ep, there, slot);
  return failed(AM_ERR_RESOURCE, function,
                "there is no memory for the payload on its way; FARCALL_HEAP_BYTES is all "
                "that the process may share, with messages and as segments");
}

[[gnu::always_inline]] inline int send_reply(const char* function, void* to, message& m,
                                             const call_arguments& arguments) {
  process& p = process::instance();
  if (!p.is_initialised()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, not_initialised);
  if (to == nullptr) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the token is NULL");
  if (const char* const fault = find_fault(m, arguments)) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, fault);
  token& t = *static_cast<token*>(to);
  if (!t.can_reply) [[unlikely]]
    return failed(AM_ERR_RESOURCE, function,
                  "only the handler of a request may reply, once, while it runs");
  am2_endpoint& ep = *t.at;
  peer& there = *t.source;
  m.arguments = arguments.data();
  m.header.tag =
      ep.table[static_cast<std::size_t>(there.index)].tag.load(std::memory_order_relaxed);
  m.header.from = ep.name.endpoint;
  m.header.to = there.name.endpoint;
  m.header.set_request_payload(t.payload);
  t.can_reply = false;
  count_sent(ep, AM2_STATISTIC(replies_sent), m);
  if (there.name == ep.name) {
    accept_own(ep, m);
    return AM_OK;
  }
  credits back = take_owed(ep, there);
  if (back[std::size_t(t.payload)] < message_header::max_credits) {
    ++back[std::size_t(t.payload)];
  } else {
    owe_slot(ep, there, t.payload);
  }
  m.header.set_credits(back);
  if (m.header.payload() == category::long_message) try_place(ep, there, m, false);
  p.send_or_keep(there.name.node, m);
  return AM_OK;
}

message make(message_kind kind, category c, handler_t handler, int count) noexcept {
  return {message_header(kind, c, handler, count)};
}

} // namespace

int AMX_RequestVA(ep_t ep, int dest, handler_t handler, int numargs, va_list args) {
  message m = make(message_kind::request, category::short_message, handler, numargs);
  return send_request("AM_Request", ep, dest, m, false, {numargs, args});
}

int AMX_RequestIVA(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes, int numargs,
                   va_list args) {
  message m = make(message_kind::request, category::medium, handler, numargs);
  m.payload = source;
  m.bytes = nbytes;
  return send_request("AM_RequestI", ep, dest, m, false, {numargs, args});
}

int AMX_RequestXferVA(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                      uintptr_t dest_offset, int async, int numargs, va_list args) {
  message m = make(message_kind::request, category::long_message, handler, numargs);
  m.payload = source;
  m.bytes = nbytes;
  m.offset = dest_offset;
  return send_request(async != 0 ? "AM_RequestXferAsync" : "AM_RequestXfer", ep, dest, m,
                      async != 0, {numargs, args});
}

int AMX_GetXferVA(ep_t ep, int dest, uintptr_t source_offset, handler_t handler,
                  uintptr_t dest_offset, size_t nbytes, int async, int numargs, va_list args) {
  message m = make(message_kind::get, category::long_message, handler, numargs);
  m.bytes = nbytes;
  m.offset = source_offset;
  m.get_offset = dest_offset;
  return send_request(async != 0 ? "AM_GetXferAsync" : "AM_GetXfer", ep, dest, m, async != 0,
                      {numargs, args});
}

int AMX_ReplyVA(void* token, handler_t handler, int numargs, va_list args) {
  message m = make(message_kind::reply, category::short_message, handler, numargs);
  return send_reply("AM_Reply", token, m, {numargs, args});
}

int AMX_ReplyIVA(void* token, handler_t handler, void* source, size_t nbytes, int numargs,
                 va_list args) {
  message m = make(message_kind::reply, category::medium, handler, numargs);
  m.payload = source;
  m.bytes = nbytes;
  return send_reply("AM_ReplyI", token, m, {numargs, args});
}

int AMX_ReplyXferVA(void* token, handler_t handler, void* source, size_t nbytes,
                    uintptr_t dest_offset, int numargs, va_list args) {
  message m = make(message_kind::reply, category::long_message, handler, numargs);
  m.payload = source;
  m.bytes = nbytes;
  m.offset = dest_offset;
  return send_reply("AM_ReplyXfer", token, m, {numargs, args});
}

// ---- functions with variable arguments ---------------------------------------------------------

/// Calls `function` with the variable arguments that follow `numargs`, and returns its status.
#define AM2_FORWARD(function, ...)                                                                 \
  va_list args;                                                                                    \
  va_start(args, numargs);                                                                         \
  const int status = function(__VA_ARGS__, numargs, args);                                         \
  va_end(args);                                                                                    \
  return status

/// Fast path of a function that sends a message, for messages with at most one argument. Calls
/// `send`, and returns from the enclosing function if `send` succeeds. Otherwise the enclosing
/// function continues with AM2_FORWARD.
#define AM2_TRY_COMPACT(send, payload, ...)                                                        \
  if (static_cast<unsigned>(numargs) <= 1) [[likely]] {                                            \
    std::int32_t only = 0;                                                                         \
    if (numargs == 1) {                                                                            \
      va_list first;                                                                               \
      va_start(first, numargs);                                                                    \
      only = va_arg(first, int);                                                                   \
      va_end(first);                                                                               \
    }                                                                                              \
    if (send(__VA_ARGS__, numargs, only, payload)) [[likely]]                                      \
      return AM_OK;                                                                                \
  }

int AMX_Request(ep_t ep, int dest, handler_t handler, int numargs, ...) {
  AM2_TRY_COMPACT(send_compact_request, no_payload(), ep, dest, handler);
  AM2_FORWARD(AMX_RequestVA, ep, dest, handler);
}
int AMX_RequestI(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes, int numargs,
                 ...) {
  AM2_TRY_COMPACT(send_compact_request, (medium_payload{source, nbytes}), ep, dest, handler);
  AM2_FORWARD(AMX_RequestIVA, ep, dest, handler, source, nbytes);
}
int AMX_RequestXfer(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes,
                    uintptr_t dest_offset, int async, int numargs, ...) {
  AM2_FORWARD(AMX_RequestXferVA, ep, dest, handler, source, nbytes, dest_offset, async);
}
int AMX_GetXfer(ep_t ep, int dest, uintptr_t source_offset, handler_t handler,
                uintptr_t dest_offset, size_t nbytes, int async, int numargs, ...) {
  AM2_FORWARD(AMX_GetXferVA, ep, dest, source_offset, handler, dest_offset, nbytes, async);
}
int AMX_Reply(void* token, handler_t handler, int numargs, ...) {
  AM2_TRY_COMPACT(send_compact_reply, no_payload(), token, handler);
  AM2_FORWARD(AMX_ReplyVA, token, handler);
}
int AMX_ReplyI(void* token, handler_t handler, void* source, size_t nbytes, int numargs, ...) {
  AM2_TRY_COMPACT(send_compact_reply, (medium_payload{source, nbytes}), token, handler);
  AM2_FORWARD(AMX_ReplyIVA, token, handler, source, nbytes);
}
int AMX_ReplyXfer(void* token, handler_t handler, void* source, size_t nbytes,
                  uintptr_t dest_offset, int numargs, ...) {
  AM2_FORWARD(AMX_ReplyXferVA, token, handler, source, nbytes, dest_offset);
}
