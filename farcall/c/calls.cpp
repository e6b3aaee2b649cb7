#include <farcall/async/stop_token.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/future.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/call/message_handler.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

using namespace farcall;
using namespace farcall::c;

namespace {

/// Sends the message of a call. Returns the pending_call object that waits for the reply, or null
/// for a posted call, which has no reply.
template <detail::call_mode Mode>
am::pending_call* send_call(const detail::call_place& to, fc_function function, const void* bytes,
                            std::size_t size) {
  if (function == 0)
    throw invalid_argument("function is 0: fc_named() has failed, or was not called");
  if (size != 0) require(bytes, "bytes");
  require_size(size);
  const am::handler_key key =
      key_resolver::key_for(to.messages, named_entry, to.job.context, to.deadline);
  const auto copy = [&](std::byte* payload) noexcept { std::memcpy(payload, bytes, size); };
  return detail::send_message<Mode>(to.messages, key, handle_of(function), to.deadline,
                                    named_call{function}, payload_in_place(size, copy));
}

future<message_reply> start_call(const fc_node& where, fc_function function, const void* bytes,
                                 std::size_t size) {
  const detail::call_place to = c::place_of(where);
  am::pending_call* const slot =
      detail::is_to_be_stopped<timed_node>(to)
          ? send_call<detail::call_mode::stoppable>(to, function, bytes, size)
          : send_call<detail::call_mode::awaited>(to, function, bytes, size);
  return detail::future_access::make<message_reply>(slot, to.deadline);
}

fc_future* start_stoppable_call(const fc_node& where, fc_function function, const void* bytes,
                                std::size_t size) {
  const detail::call_place to = c::place_of(where);
  // Use am::stop_state, because some standard libraries lack std::stop_source.
  counted_ptr<am::stop_state> stop(new am::stop_state);
  am::pending_call* const slot =
      to.messages.takes_stops() ? send_call<detail::call_mode::stoppable>(to, function, bytes, size)
                                : send_call<detail::call_mode::awaited>(to, function, bytes, size);
  auto call = stop_when(detail::future_access::make<message_reply>(slot, to.deadline),
                        call_stop_token(stop));
  return new fc_future(std::move(call), function, std::move(stop));
}

} // namespace

fc_status fc_call(fc_node where, fc_function function, const void* bytes, size_t size, void* result,
                  size_t capacity, size_t* result_size) {
  return guarded([&] {
    if (capacity != 0) require(result, "result");
    auto reply = start_call(where, function, bytes, size);
    reply.wait();
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

fc_status fc_call_async(fc_node where, fc_function function, const void* bytes, size_t size,
                        fc_future** future) {
  return guarded([&] {
    require(future, "future");
    if ((where.flags & stoppable_flag) != 0) [[unlikely]] {
      *future = start_stoppable_call(where, function, bytes, size);
    } else {
      *future = new fc_future(start_call(where, function, bytes, size), function);
    }
  });
}

fc_status fc_post(fc_node where, fc_function function, const void* bytes, size_t size) {
  return guarded([&] {
    (void)send_call<detail::call_mode::posted>(c::place_of(where), function, bytes, size);
  });
}
