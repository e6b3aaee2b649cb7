#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/counters.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

/// What a process had counted at a moment; see counters.hpp for what each count means.
struct process_counters {
  /// The end of a lane that sends requests.
  struct caller {
    node_id peer = 0;
    bool is_open = false; ///< the lane; another may go on with the same counts
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
  /// The end of a lane that serves them.
  struct server {
    node_id peer = 0;
    bool is_open = false;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
  };
  /// A thread that runs handlers.
  struct worker {
    std::uint32_t index = 0;
    std::uint32_t running_key = 0;    ///< 0: none
    std::uint32_t running_handle = 0; ///< of a plain function
    std::uint64_t requests = 0;
    std::uint64_t sleeps = 0;
    std::vector<std::uint64_t> handlers; ///< counts, by key
  };
  /// One that calls, or copies.
  struct thread {
    std::uint64_t puts = 0;
    std::uint64_t gets = 0;
    std::uint64_t copies = 0;
    std::uint64_t bytes_put = 0;
    std::uint64_t bytes_got = 0;
    std::uint64_t bytes_copied = 0;
    std::uint64_t sleeps = 0;
  };
  /// A node as this one knows it.
  struct peer {
    node_id node = 0;
    std::int64_t process = 0;
    std::uint32_t workers = 0;
    std::string route;
    std::string machine;
    std::string name;
    std::string server{}; ///< "host:port" of the one that has started it; empty: none has
  };

  std::int64_t process = 0;
  std::int64_t host_process = 0;
  std::string host_machine;
  node_id node = 0;
  std::uint32_t unseen = 0; ///< blocks that found no space in the segment
  std::vector<caller> callers;
  std::vector<server> servers;
  std::vector<worker> workers;
  std::vector<thread> threads;
  std::vector<peer> peers;
  std::vector<std::string> functions; ///< names, mangled, of handlers from the first user key on
};

} // namespace farcall
