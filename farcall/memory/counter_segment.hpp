// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/counters.hpp>
#include <farcall/memory/segment.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// The process and the job to which the counts belong.
struct counters_owner {
  node_id node = 0;
  std::int64_t host_process = 0; ///< process id of the job's host
  std::string host_machine;
};

/// Hands out blocks of counters. The block of a lane or thread that has ended is reused by another
/// lane or thread of the same kind and node, which continues the counts. Any thread may call the
/// functions.
class counter_segment {
 public:
  /// Name of the memory file, as other processes see it in /proc/PID/fd.
  static constexpr const char* label = "farcall-counters";

  /// Makes counters in private memory, which other processes cannot see.
  counter_segment() = default;
  /// Makes counters in a memory file, whose descriptor stays open, so that other processes of the
  /// same user find the file. Throws error if descriptors or address space run out.
  explicit counter_segment(const counters_owner& owner);
  counter_segment(const counter_segment&) = delete;
  counter_segment& operator=(const counter_segment&) = delete;
  ~counter_segment();

  /// Return a block of counts for the caller's use. This object owns the block, and the caller
  /// returns it by give_back(). These functions throw std::bad_alloc.
  [[nodiscard]] caller_counters& take_caller(node_id peer);
  [[nodiscard]] server_counters& take_server(node_id peer);
  [[nodiscard]] worker_counters& take_worker(std::uint32_t index, std::size_t handlers);
  [[nodiscard]] thread_counters& take_thread();
  void give_back(counter_block& block) noexcept;

  /// Stores the description of another node. Called once for each node. Texts are shortened to the
  /// size of their fields. Throws std::bad_alloc.
  void describe_peer(node_id peer, std::int64_t process, std::uint32_t workers,
                     std::string_view route, std::string_view machine, std::string_view name,
                     std::string_view server);
  /// Stores the names of the handlers in the order of their keys; called once. Throws
  /// std::bad_alloc.
  void name_functions(const std::vector<std::string>& names);
  /// Stores the name of the function that the handler named `handler` calls if a request has this
  /// function handle. Throws std::bad_alloc.
  void name_function(std::string_view handler, std::uint32_t handle, std::string_view name);

  /// Returns the descriptor of the memory file, which this object owns; -1 if there is none.
  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

 private:
  struct free_memory {
    void operator()(std::byte* at) const noexcept;
  };

  /// Returns a free block, or a new block, which `fill(block)` completes.
  template <class Block, class Fill>
  [[nodiscard]] Block& take(counter_kind kind, std::uint32_t number, std::size_t bytes,
                            const Fill& fill);
  /// Makes a new block. The caller holds the mutex.
  template <class Block, class Fill>
  [[nodiscard]] Block& make(counter_kind kind, std::uint32_t number, std::size_t bytes,
                            const Fill& fill);
  /// Returns zeroed memory, aligned to a cache line.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  [[nodiscard]] counters_header& header() noexcept {
    return *reinterpret_cast<counters_header*>(memory_.data());
  }

  segment memory_;
  std::mutex mutex_;
  std::atomic<std::size_t> given_back_{0};                       ///< blocks that are free
  std::vector<counter_block*> blocks_;                           ///< for reuse by take()
  std::vector<std::unique_ptr<std::byte, free_memory>> outside_; ///< blocks not in memory_
};

} // namespace farcall
