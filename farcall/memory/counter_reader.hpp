// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/process_counters.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall {

/// Reads the counters of this process or another one from shared memory, without help from that
/// process. Does not trust the content of the segment.
class counter_reader {
 public:
  /// Maps the memory file of a counter_segment; the caller may close the file afterwards. Throws
  /// error if the file is no such segment, or was made by another version.
  explicit counter_reader(int file);

  /// Returns the current counts, without waiting. Throws error if the segment contradicts itself.
  [[nodiscard]] process_counters read() const;
  /// Returns, for each worker, the handler that it runs: its key in the lower half of the number,
  /// and the function handle in the upper half. Costs less than read(). The workers are in the same
  /// order as in read().workers. Throws like read().
  [[nodiscard]] std::vector<std::uint64_t> running() const;

  /// Returns the process id of the process whose counts the segment holds, in that process's own
  /// pid namespace.
  [[nodiscard]] std::int64_t process() const noexcept { return header().process; }

 private:
  struct unmap {
    // Without an initializer, because the struct is used before the class counter_reader is
    // complete.
    std::size_t bytes;
    void operator()(const std::byte* data) const noexcept;
  };

  [[nodiscard]] const counters_header& header() const noexcept {
    return *reinterpret_cast<const counters_header*>(data_.get());
  }
  /// Calls f(kind, block, bytes of the block) for each complete block.
  template <class F>
  void for_each_block(const F& f) const;

  std::unique_ptr<const std::byte, unmap> data_{nullptr, unmap{0}};
};

} // namespace farcall
