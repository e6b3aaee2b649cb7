// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/output_sink.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Bodies of the messages on control sockets (docs/wire.md), one struct each. encode() returns the
/// bytes. decode() reads bytes that another process has sent, and throws malformed_message if they
/// are not exactly one such message.
namespace farcall::messages {

/// First message of a target. It consists of the format of the target's program, which
/// encode_format() returns.
struct present {
  static constexpr control kind = control::present;
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws malformed_message if the bytes are no such message, and error if this program cannot
  /// work with the sender's format.
  [[nodiscard]] static present decode(std::span<const std::byte> body);
};

/// The host sends the target the memory of a node on the same machine. The message has
/// descriptors: first the descriptor of the receive segment, then the descriptors of the windows.
struct memory {
  static constexpr control kind = control::memory;
  node_id node = no_node;
  std::uint64_t receive_segment_bytes = 0;
  std::vector<std::uint64_t> window_bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static memory decode(std::span<const std::byte> body);
};

/// The host tells the target its number and its settings in this job.
struct hello {
  static constexpr control kind = control::hello;
  node_id node = no_node;
  std::uint32_t nodes = 0;
  /// Limit of the node numbers: all are lower, even of nodes that join later.
  std::uint32_t capacity = 0;
  std::uint32_t lane_bytes = 0; ///< size of a ring
  /// Limit of the memory that the node shares. 0 means all memory of the machine.
  std::uint64_t heap_bytes = 0;
  std::uint32_t workers = 1;
  std::optional<unsigned> cpu;
  std::string name;
  std::string scheme;
  std::vector<std::byte> settings; ///< settings of the upper layers, in their own encoding
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws malformed_message if the bytes are no such message, and error if the message has
  /// another wire version.
  [[nodiscard]] static hello decode(std::span<const std::byte> body);
};

/// The target sends its own card.
struct joined {
  static constexpr control kind = control::joined;
  card mine;
  [[nodiscard]] std::vector<std::byte> encode() const { return farcall::encode(mine); }
  [[nodiscard]] static joined decode(std::span<const std::byte> body) {
    return {decode_card(body)};
  }
};

/// The host sends the card of a node.
struct member {
  static constexpr control kind = control::member;
  card node;
  /// True if the node of the card already has this target's card. If false, the host sends this
  /// target's card to that node next, and then sends this message once more with the value true.
  bool knows_you = false;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static member decode(std::span<const std::byte> body);
};

/// The host has sent all data for the start; the target starts when it receives this message.
struct start {
  static constexpr control kind = control::start;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static start decode(std::span<const std::byte> body);
};

/// The host reports that a node has left the job.
struct node_failed {
  static constexpr control kind = control::node_failed;
  node_id node = no_node;
  std::string why; ///< reason, truncated to the maximum length of a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static node_failed decode(std::span<const std::byte> body);
};

/// The target asks the host to introduce it to node `node`, whose card it does not have. The host
/// first sends this target's card to that node, and then that node's card to this target.
struct introduce {
  static constexpr control kind = control::introduce;
  node_id node = no_node;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static introduce decode(std::span<const std::byte> body);
};

/// The target reports that it has got the card of node `node`, and that it serves the lanes that
/// node `node` opens.
struct introduced {
  static constexpr control kind = control::introduced;
  node_id node = no_node;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static introduced decode(std::span<const std::byte> body);
};

/// The host replies to `introduce` that no node has this number.
struct absent {
  static constexpr control kind = control::absent;
  node_id node = no_node;
  std::uint32_t nodes = 0; ///< number of nodes in the job
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static absent decode(std::span<const std::byte> body);
};

/// The host asks the target to finish the messages that have arrived, and to end.
struct shut_down {
  static constexpr control kind = control::shut_down;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static shut_down decode(std::span<const std::byte> body);
};

/// Heartbeat. The host sends this message to ask the target for a heartbeat, and the target sends
/// the same message as its reply.
struct heartbeat {
  static constexpr control kind = control::heartbeat;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static heartbeat decode(std::span<const std::byte> body);
};

/// The target reports why it cannot join the job, or cannot continue.
struct refused {
  static constexpr control kind = control::refused;
  std::string why; ///< reason, truncated to the maximum length of a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static refused decode(std::span<const std::byte> body);
};

/// The target reports the place of the fault that is ending it. All other threads of the target
/// have stopped, with the exceptions that stop_other_threads() makes, for instance for event loops.
/// The target sends at most two such messages, and the host uses the last one. The first message
/// has only the place. The second message also names the functions that were running.
struct faulted {
  static constexpr control kind = control::faulted;
  std::int32_t signal = 0; ///< signal that ends the target
  bool has_names = false;  ///< true in the last message, which names the functions
  std::string where;       ///< place of the fault, truncated to the maximum length of a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static faulted decode(std::span<const std::byte> body);
};

/// The server reports how the target has ended, or why the server can no longer reach it.
struct ended {
  static constexpr control kind = control::ended;
  std::string how; ///< reason, truncated to the maximum length of a text
  /// Exit code, as child_process::exit_code() returns it; negative if unknown.
  std::int32_t code = -1;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static ended decode(std::span<const std::byte> body);
};

/// The server sends output of the target to the host. Targets never receive this message.
struct output {
  static constexpr control kind = control::output;
  output_stream stream = output_stream::output;
  std::string_view bytes; ///< output; a view into the body that was given to decode()
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static output decode(std::span<const std::byte> body);
};

/// The host tells a server how many more bytes of the target's output it has written. The server
/// may then send the same number of further bytes.
struct written {
  static constexpr control kind = control::written;
  std::uint32_t bytes = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static written decode(std::span<const std::byte> body);
};

/// The target reports that it has no more work in this round. The job is a job of equals that is
/// ending. Another node may still send the target work.
struct quiet {
  static constexpr control kind = control::quiet;
  std::uint32_t round = 0;
  bool was_active = false; ///< true if the target has sent messages since the previous round
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static quiet decode(std::span<const std::byte> body);
};

/// The host of a job of equals that is ending reports that all nodes were quiet in the previous
/// round, and that this round begins.
struct round {
  static constexpr control kind = control::round;
  std::uint32_t number = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static round decode(std::span<const std::byte> body);
};

/// The host replies to a target's request for an open file. The reply has the request's number, and
/// the file's descriptor is attached.
struct file {
  static constexpr control kind = control::file;
  std::uint64_t number = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static file decode(std::span<const std::byte> body);
};

/// The host sends data, in a transport's own format, for the target's transport with this scheme.
/// The host sends this message before `hello`.
struct setup {
  static constexpr control kind = control::setup;
  std::string scheme;
  std::vector<std::byte> bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static setup decode(std::span<const std::byte> body);
};

/// A transport sends bytes in its own format, and descriptors, to the transport of the same scheme
/// on another node. The host forwards the message.
struct transport {
  static constexpr control kind = control::transport;
  /// In a message to the host, number of the receiver. In a message from the host, number of the
  /// sender. no_node means the server that has started the target, which sends and receives such
  /// messages itself.
  node_id peer = no_node;
  std::string scheme;
  std::vector<std::byte> bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static transport decode(std::span<const std::byte> body);
};

/// Encodes the message and sends it on the control socket, like control_socket::send().
template <class Message>
bool send(control_socket& to, const Message& m, time_point deadline = no_deadline,
          std::span<const int> files = {}) {
  return to.send(Message::kind, m.encode(), files, deadline);
}
template <class Message>
bool try_send(control_socket& to, const Message& m) {
  return to.try_send(Message::kind, m.encode());
}

} // namespace farcall::messages
