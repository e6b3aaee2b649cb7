// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/call/message_handler.hpp>

#include <cstddef>
#include <cstring>
#include <span>

/// Raw active messages: a program sends bytes, and a handler of the receiver, which consists of a
/// function and an object, gets them. The bytes are not packed, and are not copied on arrival. For
/// libraries that have their own message format; programs normally use async().
///
///     struct row_header { std::uint32_t row; std::uint32_t step; };   // the message's type
///
///     void take_row(void* solver, row_header h, fc::message& m) {
///       static_cast<class solver*>(solver)->take(h.row, h.step, m.payload());
///     }
///
///     fc::set_message_handler<row_header>(fc::this_node(), {take_row, &solver});
///     fc::post_message(neighbour, row_header{7, step}, std::as_bytes(std::span(row)));
///
/// A message is sent and run like a call: in the order of its lane and with the lane's flow
/// control. It runs on a worker of the receiver, or in job::progress() on the main thread of a node
/// of a job of equals. A prefix type is identified by its name, like a callable. Nodes with
/// different builds therefore agree on the types, and the messages of one library cannot be
/// mistaken for messages of another library. In a job of equals, each node sets its handlers and
/// then calls job::barrier() before it sends, so that all handlers are set. Like UCX's
/// ucp_am_send_nbx().
namespace farcall {

namespace detail {

void set_message_handler(const node& here, std::uint32_t number, void (*run)(), void* context);

/// Writes the payload's bytes into the record from which they are sent.
struct copy_payload {
  const std::byte* from;
  std::size_t bytes;
  void operator()(std::byte* to) const noexcept { std::memcpy(to, from, bytes); }
};
inline payload_in_place<copy_payload> in_place(std::span<const std::byte> payload) noexcept {
  return {payload.size(), {payload.data(), payload.size()}};
}
template <class Fill>
const payload_in_place<Fill>& in_place(const payload_in_place<Fill>& payload) noexcept {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): used within the caller's expression
  return payload;
}

template <call_mode Mode, class Prefix, class Payload>
sent_call<Mode> send_message_to(const call_place& p, const Prefix& prefix, const Payload& payload) {
  const am::handler_key key =
      key_resolver::key_for(p.messages, message_type<Prefix>::self, p.job.context, p.deadline);
  return send_message<Mode>(p.messages, key, {}, p.deadline, prefix, in_place(payload));
}

} // namespace detail

/// Sets the handler of messages with a prefix of type `Prefix` that arrive at this node, until the
/// job ends. Replaces the previous handler, which other threads may still be about to run. If the
/// type has no handler, or its handler has no function, messages are refused. The sender of a
/// refused message gets unknown_function; if the message was posted, this node logs a line instead.
/// `here` must be this node, which is fc::this_node(). In a process with several jobs, it is the
/// host() of one of these jobs. Any thread. Throws error for another node, and if the program has
/// more than 255 types of messages.
template <class Prefix>
void set_message_handler(const node& here, const message_handler<Prefix>& handler) {
  // Use the registry's entry of the type, so that the program has this entry. Peers find the type
  // by it.
  [[maybe_unused]] const entry& known = detail::message_type<Prefix>::self;
  detail::set_message_handler(here, detail::message_type<Prefix>::number,
                              reinterpret_cast<void (*)()>(handler.run), handler.context);
}

/// Sends a message to a node, or in a lane, without a reply. `prefix` is trivially copyable,
/// without pointers, and has at most 64 bytes. `payload` is a std::span<const std::byte> of any
/// length, or a payload_in_place. Waits only while the lane is full. Any thread. Throws
/// node_failed, timeout (within()), out_of_memory, and unknown_function if the node's program has
/// no messages of the type.
template <detail::place Place, class Prefix, class Payload = std::span<const std::byte>>
void post_message(const Place& place, const Prefix& prefix, const Payload& payload = {}) {
  (void)detail::send_message_to<detail::call_mode::posted>(detail::find_place(place), prefix,
                                                           payload);
}

/// Sends like post_message(), but returns false, without effect, if post_message() would wait
/// because the lane is full. Use it in handlers. Waits in two cases only. The first message of a
/// thread to a node opens a lane. The first message of a type from a library that was loaded after
/// the first job asks the node for the type. Throws what post_message() throws; timeout only in
/// these two cases.
template <detail::place Place, class Prefix, class Payload = std::span<const std::byte>>
[[nodiscard]] bool try_post_message(const Place& place, const Prefix& prefix,
                                    const Payload& payload = {}) {
  return detail::send_message_to<detail::call_mode::tried>(detail::find_place(place), prefix,
                                                           payload);
}

/// Sends like post_message(), and returns the future of the handler's reply. The future also holds
/// a failure of the node, and the exception of the handler. Throws what post_message() throws.
template <detail::place Place, class Prefix, class Payload = std::span<const std::byte>>
[[nodiscard]] future<message_reply> async_message(const Place& place, const Prefix& prefix,
                                                  const Payload& payload = {}) {
  const detail::call_place p = detail::find_place(place);
  am::pending_call* const slot =
      detail::is_to_be_stopped<Place>(p)
          ? detail::send_message_to<detail::call_mode::stoppable>(p, prefix, payload)
          : detail::send_message_to<detail::call_mode::awaited>(p, prefix, payload);
  return detail::future_access::make<message_reply>(slot, p.deadline);
}

} // namespace farcall
