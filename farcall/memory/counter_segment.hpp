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

/// Whose counts they are.
struct counters_owner {
  node_id node = 0;
  std::int64_t host_process = 0; ///< of the job
  std::string host_machine;
};

/// Hands out blocks of counters. Those of lanes and threads that have ended are given to others of
/// the same kind and node, which count on. Any thread.
class counter_segment {
 public:
  /// As others see its name in /proc/PID/fd.
  static constexpr const char* label = "farcall-counters";

  /// In memory that no other process sees.
  counter_segment() = default;
  /// In a memory file, whose descriptor stays open: other processes of the same user find it by
  /// that. Throws error when descriptors or address space run out.
  explicit counter_segment(const counters_owner& owner);
  counter_segment(const counter_segment&) = delete;
  counter_segment& operator=(const counter_segment&) = delete;
  ~counter_segment();

  /// Each is this object's, until it is given back. They throw std::bad_alloc.
  [[nodiscard]] caller_counters& take_caller(node_id peer);
  [[nodiscard]] server_counters& take_server(node_id peer);
  [[nodiscard]] worker_counters& take_worker(std::uint32_t index, std::size_t handlers);
  [[nodiscard]] thread_counters& take_thread();
  void give_back(counter_block& block) noexcept;

  /// Another node, once; texts are cut to what a block holds. Throws std::bad_alloc.
  void describe_peer(node_id peer, std::int64_t process, std::uint32_t workers,
                     std::string_view route, std::string_view machine, std::string_view name,
                     std::string_view server);
  /// Names of the handlers, by key; once. Throws std::bad_alloc.
  void name_functions(const std::vector<std::string>& names);

  /// Of the memory file; -1 where there is none. Stays this object's.
  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

 private:
  struct free_memory {
    void operator()(std::byte* at) const noexcept;
  };

  /// One that nobody has, or a new one, which `fill(block)` completes.
  template <class Block, class Fill>
  [[nodiscard]] Block& take(counter_kind kind, std::uint32_t number, std::size_t bytes,
                            const Fill& fill);
  /// With the mutex.
  template <class Block, class Fill>
  [[nodiscard]] Block& make(counter_kind kind, std::uint32_t number, std::size_t bytes,
                            const Fill& fill);
  /// Zeroed, aligned to a line.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  [[nodiscard]] counters_header& header() noexcept {
    return *reinterpret_cast<counters_header*>(memory_.data());
  }

  segment memory_;
  std::mutex mutex_;
  std::atomic<std::size_t> given_back_{0};                       ///< blocks that nobody has
  std::vector<counter_block*> blocks_;                           ///< that can be taken again
  std::vector<std::unique_ptr<std::byte, free_memory>> outside_; ///< of blocks not in memory_
};

} // namespace farcall
