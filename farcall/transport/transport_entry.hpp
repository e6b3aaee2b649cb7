// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/group_place.hpp>
#include <farcall/transport/hosted_node.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The table of transports, with one row for each. All code that needs the list of schemes reads
/// this table: URLs of targets, jobs, `farcall info`, benchmarks and tests.
namespace farcall {

/// An option that a target's URL may have, in the form "name=value".
struct url_option {
  std::string name;
  std::string help;
  std::uint64_t low = 0; ///< smallest value of a numeric option
  std::uint64_t high = 0;
  std::uint64_t multiple_of = 1;
  std::string only; ///< the only allowed value of an option that is no number
  /// Remedy that the error text names if a URL has an option that does not exist although users may
  /// expect it. Empty if the option exists.
  std::string refusal;
};

/// Descriptions of the options cpu=, program= and count=, which have the same meaning in each row
/// that has them. The options workers= and name= are in no row, because all targets have them.
[[nodiscard]] url_option cpu_option();
[[nodiscard]] url_option program_option();
[[nodiscard]] url_option count_option();

/// Memory of a node of this machine, mapped into this process.
struct node_memory {
  node_id node = no_node;
  segment receive_segment;
  std::vector<segment> windows; ///< in the order in which the node's card lists the windows
};

/// A file that holds memory of this process.
struct memory_file {
  int file = -1; ///< descriptor, which stays open as long as the transports live
  std::uint64_t bytes = 0;
};

/// Parameters of the transports of a process. Objects to which they refer outlive the transports.
struct transport_site {
  node_id self = 0;
  /// Limit of the node numbers: all are lower, even of nodes that join later.
  std::size_t nodes = 1;
  std::uint32_t lane_bytes = 0; ///< size of a ring
  std::span<doorbell> doorbells;
  std::string machine;                      ///< see card::machine
  std::vector<memory_window> windows;       ///< memory of this process that peers may copy
  const segment* receive_segment = nullptr; ///< receive segment of this process, with its doorbells
  /// Files that hold this process's own memory, the receive segment first. Empty if the host sends
  /// the files to the other processes of this machine, so that the transport need not offer them.
  std::vector<memory_file> memory_files;
  /// Place of this process in its process group; nullopt if it is in none.
  std::optional<group_place> group;
  /// On the host, the launcher of the targets with this scheme. Null if there is no such launcher,
  /// and on other nodes.
  launcher* started_by = nullptr;
  /// Data that launcher::setup() has returned for this node; may be empty.
  std::span<const std::byte> setup;
  /// Sends a message through the host to the peer's transport of the same scheme, which handles it
  /// in transport::take_message(). Returns false if the message cannot be sent now, or if it has
  /// descriptors and the connection cannot carry them. Any thread may call this.
  std::function<bool(node_id peer, std::span<const std::byte>, std::span<const int> files)> tell;
};

/// Hardware or software of this machine that a transport uses; shown by `farcall info`.
struct availability {
  std::string name; ///< as written in a URL
  bool present = false;
  std::string text; ///< purpose of the resource, or why it is absent and the remedy
};

/// A row of the table of transports.
struct transport_entry {
  std::string scheme;
  std::string example;                    ///< example of a target's URL; empty if the scheme has no
                                          ///< targets
  std::vector<std::string> other_schemes; ///< other schemes with which URLs of the row's targets
                                          ///< may begin
  std::vector<url_option> options;
  std::uint32_t workers = 1; ///< default of the option workers=
  std::uint32_t workers_at_most = max_workers;
  /// True if the row's targets and the other nodes of this machine map each other's memory.
  bool maps_memory = false;

  /// Reads `place`, the part of a URL before the question mark, such as "scheme:…". Stores the
  /// address in url.address, and returns the number of targets. Throws setting_error, whose text
  /// begins with `what`. Null if only the scheme itself is allowed.
  std::function<std::uint64_t(std::string_view place, const std::string& what, target_url& url)>
      read_place;

  /// Returns the hardware and software of this machine that the transport uses.
  std::function<std::vector<availability>()> available;

  /// Makes the transport of a process, or returns null if the job does not need this transport.
  /// Throws error. The function is empty if each node of the row has a transport of its own, which
  /// `host` makes.
  std::function<std::unique_ptr<transport>(transport_site& site)> make;

  /// Makes the launcher of the row's targets. The function is empty if the targets are plain child
  /// processes of the host.
  std::function<std::unique_ptr<launcher>(const launch_site& site)> make_launcher;

  /// Connects this process, which something other than the host has started as number `rank`, to
  /// the host's port `name`. The row's launcher has opened this port with launcher::open_port().
  /// Throws error if the process cannot connect. The function is empty if the row has no such
  /// ports.
  std::function<port_connection(std::span<const std::byte> name, node_id rank, time_point deadline)>
      connect_port;

  /// Makes a target without a process, such as a device, which the host's process runs. Throws
  /// error. The function is empty for rows whose targets are processes.
  std::function<std::unique_ptr<hosted_node>(const target_url& url, const hosting_site& site)> host;
};

/// Implements read_place for rows whose URLs are "scheme" or "scheme:N", with a number N of
/// targets.
[[nodiscard]] std::uint64_t read_count(std::string_view place, const std::string& what,
                                       target_url& url);

/// Returns the rows of this program, in the order in which routes of equal cost are chosen. The
/// program's own rows are first, and the rows of modules follow. The first call loads the modules
/// that FARCALL_TRANSPORT_MODULES names or implies. Throws setting_error if a named module cannot
/// be loaded. Defined in farcall/transports.cpp, which sees all layers.
[[nodiscard]] std::span<const transport_entry> transports();

/// Returns the row whose scheme is `scheme`, or null if there is none.
[[nodiscard]] const transport_entry* find_transport(std::span<const transport_entry> rows,
                                                    std::string_view scheme) noexcept;

} // namespace farcall
