// SPDX-License-Identifier: Apache-2.0

// Decodes arbitrary bytes as any message of the control sockets, and as the data that connections
// between nodes need: gives a message or an error, and a decoded message can be encoded again. The
// first byte of the input selects the message.

#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/text.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/transport_messages.hpp>
#include <fuzz/support.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

namespace fc = farcall;
namespace messages = fc::messages;
using bytes = std::span<const std::byte>;
using fc::fuzz::require;

bool are_equal(const std::vector<std::byte>& a, bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Messages with a single encoding: encoding gives the same bytes again.
template <class Message>
void try_exact(bytes body) {
  require(are_equal(Message::decode(body).encode(), body));
}

/// Messages with several encodings: decoding and encoding twice gives the same as once.
template <class Message>
void try_settled(bytes body) {
  const std::vector<std::byte> once = Message::decode(body).encode();
  require(are_equal(Message::decode(once).encode(), once));
}

/// Messages with texts for people, which may hold any bytes: decoding makes them valid text.
template <class Message, std::string Message::* Text>
void try_text(bytes body) {
  const Message m = Message::decode(body);
  const std::string& text = m.*Text;
  require(fc::valid_text(text, fc::line_ends::kept) == text);
  const Message again = Message::decode(m.encode());
  require(text.size() > fc::byte_reader::max_text || again.*Text == text);
}

void try_hello(bytes body) {
  const auto m = messages::hello::decode(body);
  require(m.node != fc::host_id && m.node < m.nodes && m.nodes <= m.capacity && m.workers != 0);
  require(fc::tcp::is_ring_size(m.lane_bytes));
  try_settled<messages::hello>(body);
}

void try_memory(bytes body) {
  require(!messages::memory::decode(body).window_bytes.empty());
  try_exact<messages::memory>(body);
}

void try_output(bytes body) {
  const auto m = messages::output::decode(body);
  // The bytes are a view into the body.
  const auto* const begin = reinterpret_cast<const char*>(body.data());
  require(m.bytes.empty() ||
          (m.bytes.data() >= begin && m.bytes.data() + m.bytes.size() == begin + body.size()));
  try_exact<messages::output>(body);
}

void try_request(bytes frame) {
  const fc::target_request request = fc::decode_request(frame);
  const std::vector<std::byte> body = fc::encode_request(request);
  require(body.size() == fc::request_body_bytes && frame.size() == fc::request_frame_bytes);
  std::vector<std::byte> again(frame.begin(), frame.begin() + sizeof(fc::frame_header));
  again.insert(again.end(), body.begin(), body.end());
  require(fc::encode_request(fc::decode_request(again)) == body);
}

void try_credentials(bytes body) {
  const std::vector<std::byte> once = fc::encode_credentials(fc::decode_credentials(body));
  require(once.size() == body.size());
  require(fc::encode_credentials(fc::decode_credentials(once)) == once);
}

void try_addresses(const std::vector<fc::tcp::node_address>& addresses) {
  try {
    const auto leading = fc::tcp::addresses_from("a network", addresses);
    require(leading.size() <= addresses.size());
    // The text of an address leads to the same address.
    for (const fc::tcp::socket_address& a : leading) {
      const fc::tcp::node_address same{a.text(), ""};
      require(fc::tcp::addresses_from("", {&same, 1}).front() == a);
    }
  } catch (const fc::error&) {
    return;
  }
}

void try_setup(bytes body) {
  const fc::tcp_setup setup = fc::decode_setup(body);
  const std::vector<std::byte> once = fc::encode(setup);
  require(once.size() == body.size());
  require(fc::encode(fc::decode_setup(once)) == once);
  try_addresses(setup.addresses);
}

void try_card_addresses(bytes body) {
  fc::card peer;
  peer.transports.emplace("tcp", std::vector<std::byte>(body.begin(), body.end()));
  const auto told = fc::tcp::node_addresses::of(peer);
  // A node without addresses has no bytes.
  if (!body.empty()) require(are_equal(told.encode(), body));
  try_addresses(told.addresses);
}

void try_dial_request(bytes body) {
  require(are_equal(fc::tcp::encode(fc::tcp::decode_dial_request(body)), body));
}

void try_taken(bytes body) {
  require(are_equal(fc::tcp::encode_taken(fc::tcp::decode_taken(body)), body));
}

void try_ended(bytes body) {
  try_text<messages::ended, &messages::ended::how>(body);
  const auto m = messages::ended::decode(body);
  require(messages::ended::decode(m.encode()).code == m.code);
}

void try_node_failed(bytes body) {
  try_text<messages::node_failed, &messages::node_failed::why>(body);
  const auto m = messages::node_failed::decode(body);
  require(messages::node_failed::decode(m.encode()).node == m.node);
}

constexpr std::array tries{
    &try_settled<messages::present>,
    &try_memory,
    &try_hello,
    &try_settled<messages::joined>,
    &try_settled<messages::member>,
    &try_exact<messages::start>,
    &try_node_failed,
    &try_exact<messages::introduce>,
    &try_exact<messages::introduced>,
    &try_exact<messages::absent>,
    &try_exact<messages::shut_down>,
    &try_exact<messages::heartbeat>,
    &try_text<messages::refused, &messages::refused::why>,
    &try_text<messages::faulted, &messages::faulted::where>,
    &try_ended,
    &try_output,
    &try_exact<messages::written>,
    &try_exact<messages::quiet>,
    &try_exact<messages::round>,
    &try_exact<messages::file>,
    &try_exact<messages::setup>,
    &try_exact<messages::transport>,
    &try_request,
    &try_credentials,
    &try_setup,
    &try_card_addresses,
    &try_dial_request,
    &try_taken,
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A separate allocation, so that AddressSanitizer detects reads past the end.
  const std::vector<std::byte> body(reinterpret_cast<const std::byte*>(data) + 1,
                                    reinterpret_cast<const std::byte*>(data) + size);
  try {
    tries[data[0] % tries.size()](body);
  } catch (const fc::error&) {
    return 0;
  }
  return 0;
}
