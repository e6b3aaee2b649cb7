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

/// The table of transports: one row for each. URLs of targets, jobs, `farcall info`, benchmarks and
/// tests read it; nothing else lists schemes.
namespace farcall {

/// An option of a target's URL, "name=value".
struct url_option {
  std::string name;
  std::string help;
  std::uint64_t low = 0; ///< of a number
  std::uint64_t high = 0;
  std::uint64_t multiple_of = 1;
  std::string only;    ///< the one value of an option that is no number
  std::string refusal; ///< what to do instead, for an option that one may expect and is not there
};

/// Options that mean the same wherever a row has them. All targets have workers= and name=.
[[nodiscard]] url_option cpu_option();
[[nodiscard]] url_option program_option();
[[nodiscard]] url_option count_option();

/// Memory of a node of this machine that is mapped here.
struct node_memory {
  node_id node = no_node;
  segment receive_segment;
  std::vector<segment> windows; ///< in the order of its card
};

/// A file that memory of this process is in.
struct memory_file {
  int file = -1; ///< stays open as long as the transports live
  std::uint64_t bytes = 0;
};

/// What a process has ready when its transports are made. References outlive the transports.
struct transport_site {
  node_id self = 0;
  std::size_t nodes = 1;        ///< numbers of nodes are below it, also of those that join later
  std::uint32_t lane_bytes = 0; ///< size of a ring
  std::span<doorbell> doorbells;
  std::string machine;                      ///< see card::machine
  std::vector<memory_window> windows;       ///< memory here that peers may copy
  const segment* receive_segment = nullptr; ///< our own, where the doorbells lie
  /// Of our own memory, the receive segment's first; none where the host hands it out to others of
  /// this machine.
  std::vector<memory_file> memory_files;
  std::optional<group_place> group; ///< none: the process was started in another way
  launcher* started_by = nullptr;   ///< on the host: of this scheme's targets, if there are any
  std::span<const std::byte> setup; ///< from launcher::setup; empty: nothing was said
  /// Brings a message to transport::take_message of the peer's transport of the same scheme,
  /// through the host. False when it cannot be sent now, or descriptors cannot go there. Any
  /// thread.
  std::function<bool(node_id peer, std::span<const std::byte>, std::span<const int> files)> tell;
};

/// What this machine has of a transport, for `farcall info`.
struct availability {
  std::string name; ///< as one would write it in a URL
  bool present = false;
  std::string text; ///< what it is for, or why it is absent and what to do
};

/// A row of the table.
struct transport_entry {
  std::string scheme;
  std::string example; ///< a URL of a target; empty: there are no targets of this scheme
  std::vector<std::string> other_schemes; ///< that URLs of its targets may begin with as well
  std::vector<url_option> options;
  std::uint32_t workers = 1; ///< where the URL says nothing
  std::uint32_t workers_at_most = most_workers;
  bool maps_memory = false; ///< its targets and the others of this machine map each other's memory

  /// Reads "scheme:…" up to the question mark into url.address; returns the number of targets.
  /// Throws setting_error that begins with `what`. Null: only the scheme stands there.
  std::function<std::uint64_t(std::string_view place, const std::string& what, target_url& url)>
      read_place;

  /// What there is of it on this machine.
  std::function<std::vector<availability>()> available;

  /// The transport of a process; null where the job has no use for it. Throws error. No function:
  /// the row's nodes bring their own, see host.
  std::function<std::unique_ptr<transport>(transport_site& site)> make;

  /// Starts the row's targets. No function: they are children of the host, like any other program.
  std::function<std::unique_ptr<launcher>(const launch_site& site)> make_launcher;

  /// Connects this process, number `rank` of those that something else has started, to the port
  /// that the row's launcher has opened on the host: launcher::open_port(). Throws error where it
  /// cannot. No function: there are no such ports.
  std::function<port_connection(std::span<const std::byte> name, node_id rank, time_point deadline)>
      connect_port;

  /// The row's targets are no processes, but live in the host's: makes one. Throws error.
  std::function<std::unique_ptr<hosted_node>(const target_url& url, const hosting_site& site)> host;
};

/// read_place of a row whose URLs are "scheme" or "scheme:N", N being a number of targets.
[[nodiscard]] std::uint64_t read_count(std::string_view place, const std::string& what,
                                       target_url& url);

/// The rows of this program, in the order in which routes of equal cost are chosen: its own, then
/// those of the modules that FARCALL_TRANSPORT_MODULES names or stands for, which the first call
/// loads. Throws setting_error when one that is named cannot be loaded. Defined where the layers
/// come together, in farcall/transports.cpp.
[[nodiscard]] std::span<const transport_entry> transports();

/// The row of a scheme, or null.
[[nodiscard]] const transport_entry* find_transport(std::span<const transport_entry> rows,
                                                    std::string_view scheme) noexcept;

} // namespace farcall
