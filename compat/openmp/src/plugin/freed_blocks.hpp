// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace farcall::openmp {

/// Cache of large blocks of a device. The program has freed the blocks, and gets a block again when
/// it allocates the same size.
///
/// A node gives the pages of a large block back to the system when the block is freed. A program
/// that maps the same data for one region after the other would take pages again for each region,
/// which lasts longer than the copies. The memory of all large blocks is at most the memory that
/// the program has used at one time. One thread at a time may use the cache.
class freed_blocks {
 public:
  /// Size of the smallest block that is kept. Nodes keep the pages of smaller blocks.
  static constexpr std::size_t kept_from = std::size_t{64} << 20;

  /// Takes a freed block of this size. Returns its address, or an empty result if there is none.
  [[nodiscard]] std::optional<std::uint64_t> take(std::size_t bytes);
  /// Makes space for a new block of this size. Returns the addresses of blocks that the caller has
  /// to free before it allocates the new block.
  [[nodiscard]] std::vector<std::uint64_t> make_space(std::size_t bytes);
  /// Adds a new block, which the program uses.
  void add(std::uint64_t address, std::size_t bytes);
  /// Keeps a block that the program no longer uses. Returns false if the caller has to free it,
  /// because it is smaller than `kept_from`.
  [[nodiscard]] bool keep(std::uint64_t address);
  /// Returns the addresses of all blocks that are kept, which the caller has to free.
  [[nodiscard]] std::vector<std::uint64_t> drop();

 private:
  struct block {
    std::uint64_t address;
    std::size_t bytes;
  };

  /// Drops blocks, the oldest first, until at most `bytes` bytes are kept.
  std::vector<std::uint64_t> drop_to(std::size_t bytes);

  std::map<std::uint64_t, std::size_t> used_; ///< sizes of blocks in use, by address
  std::deque<block> kept_;                    ///< in the order in which they were freed
  std::size_t used_bytes_ = 0;
  std::size_t kept_bytes_ = 0;
  std::size_t most_used_ = 0; ///< largest value of used_bytes_
};

} // namespace farcall::openmp
