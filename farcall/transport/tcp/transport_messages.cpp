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
