// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

namespace farcall {

/// Puts the bytes of a stream into a ring so that the ring's reader finds only whole records. The
/// reader waits for the first word of a record. That word is therefore kept outside the ring until
/// the whole record has arrived. Byte n of the stream gets position n in the ring. The bytes are
/// checked as if they came from a hostile peer.
class record_assembler {
 public:
  /// Assembles records in the ring at `ring`, which must be empty.
  record_assembler(std::byte* ring, std::uint32_t bytes) noexcept : ring_(ring), size_(bytes) {}

  using parts = std::array<iovec, 3>;
  /// Stores in `into` the parts of memory in which the caller has to store the next bytes of the
  /// stream. The first part may be the word that is kept outside the ring; the others are free
  /// parts of the ring. `consumed` is the position up to which the reader has read. Returns the
  /// number of parts; 0 if the ring is full.
  [[nodiscard]] std::size_t space(parts& into, std::uint64_t consumed) noexcept;

  /// Tells this object that the caller has stored `bytes` more bytes in the parts that space()
  /// returned. Makes all records visible that are now whole. Returns false if bytes of the stream
  /// form no record. In this case the reader finds the mark `corrupt` after the last whole record,
  /// and the caller must add no more bytes.
  [[nodiscard]] bool add(std::size_t bytes) noexcept;

  /// Ends the ring's content by a mark, `corrupt` or `lost`, which the reader finds after the last
  /// whole record.
  void mark(record_kind kind) noexcept;

  /// Replaces each record that the reader has not yet taken by the mark `lost`. `consumed` is the
  /// reader's position, or an earlier one. The reader may still get a record that it takes during
  /// this call.
  void revoke(std::uint64_t consumed) noexcept;

  /// Returns the position of the end of the last whole record.
  [[nodiscard]] std::uint64_t whole() const noexcept { return whole_; }
  /// True if no bytes of the next record have arrived.
  [[nodiscard]] bool is_between_records() const noexcept { return received_ == whole_; }

 private:
  [[nodiscard]] bool is_record(std::uint64_t at, std::uint32_t word) const noexcept;
  void put_word(std::uint64_t position, std::uint32_t word) noexcept;
  [[nodiscard]] std::uint32_t word_at(std::uint64_t position) const noexcept;

  std::byte* ring_;
  std::uint32_t size_;
  /// First word of the record at position whole_. The reader must not see this word before the
  /// whole record has arrived.
  std::uint32_t word_ = 0;
  std::uint64_t whole_ = 0;
  std::uint64_t received_ = 0;
};

} // namespace farcall
