#pragma once

#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// Version of everything in docs/wire.md. Nodes of different versions refuse each other.
inline constexpr std::uint32_t wire_version = 15;

/// Memory of a node that its peers may map or copy from and to: an address range there.
struct memory_window {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// What a node tells the others about itself, once, when it joins: who it is, how it can be
/// reached, and what its program is. Both ends compute the route between them from their two cards,
/// so nothing is negotiated.
struct card {
  node_id id = 0;
  std::string name;         ///< "node 2", or what the URL's name= says
  std::string host;         ///< host name of the machine
  std::string machine;      ///< identifies the running machine: equal means shared memory works
  std::string architecture; ///< "x86_64", "aarch64", …
  std::string transport;    ///< scheme of the URL that the node was started with
  std::uint64_t pid = 0;
  std::uint32_t cores = 0;      ///< processors that the node may run on
  std::uint32_t workers = 0;    ///< threads that run handlers
  std::string build;            ///< identifies the program's image; equal means same addresses
  std::uint64_t key_digest = 0; ///< of the function registry
  std::uint32_t lane_bytes = 0; ///< ring size of lanes that are opened to this node
  std::vector<memory_window> windows;
  /// Node whose process this one lives in, and which alone can call it; no_node: it is a process.
  node_id owner = no_node;
  /// By scheme: what the transport there tells its peers, which nobody else reads.
  std::map<std::string, std::vector<std::byte>, std::less<>> transports;
};

/// Whether the node is no process of its own: its owner runs it and speaks for it.
[[nodiscard]] inline bool is_hosted(const card& c) noexcept { return c.owner != no_node; }

/// What the card says to the transport of a scheme; empty: nothing.
[[nodiscard]] std::span<const std::byte> bytes_for(const card& c, std::string_view scheme) noexcept;

/// Identifies the running system: its boot id and the user, or empty when it cannot be told.
[[nodiscard]] std::string machine_identity();

/// Identifies the network namespace of this process among all of all machines, or empty when it
/// cannot be told: where it is equal, loopback addresses and Unix sockets without a file lead
/// there.
[[nodiscard]] std::string network_identity();

/// Version, byte order and pointer size of this program, in 16 bytes that any node can read: what a
/// target says first, before anything that depends on them.
[[nodiscard]] std::vector<std::byte> encode_format();

/// Reads those of another node. Throws malformed_message for other bytes, and error, saying what
/// differs, for a node that this one cannot work with.
void check_format(std::span<const std::byte> bytes);

/// The card as bytes, with version, byte order and pointer size in front.
[[nodiscard]] std::vector<std::byte> encode(const card& c);

/// Reads a card from bytes of another node. Throws malformed_message for anything that is no card,
/// and error, saying what differs, for a card of another version, byte order or pointer size.
[[nodiscard]] card decode_card(std::span<const std::byte> bytes);

} // namespace farcall
