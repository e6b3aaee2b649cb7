#pragma once

#include <farcall/memory/process_counters.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall {

/// Reads another process's counters, or this one's, without that one's help. Nothing in the segment
/// is trusted.
class counter_reader {
 public:
  /// Maps the memory file of a counter_segment, which may be closed then. Throws error when it is
  /// none, or of another version.
  explicit counter_reader(int file);

  /// As of now, without waiting. Throws error when the segment contradicts itself.
  [[nodiscard]] process_counters read() const;
  /// What a worker runs, at the least cost: the same as read().workers[i].running_*, in order.
  /// Throws the same.
  [[nodiscard]] std::vector<std::uint64_t> running() const;

  /// Whose counts they are, by its number where it runs: in its own namespace of processes.
  [[nodiscard]] std::int64_t process() const noexcept { return header().process; }

 private:
  struct unmap {
    std::size_t bytes; // without an initializer: it is used before this class is complete
    void operator()(const std::byte* data) const noexcept;
  };

  [[nodiscard]] const counters_header& header() const noexcept {
    return *reinterpret_cast<const counters_header*>(data_.get());
  }
  /// f(kind, block, the block's bytes) for each that is complete.
  template <class F>
  void for_each_block(const F& f) const;

  std::unique_ptr<const std::byte, unmap> data_{nullptr, unmap{0}};
};

} // namespace farcall
