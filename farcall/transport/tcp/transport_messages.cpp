// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>

#include <utility>

namespace farcall::tcp {

std::vector<std::byte> encode(const dial_request& request) {
  byte_writer w;
  w.number(request);
  return std::move(w).bytes();
}

dial_request decode_dial_request(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "a request to dial");
  const auto request = r.number<dial_request>();
  if (!r.empty()) throw malformed_message("a request to dial is followed by something else");
  return request;
}

std::vector<std::byte> encode(const delivery_message& message) {
  byte_writer w;
  w.number(message);
  return std::move(w).bytes();
}

std::optional<delivery_message> decode_delivery_message(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(delivery_message)) return std::nullopt;
  byte_reader r(bytes, "a message about a connection");
  const auto message = r.number<delivery_message>();
  if (message.what < delivery_question::how_far || message.what > delivery_question::given_up)
    throw malformed_message("a message about a connection is of an unknown kind");
  return message;
}

std::string not_called_back(node_id peer) {
  return node_text(peer) + " was asked to connect, and has not";
}

std::string tried_in_vain(node_id asked) {
  return node_text(asked) + " was asked to connect, and could not; its log says why";
}

std::string not_forwarded(node_id peer) {
  return "the host was asked to connect us with " + node_text(peer) + ", and has not";
}

std::vector<std::byte> encode_taken(socket_number socket) {
  byte_writer w;
  w.number(socket);
  return std::move(w).bytes();
}

socket_number decode_taken(std::span<const std::byte> bytes) {
  byte_reader r(bytes, "the number of a connection");
  const auto socket = r.number<socket_number>();
  if (!r.empty()) throw malformed_message("the number of a connection is followed by more");
  return socket;
}

} // namespace farcall::tcp
