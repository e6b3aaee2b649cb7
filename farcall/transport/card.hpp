// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/wire_release.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// Address range of a node's memory that its peers may map, or copy from and to.
struct memory_window {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// Description of a node: its identity, how peers can reach it, and which program it runs. Each
/// node sends its card to the others once, when it joins. Both ends compute the route between them
/// from their two cards, so there is no negotiation.
struct card {
  node_id id = 0;
  std::string name; ///< name in messages: "node 2", or the value of name= in the URL
  std::string host; ///< host name of the machine
  /// Identity of the running machine and the user; nodes with equal identities can share memory.
  std::string machine;
  std::string architecture; ///< "x86_64", "aarch64", …
  std::string transport;    ///< scheme of the URL with which the node was started
  std::uint64_t pid = 0;
  std::uint32_t cores = 0;   ///< processors that the node may run on
  std::uint32_t workers = 0; ///< threads that run handlers
  /// Identity of the program's image; in nodes with equal identities, functions have the same
  /// addresses.
  std::string build;
  std::uint64_t key_digest = 0; ///< digest of the function registry
  std::uint32_t lane_bytes = 0; ///< size of the rings of each lane that a peer opens to this node
  std::vector<memory_window> windows;
  /// Number of this node's owner, which is the node whose process runs this node. Only the owner
  /// can call this node. no_node if this node is a process.
  node_id owner = no_node;
  /// Data that each transport of this node has for the same transport of the peers. The map's key
  /// is the scheme of the transport. All other code ignores these bytes.
  std::map<std::string, std::vector<std::byte>, std::less<>> transports;
};

/// True if the node has no process of its own, so that its owner runs it and acts for it.
[[nodiscard]] inline bool is_hosted(const card& c) noexcept { return c.owner != no_node; }

/// Returns the card's data for the transport of this scheme, or an empty span if the card has none.
[[nodiscard]] std::span<const std::byte> bytes_for(const card& c, std::string_view scheme) noexcept;

/// Returns an identity of the running system and the user, made from the system's boot id; empty if
/// it cannot be read.
[[nodiscard]] std::string machine_identity();

/// Returns an identity of this process's network namespace that is unique over all machines; empty
/// if it cannot be read. Processes with equal identities reach each other by loopback addresses and
/// by abstract Unix sockets.
[[nodiscard]] std::string network_identity();

/// Returns the version, byte order and pointer size of this program in 16 bytes that any node can
/// read. A target sends these bytes before any message whose format depends on them.
[[nodiscard]] std::vector<std::byte> encode_format();

/// Checks the format bytes of another node. Throws malformed_message if they do not describe a
/// format. Throws error, saying what differs, if this program cannot work with that node.
void check_format(std::span<const std::byte> bytes);

/// Returns the encoded card, which begins with the version, byte order and pointer size.
[[nodiscard]] std::vector<std::byte> encode(const card& c);

/// Decodes a card that another node has sent. Throws malformed_message if the bytes are no card.
/// Throws error, saying what differs, if the card has another version, byte order or pointer size.
[[nodiscard]] card decode_card(std::span<const std::byte> bytes);

} // namespace farcall
