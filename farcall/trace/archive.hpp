// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/timeline_view.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace farcall::trace {

/// A timeline in the terms of the Open Trace Format (OTF2). Each location has a sequence of events,
/// regions that it enters and leaves, and messages to other locations.
struct archive {
  enum class event_type : std::uint8_t { enter, leave, send, receive };

  struct event {
    std::uint64_t ns = 0; ///< time since the timeline's origin, or since the earliest event if this
                          ///< event is before the origin
    event_type type{};
    std::uint32_t region = 0; ///< for enter and leave: index of the region in `regions`
    std::uint32_t peer = 0;   ///< for send and receive: index of the other location in `locations`
    std::uint32_t tag = 0;    ///< for send and receive: number of the message, equal at both ends
  };
  struct location {
    std::size_t process = 0; ///< index in processes
    std::string name;
    std::vector<event> events; ///< sorted by time
  };
  enum class region_role : std::uint8_t { call, handler, wait, copy, range };
  struct region {
    std::string name;
    region_role role{};
  };

  std::vector<std::string> processes; ///< names of processes
  std::vector<location> locations;    ///< one for each thread
  std::vector<region> regions;
  std::uint64_t length_ns = 0; ///< time of the last event
};

/// Converts a timeline. For each call, one message leads from the call to its handler, and another
/// one from the handler to the end of the call. A call that overlaps other calls cannot be a
/// region, because the regions of a location must be nested. Such a call becomes a region without
/// length at the time of its sending, and its messages show how long it took.
[[nodiscard]] archive archive_of(const timeline& from, const host_clock& clock,
                                 const std::function<std::string(node_id)>& name_of_node);

} // namespace farcall::trace
