// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/counters.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

/// Counts of a process at one moment. counters.hpp describes each count.
struct process_counters {
  /// Counts of a requester, the end of a lane that sends requests.
  struct caller {
    node_id peer = 0;
    bool is_open = false; ///< true if the lane is open. A lane that is opened later to the same
                          ///< node may continue the counts of a closed lane.
    std::uint64_t calls = 0;
    std::uint64_t posts = 0;
    std::uint64_t answers = 0;
    std::uint64_t batches = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t full = 0;
    std::uint64_t most_in_flight = 0;
    std::uint64_t failures = 0;
    std::uint64_t batched = 0;
    duration_counts latency;
  };
  /// Counts of a responder, the end of a lane that serves requests.
  struct server {
    node_id peer = 0;
    bool is_open = false;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
  };
  /// Counts of a thread that runs handlers.
  struct worker {
    std::uint32_t index = 0;
    std::uint32_t running_key = 0;    ///< 0 if no handler runs
    std::uint32_t running_handle = 0; ///< function handle of the running plain function
    std::uint64_t requests = 0;
    std::uint64_t sleeps = 0;
    std::vector<std::uint64_t> handlers; ///< number of completed requests, by the handler's key
  };
  /// Counts of a thread that calls or copies.
  struct thread {
    std::uint64_t puts = 0;
    std::uint64_t gets = 0;
    std::uint64_t copies = 0;
    std::uint64_t bytes_put = 0;
    std::uint64_t bytes_got = 0;
    std::uint64_t bytes_copied = 0;
    std::uint64_t sleeps = 0;
  };
  /// Description of a node, as this process knows it.
  struct peer {
    node_id node = 0;
    std::int64_t process = 0;
    std::uint32_t workers = 0;
    std::string route;
    std::string machine;
    std::string name;
    std::string server{}; ///< "host:port" of the server that started the node; empty if none did
  };
  /// Name of a function that a handler calls if a request has the function handle `handle`. The
  /// handlers for calls from C have such names.
  struct named_function {
    std::string handler; ///< the handler's mangled name
    std::uint32_t handle = 0;
    std::string name;
  };

  std::int64_t process = 0;
  std::int64_t host_process = 0;
  std::string host_machine;
  node_id node = 0;
  std::uint32_t unseen = 0; ///< number of blocks that did not fit the segment
  std::vector<caller> callers;
  std::vector<server> servers;
  std::vector<worker> workers;
  std::vector<thread> threads;
  std::vector<peer> peers;
  std::vector<std::string> functions; ///< mangled names of handlers, from the first user key on
  std::vector<named_function> named;
};

} // namespace farcall
