// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/future.hpp>
#include <farcall/c/message_parts.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/call/message_handler.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <variant>

using namespace farcall;
using namespace farcall::c;

namespace {

/// Sends the message of a call. Returns the pending_call object that waits for the reply, or null
/// for a posted call, which has no reply.
template <detail::call_mode Mode>
am::pending_call* send_call(const detail::call_place& to, fc_function function,
                            const message_parts& bytes) {
  if (function == 0)
    throw invalid_argument("function is 0: fc_named() has failed, or was not called");
  const am::handler_key key =
      key_resolver::key_for(to.messages, named_entry, to.job.context, to.deadline);
  return detail::send_message<Mode>(to.messages, key, handle_of(function), to.deadline,
                                    named_call{function}, bytes.payload());
}

/// Starts a call. The node is told to stop the call if it ends at its deadline, or if
/// fc_stoppable() has marked the node and the call is stopped.
future<message_reply> start_call(const fc_node& where, fc_function function,
                                 const message_parts& bytes, time_point send_by) {
  const detail::call_place to = c::place_of(where, send_by);
  const time_point deadline = c::deadline_of(where);
  const bool is_stoppable =
      (deadline != no_deadline || (where.flags & stoppable_flag) != 0) && to.messages.takes_stops();
  am::pending_call* const slot = is_stoppable
                                     ? send_call<detail::call_mode::stoppable>(to, function, bytes)
                                     : send_call<detail::call_mode::awaited>(to, function, bytes);
  return detail::future_access::make<message_reply>(slot, deadline);
}

future<message_reply> start_call(const fc_node& where, fc_function function,
                                 const message_parts& bytes) {
  return start_call(where, function, bytes, c::deadline_of(where));
}

} // namespace

fc_future* farcall::c::start_future(const fc_node& where, fc_function function,
                                    const message_parts& bytes, time_point send_by) {
  return future_of_call(where, function,
                        [&] { return start_call(where, function, bytes, send_by); });
}

fc_status fc_call(fc_node where, fc_function function, const void* bytes, size_t size, void* result,
                  size_t capacity, size_t* result_size) {
  return guarded_wait([&] {
    if (capacity != 0) require(result, "result");
    const fc_bytes part{bytes, size};
    auto reply = start_call(where, function, message_parts(&part, 1));
    wait_or_stop(reply);
    const message_reply got = result_of(reply, function);
    const std::size_t n = got.bytes().size();
    if (result_size != nullptr) *result_size = n;
    if (n != 0 && capacity != 0) std::memcpy(result, got.bytes().data(), std::min(n, capacity));
    if (n <= capacity) return;
    throw invalid_argument("the reply has " + std::to_string(n) +
                               " bytes, and there was space for " + std::to_string(capacity),
                           where.id);
  });
}

fc_status fc_callv(fc_node where, fc_function function, const fc_bytes* parts, size_t part_count,
                   fc_future** result) {
  return guarded_wait([&] {
    require(result, "result");
    std::unique_ptr<fc_future> call(
        start_future(where, function, message_parts(parts, part_count), c::deadline_of(where)));
    wait_or_stop(std::get<future<message_reply>>(call->pending));
    // Leave a reply where it is, because fc_future_get() takes it from there.
    if (state_of(*call)->failure()) [[unlikely]] {
      settle(*call);
      std::rethrow_exception(call->failure);
    }
    *result = call.release();
  });
}

fc_status fc_call_async(fc_node where, fc_function function, const void* bytes, size_t size,
                        fc_future** future) {
  const fc_bytes part{bytes, size};
  return fc_call_asyncv(where, function, &part, 1, future);
}

fc_status fc_call_asyncv(fc_node where, fc_function function, const fc_bytes* parts,
                         size_t part_count, fc_future** future) {
  return guarded_wait([&] {
    require(future, "future");
    *future =
        start_future(where, function, message_parts(parts, part_count), c::deadline_of(where));
  });
}

fc_status fc_try_call_async(fc_node where, fc_function function, const fc_bytes* parts,
                            size_t part_count, fc_future** future) {
  return guarded([&] {
    require(future, "future");
    try {
      *future = start_future(where, function, message_parts(parts, part_count), without_waiting);
    } catch (const timeout& e) {
      return fail(FC_WOULD_BLOCK, e.what(), e.node());
    }
    return FC_OK;
  });
}

fc_status fc_post(fc_node where, fc_function function, const void* bytes, size_t size) {
  const fc_bytes part{bytes, size};
  return fc_postv(where, function, &part, 1);
}

fc_status fc_postv(fc_node where, fc_function function, const fc_bytes* parts, size_t part_count) {
  return guarded_wait([&] {
    (void)send_call<detail::call_mode::posted>(c::place_of(where, c::deadline_of(where)), function,
                                               message_parts(parts, part_count));
  });
}
