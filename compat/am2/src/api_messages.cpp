// Requests, replies and gets.
#include "errors.hpp"
#include "process.hpp"

#include <array>
#include <cstdarg>

using namespace farcall::am2;

namespace {

/// Arguments of a call. Small types arrive as int.
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
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only those that there are are read
  std::array<std::int32_t, most_arguments> values_;
};

void count_sent(am2_endpoint& ep, std::size_t kind, const message& m) noexcept {
  const auto c = static_cast<std::size_t>(m.header.payload());
  ep.count(kind + c);
  const std::uint64_t payload = m.header.kind() == message_kind::get ? 0 : m.bytes;
  ep.count(AM2_STATISTIC(bytes_sent) + c,
           payload + 4 * static_cast<std::uint64_t>(m.header.arguments()));
}

/// The process of the peer has ended: the request comes back at once.
int return_unreachable(am2_endpoint& ep, const peer& p, const message_header& h) noexcept {
  run_returned(ep, &p, p.name, EUNREACHABLE, true, h);
  return AM_OK;
}

/// Why the arguments that all requests have are wrong, or null.
const char* find_fault(const am2_endpoint& ep, int dest, const call_arguments& arguments) noexcept {
  if (!arguments.is_sound()) return "there are 0 to 16 arguments";
  if (dest < 0 || static_cast<std::size_t>(dest) >= ep.table.size() ||
      !ep.table[static_cast<std::size_t>(dest)].is_in_use)
    return "nothing is mapped at this index of the translation table";
  return nullptr;
}

/// `function` returns what this returns. `m` has the payload and the offsets.
int send_request(const char* function, am2_endpoint* ep, int dest, message& m, bool is_async,
                 const call_arguments& arguments) {
  process& p = process::instance();
  if (!p.is_initialised()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, "AM_Init was not called");
  if (ep == nullptr) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the endpoint is NULL");
  if (!ep->is_ready()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, "AM_SetExpectedResources was not called");
  if (const char* const fault = find_fault(*ep, dest, arguments)) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, fault);
  if (m.payload == nullptr && m.bytes != 0 && m.header.kind() != message_kind::get) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the payload is at NULL");
  if (process::thread().running != 0) [[unlikely]]
    return failed(AM_ERR_RESOURCE, function, "handlers may not send requests");

  const translation& to = ep->table[static_cast<std::size_t>(dest)];
  peer& there = ep->peers[to.peer];
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
    // An answer, not an error: programs ask again until it is another one.
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
  // A quarter of the slots is asked for at a time.
  const std::uint32_t depth = ep->depth.load(std::memory_order_relaxed);
  const std::uint32_t n = there.sent.load(std::memory_order_relaxed) + 1;
  const bool asks = n >= (depth + 3) / 4;
  there.sent.store(asks ? 0 : n, std::memory_order_relaxed);
  if (asks) m.header.ask_for_slots();
  m.header.set_credits(take_owed(*ep, there));
  count_sent(*ep, AM2_STATISTIC(requests_sent), m);
  if (c == category::long_message && m.header.kind() == message_kind::request)
    try_place(*ep, there, m, true);
  // Where the node has ended meanwhile, its outstanding requests come back.
  (void)p.send(b, there.name.node, m);
  return AM_OK;
}

int send_reply(const char* function, void* to, message& m, const call_arguments& arguments) {
  process& p = process::instance();
  if (!p.is_initialised()) [[unlikely]]
    return failed(AM_ERR_NOT_INIT, function, "AM_Init was not called");
  if (to == nullptr) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the token is NULL");
  if (!arguments.is_sound()) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "there are 0 to 16 arguments");
  if (m.payload == nullptr && m.bytes != 0) [[unlikely]]
    return failed(AM_ERR_BAD_ARG, function, "the payload is at NULL");
  token& t = *static_cast<token*>(to);
  if (!t.can_reply) [[unlikely]]
    return failed(AM_ERR_RESOURCE, function,
                  "only the handler of a request may reply, once, while it runs");
  am2_endpoint& ep = *t.at;
  // What accept() has found in the table.
  peer& there = ep.peers[static_cast<std::size_t>(t.source - ep.peers.get())];
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
  if (back[std::size_t(t.payload)] < message_header::most_credits) {
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

// ---- the same with the arguments themselves ----------------------------------------------------

/// Calls `function` with the arguments that follow `numargs`.
#define AM2_FORWARD(function, ...)                                                                 \
  va_list args;                                                                                    \
  va_start(args, numargs);                                                                         \
  const int status = function(__VA_ARGS__, numargs, args);                                         \
  va_end(args);                                                                                    \
  return status

int AMX_Request(ep_t ep, int dest, handler_t handler, int numargs, ...) {
  AM2_FORWARD(AMX_RequestVA, ep, dest, handler);
}
int AMX_RequestI(ep_t ep, int dest, handler_t handler, void* source, size_t nbytes, int numargs,
                 ...) {
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
  AM2_FORWARD(AMX_ReplyVA, token, handler);
}
int AMX_ReplyI(void* token, handler_t handler, void* source, size_t nbytes, int numargs, ...) {
  AM2_FORWARD(AMX_ReplyIVA, token, handler, source, nbytes);
}
int AMX_ReplyXfer(void* token, handler_t handler, void* source, size_t nbytes,
                  uintptr_t dest_offset, int numargs, ...) {
  AM2_FORWARD(AMX_ReplyXferVA, token, handler, source, nbytes, dest_offset);
}
