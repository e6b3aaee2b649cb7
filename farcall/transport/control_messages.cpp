// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/version.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/wire_release.hpp>

#include <csignal>

namespace farcall::messages {
namespace {

/// Largest number of memory windows of a node. A message carries up to 8 descriptors: one for the
/// node's receive segment, and one for each of its windows.
constexpr std::uint32_t max_windows = 7;
constexpr std::uint32_t max_workers_of_node = 256;

/// Returns a peer's text for display on a terminal: U+FFFD replaces control characters, except line
/// ends.
std::string printable(const std::string& text) { return valid_text(text, line_ends::kept); }

void require_end(const byte_reader& r, const char* what) {
  if (!r.empty()) throw malformed_message(std::string(what) + " is followed by something else");
}

void require_nothing(std::span<const std::byte> body, const char* what) {
  require_end(byte_reader(body, what), what);
}

std::vector<std::byte> encode_text(const std::string& text) {
  byte_writer w;
  w.text(text.substr(0, byte_reader::max_text));
  return std::move(w).bytes();
}

std::string decode_text(std::span<const std::byte> body, const char* what) {
  byte_reader r(body, what);
  std::string text = r.text();
  require_end(r, what);
  return text;
}

std::vector<std::byte> encode_node(node_id node) {
  byte_writer w;
  w.number(node);
  return std::move(w).bytes();
}
node_id decode_node(std::span<const std::byte> body, const char* what) {
  byte_reader r(body, what);
  const auto node = r.number<node_id>();
  require_end(r, what);
  return node;
}

} // namespace

std::vector<std::byte> member::encode() const {
  std::vector<std::byte> body{knows_you ? std::byte{1} : std::byte{0}};
  const std::vector<std::byte> bytes = farcall::encode(node);
  body.insert(body.end(), bytes.begin(), bytes.end());
  return body;
}

member member::decode(std::span<const std::byte> body) {
  if (body.empty() || body.front() > std::byte{1}) {
    throw malformed_message("a message that introduces a node says neither yes nor no");
  }
  return {decode_card(body.subspan(1)), body.front() == std::byte{1}};
}

std::vector<std::byte> present::encode() const { return encode_format(); }

present present::decode(std::span<const std::byte> body) {
  check_format(body);
  return {};
}

std::vector<std::byte> memory::encode() const {
  byte_writer w;
  w.number(node);
  w.number(receive_segment_bytes);
  w.number(static_cast<std::uint32_t>(window_bytes.size()));
  for (const std::uint64_t bytes : window_bytes)
    w.number(bytes);
  return std::move(w).bytes();
}

memory memory::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the message with a node's memory";
  byte_reader r(body, what);
  memory m;
  m.node = r.number<node_id>();
  m.receive_segment_bytes = r.number<std::uint64_t>();
  const auto windows = r.number<std::uint32_t>();
  if (windows == 0 || windows > max_windows) {
    throw malformed_message("a node has an impossible number of windows");
  }
  for (std::uint32_t i = 0; i < windows; ++i)
    m.window_bytes.push_back(r.number<std::uint64_t>());
  require_end(r, what);
  return m;
}

std::vector<std::byte> hello::encode() const {
  byte_writer w;
  w.number(wire_version);
  w.number(this_release);
  w.number(node);
  w.number(nodes);
  w.number(capacity);
  w.number(lane_bytes);
  w.number(heap_bytes);
  w.number(workers);
  w.number(cpu ? static_cast<std::int32_t>(*cpu) : -1);
  w.text(name);
  w.text(scheme);
  w.block(settings);
  return std::move(w).bytes();
}

hello hello::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the host's greeting";
  byte_reader r(body, what);
  const auto version = r.number<std::uint32_t>();
  const auto release = version < first_wire_version_with_release ? 0 : r.number<std::uint32_t>();
  if (version != wire_version) {
    throw error("the host is built with another version of farcall: " +
                difference_text(release, version));
  }
  hello m;
  m.node = r.number<node_id>();
  m.nodes = r.number<std::uint32_t>();
  m.capacity = r.number<std::uint32_t>();
  m.lane_bytes = r.number<std::uint32_t>();
  m.heap_bytes = r.number<std::uint64_t>();
  m.workers = r.number<std::uint32_t>();
  if (const auto cpu = r.number<std::int32_t>(); cpu >= 0) m.cpu = static_cast<unsigned>(cpu);
  m.name = r.text();
  m.scheme = r.text();
  const auto settings = r.block();
  m.settings.assign(settings.begin(), settings.end());
  require_end(r, what);
  if (place_of(m.node) == host_id || place_of(m.node) >= m.nodes ||
      epoch_of(m.node) > last_node_epoch || m.nodes > m.capacity || m.workers == 0 ||
      m.workers > max_workers_of_node) {
    throw malformed_message("the host's greeting is inconsistent");
  }
  if (m.lane_bytes < min_ring || !is_power_of_two(m.lane_bytes) || m.lane_bytes > max_ring) {
    throw malformed_message("the host's greeting has an impossible size of lanes");
  }
  return m;
}

start start::decode(std::span<const std::byte> body) {
  require_nothing(body, "the message to start");
  return {};
}

std::vector<std::byte> node_failed::encode() const {
  byte_writer w;
  w.number(node);
  w.text(why.substr(0, byte_reader::max_text));
  return std::move(w).bytes();
}

node_failed node_failed::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the notice of a node's failure";
  byte_reader r(body, what);
  node_failed m;
  m.node = r.number<node_id>();
  m.why = printable(r.text());
  require_end(r, what);
  return m;
}

std::vector<std::byte> introduce::encode() const { return encode_node(node); }

introduce introduce::decode(std::span<const std::byte> body) {
  return {decode_node(body, "the request to introduce a node")};
}

std::vector<std::byte> introduced::encode() const { return encode_node(node); }

introduced introduced::decode(std::span<const std::byte> body) {
  return {decode_node(body, "the message that a node is known")};
}

std::vector<std::byte> absent::encode() const {
  byte_writer w;
  w.number(node);
  w.number(nodes);
  return std::move(w).bytes();
}

absent absent::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the message that there is no such node";
  byte_reader r(body, what);
  absent m;
  m.node = r.number<node_id>();
  m.nodes = r.number<std::uint32_t>();
  require_end(r, what);
  return m;
}

shut_down shut_down::decode(std::span<const std::byte> body) {
  require_nothing(body, "the message to shut down");
  return {};
}

heartbeat heartbeat::decode(std::span<const std::byte> body) {
  require_nothing(body, "a heartbeat");
  return {};
}

std::vector<std::byte> refused::encode() const { return encode_text(why); }

refused refused::decode(std::span<const std::byte> body) {
  return {printable(decode_text(body, "a target's refusal"))};
}

std::vector<std::byte> faulted::encode() const {
  byte_writer w;
  w.number(signal);
  w.number(std::uint8_t{has_names});
  w.text(where.substr(0, byte_reader::max_text));
  return std::move(w).bytes();
}

faulted faulted::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the place of a target's fault";
  byte_reader r(body, what);
  faulted m;
  m.signal = r.number<std::int32_t>();
  if (m.signal < 1 || m.signal >= NSIG) throw malformed_message(std::string(what) + ": no signal");
  m.has_names = r.number<std::uint8_t>() != 0;
  m.where = printable(r.text());
  require_end(r, what);
  return m;
}

std::vector<std::byte> ended::encode() const {
  byte_writer w;
  w.text(how.substr(0, byte_reader::max_text));
  w.number(code);
  return std::move(w).bytes();
}

ended ended::decode(std::span<const std::byte> body) {
  constexpr const char* what = "a target's end";
  byte_reader r(body, what);
  ended m;
  m.how = printable(r.text());
  m.code = r.number<std::int32_t>();
  require_end(r, what);
  return m;
}

std::vector<std::byte> output::encode() const {
  byte_writer w;
  w.number(static_cast<std::uint8_t>(stream));
  w.block(std::as_bytes(std::span(bytes)));
  return std::move(w).bytes();
}

output output::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the output of a target";
  byte_reader r(body, what);
  output m;
  m.stream = static_cast<output_stream>(r.number<std::uint8_t>());
  if (m.stream != output_stream::output && m.stream != output_stream::error)
    throw malformed_message("a target prints to an unknown stream");
  const std::span<const std::byte> bytes = r.block();
  m.bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  require_end(r, what);
  return m;
}

std::vector<std::byte> written::encode() const {
  byte_writer w;
  w.number(bytes);
  return std::move(w).bytes();
}

written written::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the number of written bytes";
  byte_reader r(body, what);
  written m;
  m.bytes = r.number<std::uint32_t>();
  require_end(r, what);
  return m;
}

std::vector<std::byte> quiet::encode() const {
  byte_writer w;
  w.number(round);
  w.number(std::uint8_t{was_active});
  return std::move(w).bytes();
}

quiet quiet::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the message that a node is quiet";
  byte_reader r(body, what);
  quiet m;
  m.round = r.number<std::uint32_t>();
  const auto was_active = r.number<std::uint8_t>();
  require_end(r, what);
  if (was_active > 1) throw malformed_message(std::string(what) + " says neither yes nor no");
  m.was_active = was_active == 1;
  return m;
}

std::vector<std::byte> round::encode() const {
  byte_writer w;
  w.number(number);
  return std::move(w).bytes();
}

round round::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the message that a round begins";
  byte_reader r(body, what);
  round m;
  m.number = r.number<std::uint32_t>();
  require_end(r, what);
  return m;
}

std::vector<std::byte> file::encode() const {
  byte_writer w;
  w.number(number);
  return std::move(w).bytes();
}

file file::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the message with an open file";
  byte_reader r(body, what);
  file m;
  m.number = r.number<std::uint64_t>();
  require_end(r, what);
  return m;
}

std::vector<std::byte> setup::encode() const {
  byte_writer w;
  w.text(scheme);
  w.block(bytes);
  return std::move(w).bytes();
}

setup setup::decode(std::span<const std::byte> body) {
  constexpr const char* what = "the setup of a transport";
  byte_reader r(body, what);
  setup m;
  m.scheme = r.text();
  const auto bytes = r.block();
  m.bytes.assign(bytes.begin(), bytes.end());
  require_end(r, what);
  return m;
}

std::vector<std::byte> transport::encode() const {
  byte_writer w;
  w.number(peer);
  w.text(scheme);
  w.block(bytes);
  return std::move(w).bytes();
}

transport transport::decode(std::span<const std::byte> body) {
  constexpr const char* what = "a transport's message";
  byte_reader r(body, what);
  transport m;
  m.peer = r.number<node_id>();
  m.scheme = r.text();
  const auto bytes = r.block();
  m.bytes.assign(bytes.begin(), bytes.end());
  require_end(r, what);
  return m;
}

} // namespace farcall::messages
