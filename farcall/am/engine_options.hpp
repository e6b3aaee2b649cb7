// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/peer_table.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/am/wait_policy.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/shared_heap.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace farcall::trace {
class recorder;
}

namespace farcall::am {

/// Settings of an engine, and the resources of its node.
struct engine_options {
  node_id self = 0;
  /// Bound below which all node numbers are, also the numbers of nodes that join the job later.
  std::size_t nodes = 1;
  /// Function that makes a node known to this engine when the node is used for the first time. Null
  /// if the job has one node.
  peer_table::introducer meet;
  /// Function that is called on the completion thread if a lane loses its connection to a node that
  /// is not known to have failed. Calls in such a lane may or may not have arrived, and callers get
  /// no error for calls without a reply. May be null.
  std::function<void(node_id)> lane_lost{};
  std::uint32_t workers = 1;
  /// True if the first worker alone runs all handlers. Lanes then get no separate worker, except
  /// lanes for stops of calls. The value must be the same on all nodes.
  bool has_one_worker = false;
  wait_policy waiting;
  /// True if threads of the program act as the first worker, through worker_pool::pulled(). The
  /// other workers help while no thread does.
  bool first_is_pulled = false;
  /// Wait policy of worker threads; if empty, `waiting` applies. On hosts and in jobs of equals it
  /// spins for a shorter time, because the program's own threads need the CPUs.
  std::optional<wait_policy> waiting_of_workers;
  /// True if the first worker, while idle, receives the replies to calls of all threads and runs
  /// their continuations. Such calls then complete even if no thread waits for them.
  bool progresses = false;
  /// Handlers of the user, whose keys begin at first_user_key.
  std::vector<handler_function> handlers;
  /// Doorbells of this node, in memory that peers can reach.
  std::span<doorbell> doorbells;
  std::shared_ptr<shared_heap> heap;
  /// Segment for the counters; null if no program reads them.
  std::shared_ptr<counter_segment> counters{};
  /// Context for handlers and for the functions that read replies.
  const call_context* context = nullptr;
  /// Recorder of trace events; null if the job is not traced.
  trace::recorder* recorder = nullptr;
};

} // namespace farcall::am
