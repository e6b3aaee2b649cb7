#pragma once

#include <farcall/trace/timeline_view.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace farcall::trace {

/// A timeline in the terms of the Open Trace Format (OTF2): places where things happen one after
/// the other, regions that are entered and left there, and messages between them.
struct archive {
  enum class event_type : std::uint8_t { enter, leave, send, receive };

  struct event {
    std::uint64_t ns = 0; ///< since the timeline's beginning
    event_type type{};
    std::uint32_t region = 0; ///< of enter and leave, in regions
    std::uint32_t peer = 0;   ///< of send and receive, in locations
    std::uint32_t tag = 0;    ///< of these; the same at both ends
  };
  struct location {
    std::size_t process = 0; ///< in processes
    std::string name;
    std::vector<event> events; ///< in the order of their times
  };
  enum class region_role : std::uint8_t { call, handler, wait, copy, range };
  struct region {
    std::string name;
    region_role role{};
  };

  std::vector<std::string> processes; ///< names
  std::vector<location> locations;    ///< threads
  std::vector<region> regions;
  std::uint64_t length_ns = 0; ///< of all
};

/// Calls that others are under way with are moments, where they are sent and where they end: their
/// messages say how long they took. A message leads from a call to its handler, and one back.
[[nodiscard]] archive archive_of(const timeline& from, const host_clock& clock,
                                 const std::function<std::string(node_id)>& name_of_node);

} // namespace farcall::trace
