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

/// Bodies of the messages on control sockets (docs/wire.md), one struct each. encode() gives the
/// bytes; decode() reads those of another process, and throws malformed_message for anything else,
/// bytes behind the end included.
namespace farcall::messages {

/// Target: I am here, and this is my format.
struct present {
  static constexpr control kind = control::present;
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws error, too, for a format that this program cannot work with.
  [[nodiscard]] static present decode(std::span<const std::byte> body);
};

/// Host: memory of a node of this machine. The descriptors follow: of its receive segment, then of
/// each window.
struct memory {
  static constexpr control kind = control::memory;
  node_id node = no_node;
  std::uint64_t receive_segment_bytes = 0;
  std::vector<std::uint64_t> window_bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static memory decode(std::span<const std::byte> body);
};

/// Host: who you are in this job.
struct hello {
  static constexpr control kind = control::hello;
  node_id node = no_node;
  std::uint32_t nodes = 0;
  std::uint32_t capacity = 0;   ///< numbers of nodes that join later are below it, too
  std::uint32_t lane_bytes = 0; ///< size of a ring
  std::uint64_t heap_bytes = 0; ///< most memory that a node shares; 0: all the machine has
  std::uint32_t workers = 1;
  std::optional<unsigned> cpu;
  std::string name;
  std::string scheme;
  std::vector<std::byte> settings; ///< for the layers that follow
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Throws error for the greeting of another wire version.
  [[nodiscard]] static hello decode(std::span<const std::byte> body);
};

/// Target: my card.
struct joined {
  static constexpr control kind = control::joined;
  card mine;
  [[nodiscard]] std::vector<std::byte> encode() const { return farcall::encode(mine); }
  [[nodiscard]] static joined decode(std::span<const std::byte> body) {
    return {decode_card(body)};
  }
};

/// Host: a node's card.
struct member {
  static constexpr control kind = control::member;
  card node;
  bool knows_you = false; ///< else it is told of you next, and you of that
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static member decode(std::span<const std::byte> body);
};

/// Host: what the node must know at the start was sent.
struct start {
  static constexpr control kind = control::start;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static start decode(std::span<const std::byte> body);
};

/// Host: a node takes no more part.
struct node_failed {
  static constexpr control kind = control::node_failed;
  node_id node = no_node;
  std::string why; ///< the beginning, if it is too long for a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static node_failed decode(std::span<const std::byte> body);
};

/// Target: a node that it does not know, and wants to use. The other is told of it first, and then
/// it of the other.
struct introduce {
  static constexpr control kind = control::introduce;
  node_id node = no_node;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static introduce decode(std::span<const std::byte> body);
};

/// Target: it knows that node now, and serves lanes of it.
struct introduced {
  static constexpr control kind = control::introduced;
  node_id node = no_node;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static introduced decode(std::span<const std::byte> body);
};

/// Host, to a target that wants to know a node: there is none with that number.
struct absent {
  static constexpr control kind = control::absent;
  node_id node = no_node;
  std::uint32_t nodes = 0; ///< that the job has
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static absent decode(std::span<const std::byte> body);
};

/// Host: finish what has arrived and end.
struct shut_down {
  static constexpr control kind = control::shut_down;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static shut_down decode(std::span<const std::byte> body);
};

/// Host: give a sign. Target: here it is.
struct heartbeat {
  static constexpr control kind = control::heartbeat;
  [[nodiscard]] std::vector<std::byte> encode() const { return {}; }
  [[nodiscard]] static heartbeat decode(std::span<const std::byte> body);
};

/// Target: why it cannot join, or go on.
struct refused {
  static constexpr control kind = control::refused;
  std::string why; ///< the beginning, if it is too long for a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static refused decode(std::span<const std::byte> body);
};

/// Target: where it faults, while it dies of that. All its other threads have stopped. The last one
/// counts: the place comes first, and then the functions that were running, too.
struct faulted {
  static constexpr control kind = control::faulted;
  std::int32_t signal = 0; ///< that it dies of
  bool has_names = false;  ///< nothing follows
  std::string where;       ///< the beginning, if it is too long for a text
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static faulted decode(std::span<const std::byte> body);
};

/// Server: how the target has ended, or why it cannot be reached any more.
struct ended {
  static constexpr control kind = control::ended;
  std::string how;        ///< the beginning, if it is too long for a text
  std::int32_t code = -1; ///< as child_process::exit_code(); less than 0: unknown
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static ended decode(std::span<const std::byte> body);
};

/// Server: what the target has printed. Between server and host only.
struct output {
  static constexpr control kind = control::output;
  output_stream stream = output_stream::output;
  std::string_view bytes; ///< lie elsewhere: decode() leaves them in the body
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static output decode(std::span<const std::byte> body);
};

/// Host, to a server: so many bytes of what the target has printed were written, so that the server
/// may send as many more.
struct written {
  static constexpr control kind = control::written;
  std::uint32_t bytes = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static written decode(std::span<const std::byte> body);
};

/// Target, in a job of equals that ends: it has nothing more to do in this round, or until others
/// have.
struct quiet {
  static constexpr control kind = control::quiet;
  std::uint32_t round = 0;
  bool was_active = false; ///< it has sent something since the round before
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static quiet decode(std::span<const std::byte> body);
};

/// Host, in a job of equals that ends: all nodes were quiet, and this round begins.
struct round {
  static constexpr control kind = control::round;
  std::uint32_t number = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static round decode(std::span<const std::byte> body);
};

/// Host: an open file that the target has asked for by this number. The descriptor follows.
struct file {
  static constexpr control kind = control::file;
  std::uint64_t number = 0;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static file decode(std::span<const std::byte> body);
};

/// Host, before hello: what the node's transport of this scheme must know, in its own bytes.
struct setup {
  static constexpr control kind = control::setup;
  std::string scheme;
  std::vector<std::byte> bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static setup decode(std::span<const std::byte> body);
};

/// From a transport to that of the same scheme on another node, in its own bytes, with its own
/// descriptors; goes through the host.
struct transport {
  static constexpr control kind = control::transport;
  node_id peer = no_node; ///< to the host: for whom; from it: from whom; no_node: our server
  std::string scheme;
  std::vector<std::byte> bytes;
  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static transport decode(std::span<const std::byte> body);
};

/// Sends a message; see control_socket.
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
